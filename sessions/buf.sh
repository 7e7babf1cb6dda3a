#!/usr/bin/env bash
# Runs buf, in this version, in the root of the repository:
#   sessions/buf.sh generate | lint | breaking
# Breaking compares with the records of the branch main, or of BASE.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
version=1.75.0
dir=$PWD/.tools/buf
if [ "$("$dir/node_modules/.bin/buf" --version 2>/dev/null)" != "$version" ]; then
	mkdir -p "$dir"
	printf '{"private":true}\n' >"$dir/package.json"
	(cd "$dir" && npm install --silent --no-audit --no-fund --no-package-lock "@bufbuild/buf@$version" >&2)
fi
# buf keeps a cache below HOME or XDG_CACHE_HOME; CI may have neither.
export XDG_CACHE_HOME=${XDG_CACHE_HOME:-$dir/cache}
if [ "${1:-}" = breaking ]; then
	# A clone of one branch knows main only as the remote's.
	base=${BASE:-main}
	git rev-parse --quiet --verify "$base^{commit}" >/dev/null || base=origin/$base
	old=$(mktemp -d)
	trap 'rm -rf "$old"' EXIT
	git archive "$base" buf.yaml sessions/records.proto | tar -x -C "$old"
	"$dir/node_modules/.bin/buf" breaking --against "$old"
	exit
fi
"$dir/node_modules/.bin/buf" "$@"

#!/usr/bin/env bash
# image/rootfs.sh FOLDER: what the image's second variant stands on: Debian with Node.js, npm, Python and uv, for stdio
# servers. It comes from Debian's packages (of MIRROR, default: debootstrap's), npm's and Python's, without a daemon or a
# base image; it needs root and debootstrap. Run again, it does nothing.
set -euo pipefail

SUITE=trixie
NPM_VERSION=11.21.2
UV_VERSION=0.13.9

root=$(realpath -m "$1")
want="$SUITE npm@$NPM_VERSION uv@$UV_VERSION"
[ "$(cat "$root/etc/mcp-via-llm-rootfs" 2>/dev/null)" = "$want" ] && exit 0
if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null; then
	echo "image/rootfs.sh needs root and debootstrap; docker build --target stdio makes the same variant" >&2
	exit 1
fi
rm -rf "$root"
mkdir -p "$root"
debootstrap --variant=minbase --include=ca-certificates,nodejs,python3 "$SUITE" "$root" ${MIRROR:+"$MIRROR"} >"$root.log" 2>&1 || { tail -n 20 "$root.log" >&2; exit 1; }

npm install --silent --global --prefix "$root/usr/local" "npm@$NPM_VERSION"
# uv is a program of its own, which a package of Python's brings.
python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --target "$root/opt/uv" "uv==$UV_VERSION"
install -m 755 "$root"/opt/uv/bin/uv "$root"/opt/uv/bin/uvx "$root/usr/local/bin/"

# What differs from machine to machine, is made at the start of a container, or is of no use in one; the licences stay.
rm -rf "${root:?}"/{dev,proc,run,sys,tmp}/* "$root"/opt/uv "$root"/var/{cache,log}/* "$root"/var/lib/apt/lists/* \
	"$root"/etc/{hostname,resolv.conf,machine-id} "$root"/usr/share/{info,locale,man}/*
find "$root/usr/share/doc" -type f ! -name copyright -delete
printf '%s\n' "$want" >"$root/etc/mcp-via-llm-rootfs"

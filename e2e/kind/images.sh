#!/usr/bin/env bash
# e2e/kind/images.sh: the images of the cluster test as archives in .tools/kind/images, and the test itself. Needs no
# registry and no daemon. With KIND_GATEWAY=0 those of Envoy Gateway are left out.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD
source e2e/versions.env
kind=$root/.tools/kind
out=$kind/images
mkdir -p "$out" "$kind/bin"
e2e/tools.sh test >&2
charts/tools.sh

say() { echo "e2e/kind/images.sh: $*" >&2; }
static() { CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$kind/bin/$1" "$2"; }
archive() { "$kind/bin/image" -ref "mcp-via-llm.test/$1" -o "$out/$2.tar" "${@:3}"; }
# once ARCHIVE VERSION: whether an archive of that version is missing
once() { [ "$(cat "$out/$1.version" 2>/dev/null)" != "$2" ] && rm -f "$out/$1.version"; }
made() { printf '%s\n' "$2" >"$out/$1.version"; }

(cd image && go vet . && go test . >&2 && go build -o "$kind/bin/image" .)

# The service in two versions, for an upgrade.
for version in one two; do
	VERSION=$version REF=mcp-via-llm.test/service:$version image/build.sh "$out/service-$version.tar" >&2
done

say "a scripted LLM, an MCP server, a collector"
static parts ./e2e/kind/parts
archive parts:e2e parts -entrypoint '["/parts"]' -add "$kind/bin/parts:/parts:755"

say "the MCP SDK's server with one of everything"
static everything github.com/modelcontextprotocol/go-sdk/conformance/everything-server
archive everything:e2e everything -entrypoint '["/everything"]' -add "$kind/bin/everything:/everything:755"

bridge="supergateway@$SUPERGATEWAY_VERSION filesystem@$MCP_FILESYSTEM_VERSION $(node --version)"
if once bridge "$bridge"; then
	say "a stdio server behind a bridge: supergateway $SUPERGATEWAY_VERSION"
	rm -rf "$kind/bridge"
	mkdir -p "$kind/bridge"
	printf '{"private":true}\n' >"$kind/bridge/package.json"
	(cd "$kind/bridge" && npm install --silent --no-package-lock "supergateway@$SUPERGATEWAY_VERSION" "@modelcontextprotocol/server-filesystem@$MCP_FILESYSTEM_VERSION" >&2)
	# supergateway starts its server by a shell.
	archive bridge:e2e bridge -ldd "$(node -p process.execPath):/usr/local/bin/node" -ldd "$(readlink -f /bin/sh):/bin/sh" -add "$kind/bridge/node_modules:/bridge/node_modules"
	made bridge "$bridge"
fi

for version in $ENVOY_VERSION ${ENVOY_OLDER##* }; do
	if once "envoy-$version" "$version"; then
		say "Envoy $version"
		archive "envoy:$version" "envoy-$version" -ldd ".tools/envoy/$version/bin/envoy:/usr/local/bin/envoy"
		made "envoy-$version" "$version"
	fi
done

redis=$(PATH=$PATH:$root/.tools/redis/bin command -v redis-server)
version=$("$redis" --version)
if once redis "$version"; then
	say "$version"
	archive redis:e2e redis -ldd "$redis:/usr/local/bin/redis-server"
	made redis "$version"
fi

if [ "${KIND_GATEWAY:-1}" = 1 ]; then
	if once gateway "$ENVOY_GATEWAY_VERSION"; then
		say "Envoy Gateway $ENVOY_GATEWAY_VERSION (minutes, the first time)"
		if [ ! -x "$kind/bin/envoy-gateway-$ENVOY_GATEWAY_VERSION" ]; then
			(cd "$kind" && GOBIN=$kind/gateway GOFLAGS=-trimpath CGO_ENABLED=0 go install "github.com/envoyproxy/gateway/cmd/envoy-gateway@v$ENVOY_GATEWAY_VERSION")
			mv "$kind/gateway/envoy-gateway" "$kind/bin/envoy-gateway-$ENVOY_GATEWAY_VERSION"
		fi
		archive gateway:e2e gateway -entrypoint '["/usr/local/bin/envoy-gateway"]' -add "$kind/bin/envoy-gateway-$ENVOY_GATEWAY_VERSION:/usr/local/bin/envoy-gateway:755"
		made gateway "$ENVOY_GATEWAY_VERSION"
	fi
	chart=$(cd "$kind" && go mod download -json "github.com/envoyproxy/gateway@v$ENVOY_GATEWAY_VERSION" | python3 -c 'import json,sys; print(json.load(sys.stdin)["Dir"])')
	rm -rf "$kind/gateway-helm"
	cp -r --no-preserve=mode "$chart/charts/gateway-helm" "$kind/gateway-helm"
	sed 's|\${GatewayImage}|mcp-via-llm.test/gateway:e2e|; s|\${GatewayImagePullPolicy}|IfNotPresent|' "$kind/gateway-helm/values.tmpl.yaml" >"$kind/gateway-helm/values.yaml"
fi

say "the test"
CGO_ENABLED=0 go test -c -o "$kind/bin/kind.test" ./e2e/kind

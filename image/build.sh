#!/usr/bin/env bash
# image/build.sh [ARCHIVE]: the service's image as an archive, without a daemon, a registry or a base image.
# REF names it (default: the chart's repository with VERSION), VERSION is what the program says of itself (default: of the
# commit), ARCH its architecture (default: this machine's). The same commit gives the same bytes.
# With VARIANT=stdio there are Node.js and Python in it (image/rootfs.sh), of this machine's architecture.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

VARIANT=${VARIANT:-}
archive=$(realpath -m "${1:-bin/image${VARIANT:+-$VARIANT}.tar}")
ARCH=${ARCH:-$(go env GOARCH)}
VERSION=${VERSION:-$(git describe --tags --always --dirty)}
REF=${REF:-ghcr.io/mcp-via-llm/mcp-via-llm:${VERSION#v}${VARIANT:+-$VARIANT}}
revision=$(git rev-parse HEAD)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

work=bin/image-$ARCH
mkdir -p "$work" "$(dirname "$archive")"
CGO_ENABLED=0 GOOS=linux GOARCH=$ARCH go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$VERSION" \
	-o "$work/mcp-via-llm" ./cmd/mcp-via-llm

# What is in it: CycloneDX, from what the Go tool recorded in the program itself. No serial number and no time: they would
# differ each time.
(cd image && go tool cyclonedx-gomod bin -json -noserial -notimestamp -version "$VERSION" \
	-output "../$work/sbom.cdx.json" "../$work/mcp-via-llm")

arguments=(
	-ref "$REF" -o "$archive" -arch "$ARCH" -entrypoint '["/mcp-via-llm"]'
	-add "$PWD/$work/mcp-via-llm:/mcp-via-llm:755"
	-add "$PWD/$work/sbom.cdx.json:/usr/share/sbom/mcp-via-llm.cdx.json:644"
	-add "$PWD/LICENSE:/usr/share/licenses/mcp-via-llm/LICENSE:644"
	-label "org.opencontainers.image.title=mcp-via-llm"
	-label "org.opencontainers.image.description=MCP tools for every OpenAI-compatible application, as an Envoy external processor"
	-label "org.opencontainers.image.version=$VERSION"
	-label "org.opencontainers.image.revision=$revision"
	-label "org.opencontainers.image.created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)"
	-label "org.opencontainers.image.source=https://github.com/mcp-via-llm/mcp-via-llm"
	-label "org.opencontainers.image.licenses=Apache-2.0"
)
case $VARIANT in
"") ;;
stdio)
	[ "$ARCH" = "$(go env GOHOSTARCH)" ] || { echo "VARIANT=stdio: only for this machine's architecture" >&2; exit 1; }
	image/rootfs.sh "$work/rootfs"
	# npx and uvx keep what they fetch under /tmp: the chart mounts an empty folder there, the rest of the root is read-only.
	arguments+=(-add "$PWD/$work/rootfs:/" -env HOME=/tmp -env NPM_CONFIG_CACHE=/tmp/npm -env UV_CACHE_DIR=/tmp/uv -env UV_TOOL_DIR=/tmp/uv-tools)
	;;
*) echo "VARIANT=$VARIANT: there is none but stdio" >&2; exit 2 ;;
esac
(cd image && go run . "${arguments[@]}")
echo "$archive: $REF ($ARCH), $(($(stat -c %s "$archive") / 1048576)) MiB"
echo "bill of materials: $work/sbom.cdx.json"

# The service's image: one static program on nothing else, which runs as nobody and writes nothing.
#
#   docker build --build-arg VERSION="$(git describe --tags --always)" -t mcp-via-llm:local .
#   docker build --target stdio -t mcp-via-llm:local-stdio .     with Node.js and Python, for stdio servers inside the pod
#
# Base images are named by tag and by the digest of the tag's index, which holds every platform. For a newer one, change
# both: `docker buildx imagetools inspect golang:1.26.8-bookworm` prints the digest.
#
# `make image` makes the first one without Docker, registry and base image, `make image-stdio` the second one.
ARG GO_IMAGE=golang:1.26.8-bookworm@sha256:dc9ad6c05acc7a88e5b71bde60a5fe3bd4b9f0db209011711b464107438a8107
ARG NODE_IMAGE=node:24.18.0-bookworm-slim@sha256:6f7b03f7c2c8e2e784dcf9295400527b9b1270fd37b7e9a7285cf83b6951452d

FROM ${GO_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
COPY image/go.mod image/go.sum image/
RUN go mod download && cd image && go mod download
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=${VERSION}" -o /out/mcp-via-llm ./cmd/mcp-via-llm
RUN cd image && go tool cyclonedx-gomod bin -json -noserial -notimestamp -version "${VERSION}" -output /out/sbom.cdx.json /out/mcp-via-llm

# Servers started by `command` run in the service's own container, with its files and its network. One that is not
# trusted, or needs much memory, is better a container of its own: see mcpServers in the chart's values.
FROM ${NODE_IMAGE} AS stdio
RUN apt-get update \
	&& apt-get install -y --no-install-recommends ca-certificates python3 python3-venv pipx \
	&& PIPX_HOME=/opt/pipx PIPX_BIN_DIR=/usr/local/bin pipx install uv \
	&& rm -rf /var/lib/apt/lists/*
COPY --from=build /out/mcp-via-llm /mcp-via-llm
COPY --from=build /out/sbom.cdx.json /usr/share/sbom/mcp-via-llm.cdx.json
# npx and uvx keep what they fetch under /tmp: the chart mounts an empty folder there, the rest of the root is read-only.
ENV HOME=/tmp NPM_CONFIG_CACHE=/tmp/npm UV_CACHE_DIR=/tmp/uv UV_TOOL_DIR=/tmp/uv-tools
USER 65532:65532
ENTRYPOINT ["/mcp-via-llm"]
ARG VERSION=dev
LABEL org.opencontainers.image.title="mcp-via-llm" \
	org.opencontainers.image.description="MCP via LLM with Node.js and Python for stdio servers" \
	org.opencontainers.image.version="${VERSION}" \
	org.opencontainers.image.source="https://github.com/mcp-via-llm/mcp-via-llm" \
	org.opencontainers.image.licenses="Apache-2.0"

FROM scratch
COPY --from=build /out/mcp-via-llm /mcp-via-llm
COPY --from=build /out/sbom.cdx.json /usr/share/sbom/mcp-via-llm.cdx.json
COPY LICENSE /usr/share/licenses/mcp-via-llm/LICENSE
USER 65532:65532
ENTRYPOINT ["/mcp-via-llm"]
ARG VERSION=dev
LABEL org.opencontainers.image.title="mcp-via-llm" \
	org.opencontainers.image.description="MCP tools for every OpenAI-compatible application, as an Envoy external processor" \
	org.opencontainers.image.version="${VERSION}" \
	org.opencontainers.image.source="https://github.com/mcp-via-llm/mcp-via-llm" \
	org.opencontainers.image.licenses="Apache-2.0"

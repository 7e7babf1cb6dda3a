#!/usr/bin/env bash
# charts/check.sh: the chart in every shape of ci/: linted, rendered, checked against the schemas of Kubernetes and of the
# integrations, and unit-tested; no cluster is needed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
charts/tools.sh
export PATH=$PWD/.tools/kube/bin:$PATH
chart=charts/mcp-via-llm
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

for values in "$chart"/ci/*-values.yaml; do
	shape=$(basename "$values" -values.yaml)
	helm lint --strict "$chart" -f "$values" >"$out/lint" 2>&1 || { cat "$out/lint"; exit 1; }
	helm template release "$chart" -n apps -f "$values" >"$out/$shape.yaml"
	echo "$shape: linted, rendered"
done
go run ./charts/validate -schemas .tools/kube/schemas -crds .tools/kube/crds -values "$chart/values.schema.json" "$out"/*.yaml

# The configuration that each shape gives the service is one that it takes, as far as that can be known without secrets.
go build -o "$out/mcp-via-llm" ./cmd/mcp-via-llm
for values in "$chart"/ci/*-values.yaml; do
	shape=$(basename "$values" -values.yaml)
	for template in configmap envoy; do
		helm template release "$chart" -n apps -f "$values" -s "templates/$template.yaml" 2>/dev/null >"$out/one" || continue
		python3 - "$out/one" "$out/config.yaml" <<'PYTHON'
import re, sys
text = open(sys.argv[1]).read()
body = re.search(r"^  config\.yaml: \|\n((?:    .*\n|\n)+)", text, re.M).group(1)
body = re.sub(r"\$\{file:[^}]*/key\}", "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=", body) # a key has a form
open(sys.argv[2], "w").write(re.sub(r"\$\{[^}]*\}", "secret", re.sub(r"^    ", "", body, flags=re.M)))
PYTHON
		"$out/mcp-via-llm" check --config "$out/config.yaml" >/dev/null
		[ "$template" = configmap ] || "$out/mcp-via-llm" envoy-config --config "$out/config.yaml" >"$out/bootstrap.yaml"
		if [ "$template" = envoy ] && [ "$shape" != bundled ]; then # that one names files that are not here
			.tools/envoy/1.40.0/bin/envoy --mode validate -c "$out/bootstrap.yaml" >"$out/envoy.log" 2>&1 || { cat "$out/envoy.log"; exit 1; }
		fi
	done
	echo "$shape: the service takes its configuration"
done

# What needs a restart changes the pods, and nothing else does.
checksum() { helm template release "$chart" -f "$chart/ci/minimal-values.yaml" -s templates/deployment.yaml "$@" | grep checksum/restart; }
[ "$(checksum)" = "$(checksum --set config.servers.more.url=http://more)" ] || { echo "another server restarts pods"; exit 1; }
[ "$(checksum)" != "$(checksum --set config.log.level=debug)" ] || { echo "another log level restarts no pods"; exit 1; }

helm-unittest "$chart"

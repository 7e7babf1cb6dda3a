#!/usr/bin/env bash
# e2e/kind/run.sh [TEST FLAGS]: the chart in a real cluster: makes one (e2e/kind/cluster.sh), loads the images, runs the tests.
# KEEP=1 leaves the cluster and the release for a look.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD
export PATH=$root/.tools/kube/bin:$root/.tools/kind/bin:$PATH

way=$(e2e/kind/cluster.sh can) || e2e/kind/cluster.sh up # which says why not
e2e/kind/cluster.sh prepare
e2e/kind/images.sh
cleanup() {
	case ${KEEP:-}$way in
	1*) echo "left as it is; to use it: source .tools/kind/usage.sh" ;;
	given) ${INSIDE:-} kubectl delete namespace mcp-e2e --ignore-not-found --wait=false ;;
	docker) env -u KUBECONFIG "$root/e2e/kind/cluster.sh" down ;;
	scripts) env -u KUBECONFIG -u DOCKER_HOST "$root/e2e/kind/cluster.sh" down ;;
	esac
}
trap cleanup EXIT

e2e/kind/cluster.sh up
cat .tools/kind/usage.sh
source .tools/kind/usage.sh

for archive in .tools/kind/images/*.tar; do
	echo "loading $(basename "$archive")"
	$INSIDE timeout 600 $LOAD "$archive" >/dev/null
done
source e2e/versions.env
export ENVOY_VERSION ENVOY_OLDER
cd e2e/kind
$INSIDE "$root/.tools/kind/bin/kind.test" -test.v -test.timeout 30m "$@"

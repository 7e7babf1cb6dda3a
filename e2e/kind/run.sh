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
usage=$(e2e/kind/cluster.sh up)
echo "$usage"
eval "$usage"

cleanup() {
	if [ "${KEEP:-}" = 1 ]; then
		echo "left as it is: $usage"
	elif [ "$way" = given ]; then
		$RUN kubectl delete namespace mcp-e2e --wait=false
	else
		env -u KUBECONFIG -u DOCKER_HOST e2e/kind/cluster.sh down
	fi
}
trap cleanup EXIT

for archive in .tools/kind/images/*.tar; do
	echo "loading $(basename "$archive")"
	$RUN $LOAD "$archive" >/dev/null
done
cd e2e/kind
$RUN "$root/.tools/kind/bin/kind.test" -test.v -test.timeout 30m "$@"

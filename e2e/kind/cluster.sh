#!/usr/bin/env bash
# e2e/kind/cluster.sh: a cluster for the test, one way or another.
#
#   can       says whether there can be one here, and why not
#   prepare   does what takes long and needs no cluster
#   up        makes it, and says in .tools/kind/usage.sh how to use it: KUBECONFIG, INSIDE (a prefix of what talks to it), LOAD
#             (what loads an image archive)
#   down      removes it
#
# 1. KUBECONFIG is set: that cluster, which should be one for tests alone: it gets custom resource definitions and Envoy
#    Gateway, and its nodes' addresses must be reachable from here (or INSIDE says how). LOAD says how it gets an archive,
#    such as "k3s ctr images import"; default: kind's way, with the cluster's name from KIND_CLUSTER.
# 2. A Docker daemon answers: `kind create cluster`.
# 3. KIND_SCRIPTS names a folder with scripts that make a kind cluster where images cannot be pulled (build.sh,
#    node-image.sh, dockerd.sh, up.sh, down.sh, each with a working folder).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD
source e2e/versions.env
name=${KIND_CLUSTER:-mcp-e2e}
scripts=${KIND_SCRIPTS:-/nonexistent}
work=${KIND_WORK:-/var/cache/e2e-kind}
export PATH=$root/.tools/kube/bin:$root/.tools/kind/bin:$PATH

way() {
	if [ -n "${KUBECONFIG:-}" ]; then
		echo given
	elif timeout 20 docker info >/dev/null 2>&1; then
		echo docker
	elif [ -x "$scripts/up.sh" ] && [ "$(id -u)" = 0 ]; then
		echo scripts
	else
		echo none
	fi
}

# The packages that the scripts want.
packages() {
	for program in dockerd debootstrap jq iptables conntrack unzip; do
		command -v $program >/dev/null || {
			export DEBIAN_FRONTEND=noninteractive
			apt-get update -qq && apt-get install -y -qq --no-install-recommends docker.io debootstrap jq iptables conntrack unzip
			return
		}
	done
}

prepare() {
	charts/tools.sh
	case $(way) in
	docker)
		[ -x .tools/kind/bin/kind ] || GOBIN=$root/.tools/kind/bin go install "sigs.k8s.io/kind@v$KIND_VERSION"
		;;
	scripts)
		packages
		mkdir -p "$work"
		"$scripts/build.sh" "$work"
		[ -e "$work/node.tar" ] || "$scripts/node-image.sh" "$work"
		;;
	esac
}

usage() { printf 'export %s\n' "$*" >.tools/kind/usage.sh; }

up() {
	mkdir -p .tools/kind
	case $(way) in
	given)
		usage "KUBECONFIG='$KUBECONFIG' INSIDE='${INSIDE:-}' LOAD='${LOAD:-kind load image-archive --name $name}'"
		;;
	docker)
		kind get clusters 2>/dev/null | grep -qx "$name" || kind create cluster --name "$name" --kubeconfig "$root/.tools/kind/kubeconfig" --wait 3m
		usage "KUBECONFIG='$root/.tools/kind/kubeconfig' INSIDE='' LOAD='kind load image-archive --name $name'"
		;;
	scripts)
		export DOCKER_HOST=unix://$work/docker.sock
		# The daemon stays: it must not hold what this was started with.
		docker version >/dev/null 2>&1 || "$scripts/dockerd.sh" "$work" </dev/null >"$work/dockerd.out" 2>&1
		space="nsenter -t $(cat "$work/ns.pid") --net"
		$space "$work/bin/kind" get clusters 2>/dev/null | grep -qx e2e || "$scripts/up.sh" "$work"
		usage "DOCKER_HOST='$DOCKER_HOST' KUBECONFIG='$work/kubeconfig' INSIDE='$space' LOAD='$work/bin/kind load image-archive --name e2e'"
		;;
	none)
		echo "no cluster: KUBECONFIG is not set, no Docker daemon answers, and KIND_SCRIPTS names no scripts" >&2
		return 1
		;;
	esac
}

down() {
	case $(way) in
	docker) kind delete cluster --name "$name" ;;
	scripts) "$scripts/down.sh" "$work" ;;
	esac
}

case ${1:-} in
can) [ "$(way)" != none ] && way ;;
prepare) prepare >&2 ;;
up) up ;;
down) down ;;
*) echo "usage: e2e/kind/cluster.sh can|prepare|up|down" >&2; exit 2 ;;
esac

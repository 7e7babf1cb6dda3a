#!/usr/bin/env bash
# e2e/kind/ci.sh: the cluster test in CI, beside the other tests.
#
#   begin    starts what takes long the first time (a cluster's parts, images) in the background, behind everything else
#   finish   waits for that, runs the test, and says loudly if it could not: then it fails, unless KIND is optional or skip
#
# A machine can run it that has a cluster (KUBECONFIG), a Docker daemon, or scripts that make one; see e2e/kind/cluster.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
log=$PWD/.tools/kind/prepare.log
pid=$PWD/.tools/kind/prepare.pid
mkdir -p .tools/kind

can() {
	[ "${KIND:-}" != skip ] && e2e/kind/cluster.sh can
}

begin() {
	rm -f "$pid"
	way=$(can) || return 0
	echo "the cluster test's parts are being made in the background ($way), see $log"
	nohup setsid nice -n 10 bash -c 'time { e2e/kind/cluster.sh prepare && e2e/kind/images.sh; }' >"$log" 2>&1 </dev/null &
	echo $! >"$pid"
}

finish() {
	if ! can >/dev/null; then
		cat <<-'END'

			************************************************************************
			* THE CHART WAS NOT TESTED IN A CLUSTER: there is none, and none can be
			* made here. Needed: KUBECONFIG, or a Docker daemon, or KIND_SCRIPTS
			* (e2e/kind/cluster.sh). KIND=optional lets CI pass without it.
			************************************************************************
		END
		case ${KIND:-} in optional | skip) return 0 ;; *) return 1 ;; esac
	fi
	if [ -e "$pid" ]; then
		for ((seconds = 0; seconds < 1800; seconds++)); do
			kill -0 "$(cat "$pid")" 2>/dev/null || break
			[ $((seconds % 60)) -ne 59 ] || echo "still being made: $(tail -n 1 "$log")"
			sleep 1
		done
		if kill -0 "$(cat "$pid")" 2>/dev/null; then
			kill -- "-$(cat "$pid")" # it leads its process group
			echo "the cluster test's parts were not made within 30 minutes:" >&2
			tail -n 40 "$log" >&2
			return 1
		fi
		tail -n 4 "$log"
	fi
	e2e/kind/run.sh # which makes what is still missing, and says why it cannot
}

case ${1:-} in
begin) begin ;;
finish) finish ;;
*) echo "usage: e2e/kind/ci.sh begin|finish" >&2; exit 2 ;;
esac

#!/usr/bin/env bash
# Runs a step of action.yml: sets the environment of ../ci.sh, and passes its results on.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

export ESPALIER_WORK=$RUNNER_TEMP/espalier
export ESPALIER_FORMAT=github
export ESPALIER_RUN_URL=$GITHUB_SERVER_URL/$GITHUB_REPOSITORY/actions/runs/${GITHUB_RUN_ID:-}
mkdir -p "$ESPALIER_WORK"

case $1 in
install)
	releases=$GITHUB_SERVER_URL/$ACTION_REPOSITORY/releases
	export ESPALIER_RELEASES=$releases/download ESPALIER_LATEST=$releases/latest
	if [ -z "${ESPALIER_VERSION:-}" ]; then
		# The ref of the action is a release, or a branch, a commit or a tag such as v1.
		ESPALIER_VERSION=latest
		if [[ $ACTION_REF =~ ^v[0-9]+\.[0-9]+\.[0-9]+ ]]; then ESPALIER_VERSION=$ACTION_REF; fi
		export ESPALIER_VERSION
	fi
	exec "$here/../ci.sh" install
	;;
run)
	export ESPALIER_BASE=${INPUT_BASE:-$EVENT_BASE}
	"$here/../ci.sh" run
	cat "$ESPALIER_WORK/reports/outputs" >>"$GITHUB_OUTPUT"
	cat "$ESPALIER_WORK/reports/summary.md" >>"$GITHUB_STEP_SUMMARY"
	;;
*)
	exec "$here/../ci.sh" "$1"
	;;
esac

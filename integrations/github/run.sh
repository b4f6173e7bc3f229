#!/usr/bin/env bash
# Runs a step of action.yml: sets the environment of ../ci.sh, and passes its results on.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

export ESPALIER_WORK=${ESPALIER_WORK:-}
export ESPALIER_FORMAT=github
export ESPALIER_RUN_URL=$GITHUB_SERVER_URL/$GITHUB_REPOSITORY/actions/runs/${GITHUB_RUN_ID:-}

case $1 in
install)
	# A job may use the action several times.
	ESPALIER_WORK=$(mktemp -d "$RUNNER_TEMP/espalier.XXXXXX")
	printf 'work=%s\n' "$ESPALIER_WORK" >>"$GITHUB_OUTPUT"
	releases=$GITHUB_SERVER_URL/$ACTION_REPOSITORY/releases
	export ESPALIER_RELEASES=$releases/download ESPALIER_LATEST=$releases/latest
	export ESPALIER_VERSION=${ESPALIER_VERSION:-}
	if [ -z "$ESPALIER_VERSION" ]; then
		# The ref of the action is a release, or a branch, a commit or a tag such as v1. The file
		# version names the release that these belong to.
		if [[ $ACTION_REF =~ ^v[0-9]+\.[0-9]+\.[0-9]+([-+][A-Za-z0-9.+-]+)?$ ]]; then
			ESPALIER_VERSION=$ACTION_REF
		elif [ -f "$here/../version" ]; then
			ESPALIER_VERSION=$(tr -d ' \t\r\n' <"$here/../version")
		fi
	fi
	exec "$here/../ci.sh" install
	;;
run)
	"$here/../ci.sh" run
	cat "$ESPALIER_WORK/reports/outputs" >>"$GITHUB_OUTPUT"
	cat "$ESPALIER_WORK/reports/summary.md" >>"$GITHUB_STEP_SUMMARY"
	;;
*)
	exec "$here/../ci.sh" "$1"
	;;
esac

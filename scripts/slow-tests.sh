#!/usr/bin/env bash
# Runs the tests of the module in the working directory that look at testing.Short(), completely: `make test` has left them
# out, or has shortened them.
#
#	slow-tests.sh "PACKAGE…" COMMAND…
#
# The command runs tests as gotestsum does.
set -euo pipefail
packages=$1
shift

# shellcheck disable=SC2086 # a list
files=$(go list -f '{{range .TestGoFiles}}{{$.Dir}}/{{.}}
{{end}}{{range .XTestGoFiles}}{{$.Dir}}/{{.}}
{{end}}' $packages | grep . || true)
# The directory and the name of each such test.
# shellcheck disable=SC2086 # a list
tests=$(awk 'FNR == 1 || /^func / { name = "" }
  /^func (Test|Fuzz)/ { name = $2; sub(/\(.*/, "", name) }
  /testing\.Short\(\)/ && name { dir = FILENAME; sub(/\/[^\/]*$/, "", dir); print dir, name; name = "" }' $files </dev/null)
if [ -z "$tests" ]; then
  exit
fi
"$@" --packages "$(cut -d' ' -f1 <<<"$tests" | sort -u | paste -sd ' ')" -- -timeout=30m \
  -run "^($(cut -d' ' -f2 <<<"$tests" | sort -u | paste -sd '|'))\$"

#!/usr/bin/env bash
# fuzz.sh MODULE...: runs every fuzz target of the modules for FUZZTIME each.
# A failing input is written to the package's testdata/fuzz: commit it as a
# regression test.
set -uo pipefail

rc=0
out=$(mktemp)
trap 'rm -f "$out"' EXIT
for file in $(find "$@" -name '*_test.go' -not -path '*/testdata/*' | sed -E 's|/+|/|g' | sort -u); do
  dir=${file%/*}
  for target in $(sed -nE 's/^func (Fuzz[A-Z_0-9][A-Za-z_0-9]*)\(.*/\1/p' "$file"); do
    echo "== $dir: $target for $FUZZTIME"
    if ! (cd "$dir" && go test -run '^$' -fuzz "^$target\$" -fuzztime "$FUZZTIME" .) 2>&1 | tee "$out"; then
      # If the time is over while an input is tried, go test says so and fails. That is no finding.
      if grep -q 'Failing input written' "$out" || ! grep -qx ' *context deadline exceeded' "$out"; then
        rc=1
      fi
    fi
  done
done
exit $rc

#!/usr/bin/env bash
# fuzz.sh MODULE...: runs every fuzz target of the modules for FUZZTIME each.
# A failing input is written to the package's testdata/fuzz: commit it as a
# regression test.
set -uo pipefail

rc=0
for file in $(find "$@" -name '*_test.go' -not -path '*/testdata/*' | sed -E 's|/+|/|g' | sort -u); do
  dir=${file%/*}
  for target in $(sed -nE 's/^func (Fuzz[A-Z_0-9][A-Za-z_0-9]*)\(.*/\1/p' "$file"); do
    echo "== $dir: $target for $FUZZTIME"
    (cd "$dir" && go test -run '^$' -fuzz "^$target\$" -fuzztime "$FUZZTIME" .) || rc=1
  done
done
exit $rc

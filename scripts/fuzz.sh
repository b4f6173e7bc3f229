#!/usr/bin/env bash
# fuzz.sh MODULE...: runs every native fuzz target of the modules for FUZZTIME each.
# What a target finds is written to the package's testdata/fuzz: keep it there as a
# regression input.
set -uo pipefail

rc=0
for m in "$@"; do
  pkgs=$(cd "$m" && go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...) || exit 1
  for pkg in $pkgs; do
    list=$(cd "$m" && go test -list '^Fuzz' "$pkg") || { echo "$list"; exit 1; }
    for target in $(grep '^Fuzz' <<<"$list"); do
      echo "== $pkg: $target for $FUZZTIME"
      (cd "$m" && go test -run '^$' -fuzz "^$target\$" -fuzztime "$FUZZTIME" "$pkg") || rc=1
    done
  done
done
exit $rc

#!/usr/bin/env bash
# prove.sh ROW MODULE...: runs the subtests named ROW in the modules, and fails if
# one fails or if there is none that passes (a skipped test proves nothing).
set -uo pipefail

row=$1
shift
if ! [[ $row =~ ^[A-Z]+-[0-9]+$ ]]; then
  echo "usage: make prove ROW=P-07" >&2
  exit 2
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT

rc=0
passed=0
for m in "$@"; do
  # The suffix is what the testing package appends to a name that comes twice.
  if (cd "$m" && go test -v -count=1 -run "/^$row(#[0-9]+)?\$" ./...) >"$log" 2>&1; then
    # Tests that have no such subtest are noise.
    grep -E "^ *--- [A-Z]+: [^/ ]+/$row[#/ ]" "$log"
  else
    echo "== $m"
    cat "$log"
    rc=1
  fi
  n=$(grep -cE "^ +--- PASS: [^/ ]+/$row(#[0-9]+)? " "$log")
  passed=$((passed + n))
done

if [ "$rc" != 0 ]; then
  echo "$row: FAILED"
elif [ "$passed" = 0 ]; then
  echo "$row: NOT PROVEN, no test named $row passed"
  rc=1
else
  echo "$row: ok, $passed proof(s)"
fi
exit $rc

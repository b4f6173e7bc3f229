#!/usr/bin/env bash
# prove.sh ROW MODULE...: runs the subtests named ROW in the modules, and fails if
# one fails or if there is none that passes (a skipped test proves nothing).
#
# Asking for a subtest makes Go run every top-level test, so only packages that name
# the row, in their tests or in their test data, are asked.
set -uo pipefail

row=$1
shift
if ! [[ $row =~ ^[A-Z]+-[0-9]+$ ]]; then
  echo "usage: make prove ROW=P-07" >&2
  exit 2
fi

# packages prints the directories of the packages that name the row.
packages() {
  {
    grep -rlwFI --include='*_test.go' -e "$row" "$@"
    find "$@" -path '*/testdata/*' -name "$row*"
    grep -rlwFI --include='*.txtar' -e "$row" "$@"
  } | sed -e 's|/testdata/.*||' -e 's|/[^/]*_test\.go$||' | sed 's|//*|/|g' | sort -u
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT

rc=0
passed=0
for dir in $(packages "$@"); do
  # The suffix is what the testing package appends to a name that comes twice.
  (cd "$dir" && go test -v -count=1 -run "/^$row(#[0-9]+)?\$" .) >"$log" 2>&1
  status=$?
  n=$(grep -cE "^ +--- PASS: [^/ ]+/$row(#[0-9]+)? " "$log")
  passed=$((passed + n))
  if [ $status != 0 ]; then
    echo "== $dir"
    cat "$log"
    rc=1
  elif grep -qE "^ +--- [A-Z]+: [^/ ]+/$row[# ]" "$log"; then
    echo "== $dir"
    grep -E "^ +--- [A-Z]+: [^/ ]+/$row[#/ ]" "$log"
  fi
done

if [ $rc != 0 ]; then
  echo "$row: FAILED"
elif [ $passed = 0 ]; then
  echo "$row: NOT PROVEN, no test named $row passed"
  rc=1
else
  echo "$row: ok, $passed proof(s)"
fi
exit $rc

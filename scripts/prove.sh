#!/usr/bin/env bash
# prove.sh ROW MODULE...: runs the tests of a behaviour: the subtests directly below a
# top-level test whose name is ROW or begins with it. It fails if one of them fails or
# if none passes (a skipped test proves nothing).
#
# To run a subtest, Go runs every top-level test. So only the tests in files that
# mention the row, or that read test data which mentions it, are run.
set -uo pipefail

row=$1
shift
if ! [[ $row =~ ^[A-Z]+-[0-9]+$ ]]; then
  echo "usage: make prove ROW=P-07" >&2
  exit 2
fi

# files prints the test files that mention the row, directly or in their test data.
files() {
  grep -rlwFI --include='*_test.go' -e "$row" "$@"
  {
    find "$@" -path '*/testdata/*' -name "$row*"
    grep -rlwFI --include='*.txtar' -e "$row" "$@"
  } | sed -nE 's|.*/(testdata/[^/]+)/.*|\1|p' | sort -u | while read -r data; do
    grep -rlFI --include='*_test.go' -e "$data/" "$@"
  done
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# run DIRECTORY TESTS runs the row's subtests of some top-level tests of a package.
run() {
  (cd "$1" && go test -v -count=1 -run "^($2)\$/^$row(\$|[^0-9])" .) >"$log" 2>&1
}

# results STATUS prints the subtests with that result.
results() {
  grep -E "^ +--- $1: [^/ ]+/$row([^0-9/ ][^/ ]*)? " "$log"
}

rc=0
passed=0
# prove DIRECTORY TESTS runs, counts and prints the subtests.
prove() {
  run "$1" "$2"
  local status=$? proofs
  passed=$((passed + $(results PASS | wc -l)))
  if [ $status != 0 ]; then
    echo "== $1"
    cat "$log"
    rc=1
  elif proofs=$(results '[A-Z]+'); then
    echo "== $1"
    echo "$proofs"
  fi
}

all=$(files "$@" | sed 's|//*|/|g' | sort -u)
dirs=$(sed 's|/[^/]*$||' <<<"$all" | sort -u)
for dir in $dirs; do
  tests=$(grep -E "^$dir/[^/]*$" <<<"$all" | xargs sed -nE 's/^func (Test[A-Z_0-9][A-Za-z_0-9]*)\(t .*/\1/p' | sort -u | paste -sd '|')
  prove "$dir" "${tests:-.*}"
done
if [ $rc = 0 ] && [ $passed = 0 ]; then
  # The test may be in another file than its cases.
  for dir in $dirs; do
    prove "$dir" '.*'
  done
fi

if [ $rc != 0 ]; then
  echo "$row: FAILED"
elif [ $passed = 0 ]; then
  echo "$row: NOT PROVEN, no test named $row passed"
  rc=1
else
  echo "$row: ok, $passed proof(s)"
fi
exit $rc

#!/usr/bin/env bash
# Runs the long targets one after the other, for `make nightly`. It goes on after a failure. It writes a table of the
# results to dist/nightly.md, and the output of each target to dist/nightly/TARGET.log. If it runs again, it leaves out what
# has passed at the same commit: remove dist/nightly to run everything.
#
#	scripts/nightly.sh [--list] [TARGET…]
#
# PART=2/3 runs every third target, from the second.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# A name, the arguments of make, and a regular expression for the last line of the output that has its figures.
targets='
race-server;      race-server;                  ^ok
store-etcd;       store-etcd;                   ^(ok|DONE)
conformance;      conformance;                  tests|^ok
kill;             kill;                         rounds|kills|^ok
cycles;           cycles;                       cycles|leak|^ok
load;             load;                         requests|^ok
robustness;       robustness;                   requests|operations|^ok
memory-model;     memory-model;                 steps|^ok
policies;         policies;                     policies|^ok
cel-cost;         cel-cost;                     ratio|worst|^ok
oracle-rbac;      oracle-rbac;                  decisions|^ok
oracle-builtin;   oracle-builtin;               objects|^ok
fuzz;             fuzz;                         cases|^ok
mutants;          mutants MUTANTS=0;            mutants|survive|killed
corpus;           corpus;                       ^ok
generate-corpus;  generate-corpus;              corpus|^ok
web-corpus;       web-corpus;                   objects|^ok
lsp-edits;        lsp-edits;                    edits|^ok
kine;             kine;                         ^(---|ok)
install-check;    install-check;                version
cluster-check;    cluster-check;                ^ok
cluster-faults;   cluster-faults;               fault
e2e;              e2e;                          specs|passed
envtest;          envtest;                      passed|tests
kubectl-cmd;      kubectl-cmd;                  functions
modules;          modules;                      ^ok
docs;             docs-check;                   ^ok
release;          release-check VERSION=v0.0.0-nightly PLATFORMS=linux/amd64; identical|same
'
skipped='
chaos, replay-builtin, oracle-manifests, upgrade-replay: find differences in inputs that somebody chooses
answers, golden-*, releases: record answers of programs that they build or download
releases-check: downloads the source of all releases of Kubernetes, 2 GB
bench-*: figures mean something only beside a run of the state before
vscode, release, golden, page, editor, web: write files
'

if [ "${1:-}" = --list ]; then
  echo "make nightly takes 5 to 7 hours on two cores. It runs"
  awk -F'; *' 'NF { print "  make " $2 }' <<<"$targets"
  echo "and not"
  awk 'NF { print "  " $0 }' <<<"$skipped"
  exit
fi

commit=$(git rev-parse --short=12 HEAD)$([ -z "$(git status --porcelain)" ] || echo ", changed")
out=dist/nightly
mkdir -p $out
failed=0
part=${PART:-1/1} n=0
while IFS=';' read -r target arguments figures; do
  figures=${figures#"${figures%%[! ]*}"}
  [ -n "$target" ] || continue
  if [ $# -gt 0 ] && [[ " $* " != *" $target "* ]]; then
    continue
  fi
  n=$((n + 1))
  if [ $((n % ${part#*/})) != $((${part%/*} % ${part#*/})) ]; then
    continue
  fi
  if [ -f "$out/$target.row" ] && grep -qF "| $commit | ok |" "$out/$target.row"; then
    echo "== $target has passed at $commit"
    continue
  fi
  echo "== $target, $(date '+%H:%M')"
  start=$SECONDS result=ok
  # shellcheck disable=SC2086 # several arguments
  make --no-print-directory $arguments >"$out/$target.log" 2>&1 </dev/null || result=FAILED failed=1
  took=$((SECONDS - start))
  figure=$(grep -E "$figures" "$out/$target.log" | tail -1 | tr -s '[:space:]|' ' ' | cut -c1-200)
  printf '| %s | %s | %s | %d:%02d | %s |\n' "$target" "$commit" "$result" $((took / 60)) $((took % 60)) "$figure" | tee "$out/$target.row"
  [ $result = ok ] || tail -25 "$out/$target.log"
done <<<"$targets"

{
  echo '| target | commit | result | minutes | figures |'
  echo '|---|---|---|---|---|'
  while IFS=';' read -r target _; do
    [ -z "$target" ] || cat "$out/$target.row" 2>/dev/null || echo "| $target | | not run | | |"
  done <<<"$targets"
  echo
  echo 'Not run:'
  awk 'NF { print "- " $0 }' <<<"$skipped"
} >dist/nightly.md
echo "== dist/nightly.md"
exit $failed

#!/bin/sh
# Prints the statement coverage of the reference's packages by a generated run.
# ORACLE_CASES and ORACLE_SEED work as for the tests. Fails below 90 percent.
set -eu
cd "$(dirname "$0")"
base=k8s.io/apiextensions-apiserver/pkg/apiserver/schema
packages=$base,$base/pruning,$base/defaulting,$base/objectmeta,$base/listtype
profile=$(mktemp)
trap 'rm -f "$profile"' EXIT
go test -count=1 -run '^TestGenerated$' -timeout 0 -coverpkg="$packages" -coverprofile="$profile" . >/dev/null ||
	echo "the run found differences" >&2
# A block is listed once for each test binary: count it as covered if any covers it.
awk -v base="$base" '
	NR > 1 {
		split($1, at, ":"); file = at[1]; sub("/[^/]*$", "", file)
		stmts[$1] = $2; pkg[$1] = file; if ($3 > 0) hit[$1] = 1
	}
	END {
		for (b in stmts) {
			total[pkg[b]] += stmts[b]; all += stmts[b]
			if (b in hit) { covered[pkg[b]] += stmts[b]; got += stmts[b] }
		}
		for (p in total) printf "%5.1f%%  %d of %d statements  %s\n", 100 * covered[p] / total[p], covered[p], total[p], p
		printf "%5.1f%%  %d of %d statements  total\n", 100 * got / all, got, all
		exit got < 0.9 * all
	}' "$profile"

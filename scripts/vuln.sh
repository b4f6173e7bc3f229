#!/usr/bin/env bash
# vuln.sh COMMAND...: runs govulncheck. Its database is on the network; where that
# cannot be reached the check is skipped, and says so.
set -uo pipefail

out=$("$@" 2>&1)
rc=$?
echo "$out"
if [ $rc != 0 ] && grep -q 'fetching vulnerabilities:' <<<"$out"; then
  echo "vuln: SKIPPED, the vulnerability database cannot be reached"
  exit 0
fi
exit $rc

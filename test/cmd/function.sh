# Runs one function of Kubernetes' shell tests of kubectl (test/cmd) against a server that is
# running. Kubernetes' own hack/make-rules/test-cmd.sh starts the server, and runs all functions.
#
# The working directory is a copy of the scripts. The environment has FUNCTION, the function, or
# runTests for the commands that Kubernetes runs between the functions; SECURE_API_PORT; HOME,
# KUBE_TEMP and TMPDIR, empty directories.
set -o errexit -o nounset -o pipefail

# Some temporary files have a fixed directory.
mktemp() { command mktemp "${@/#\/tmp\//"${TMPDIR}/"}"; }

source "${PWD}/hack/lib/init.sh"
source "${PWD}/hack/lib/test.sh"
source "${PWD}/test/cmd/legacy-script.sh"

kube::util::ensure-gnu-sed
export SUPPORTED_RESOURCES=("*")
CONTEXT="test"
kubectl config set-cluster local --server="https://127.0.0.1:${SECURE_API_PORT}" --insecure-skip-tls-verify
kubectl config set-credentials test-admin --token=admin-token
kubectl config set-context "${CONTEXT}" --cluster=local --user=test-admin
kubectl config use-context "${CONTEXT}"

# runTests sets the variables of the functions. A subshell would suppress errexit in it.
if [[ "${FUNCTION}" == runTests ]]; then
  record_command() { echo "Skipping $*"; }
  runTests
else
  # Some functions expect that the one before them has left an empty namespace.
  run_selected_tests() {
    set -o errexit
    create_and_use_new_namespace
    "${FUNCTION}"
  }
  WHAT=selected
  runTests
fi

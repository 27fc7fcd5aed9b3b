#!/usr/bin/env bash
# Runs chosen functions of Kubernetes' test/cmd scripts against a server that is there already.
#
#   test-cmd.sh FILE PORT
#
# FILE names the functions, one a line; the server is at https://127.0.0.1:PORT. The working directory is a copy of the
# Kubernetes sources with the components in _output/bin. For each function a line says what became of it.
set -o errexit -o nounset -o pipefail

CHOSEN=$1
export SECURE_API_PORT=$2
export KUBE_TEMP="${HOME}" TMPDIR="${HOME}" KUBE_JUNIT_REPORT_DIR="${HOME}/junit" SUPPORTED_RESOURCES='*'
KUBE_ROOT=$PWD

# There is no terminal to colour.
tput() { :; }

# The scripts expect the root of the sources one level above the script that reads them.
source hack/lib/init.sh
source hack/lib/test.sh
source test/cmd/legacy-script.sh

eval "upstream_$(declare -f record_command)"
record_command() {
  grep --quiet --line-regexp --fixed-strings "$1" "${CHOSEN}" || return 0
  local before=${foundError} outcome=passed start=${SECONDS}
  upstream_record_command "$@" || true
  [[ ${foundError} == "${before}" ]] || outcome=failed
  echo "outcome: ${outcome} $1 $((SECONDS - start))"
}

# The server is somebody else's.
cleanup() { stop-proxy; }
trap cleanup EXIT

SED=sed
export SED
export CONTEXT=test
kubectl config set-credentials test-admin --token admin-token
kubectl config set-cluster local --insecure-skip-tls-verify --server "https://127.0.0.1:${SECURE_API_PORT}"
kubectl config set-context "${CONTEXT}" --user test-admin --cluster local
kubectl config use-context "${CONTEXT}"

# The only node; the annotation makes the server keep its managed fields.
kubectl create -f - <<'END' || true
{
  "apiVersion": "v1",
  "kind": "Node",
  "metadata": { "name": "127.0.0.1", "annotations": { "save-managers": "true" } },
  "status": { "capacity": { "memory": "1Gi" } }
}
END
runTests

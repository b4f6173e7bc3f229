#!/usr/bin/env bash
# Builds kube-apiserver and etcd, with the versions in test/envtest/testdata/real/go.mod, into the
# directory $1. The first build takes many minutes.
set -euo pipefail
out=$(mkdir -p "$1" && cd "$1" && pwd)
cd "$(dirname "$0")/../test/envtest/testdata/real"
go build -mod=mod -o "$out/kube-apiserver" k8s.io/kubernetes/cmd/kube-apiserver
go build -mod=mod -o "$out/etcd" go.etcd.io/etcd/server/v3
if kubectl=$(command -v kubectl); then ln -sf "$kubectl" "$out/kubectl"; fi
echo "$out"

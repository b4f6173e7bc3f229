//go:build tools

// Package real names the programs that scripts/envtest-real.sh builds.
package real

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
)

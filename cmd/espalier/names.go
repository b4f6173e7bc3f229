package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"espalier.dev/server/etcd/etcdcmd"
	"espalier.dev/server/kubeapiserver"
)

// The names of programs that this one replaces. It behaves like them if it is run under their
// names.
const apiserverName, etcdName, kubectlName = "kube-apiserver", "etcd", "kubectl"

// runAs runs the program under one of the names, and reports whether it is one of them.
func runAs(args []string) (code int, ok bool) {
	name := strings.TrimSuffix(filepath.Base(args[0]), ".exe")
	if name == etcdName || name == apiserverName {
		trimSoon()
	}
	switch name {
	case etcdName:
		releaseProgram()
		etcdcmd.Main(args)
		return 0, true
	case apiserverName:
		releaseProgram()
		ctx, stop := withSignals(context.Background())
		defer stop()
		return kubeapiserver.Main(ctx, args[1:], os.Stdout, os.Stderr), true
	}
	return 0, false
}

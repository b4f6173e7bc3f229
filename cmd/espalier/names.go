package main

import (
	"path/filepath"
	"strings"
)

// The names of programs that this one replaces. It behaves like them if it is run under their
// names.
const apiserverName, etcdName, kubectlName = "kube-apiserver", "etcd", "kubectl"

// runAs runs the program under one of the names, and reports whether it is one of them.
func runAs(args []string) (code int, ok bool) {
	name := strings.TrimSuffix(filepath.Base(args[0]), ".exe")
	if name != etcdName && name != apiserverName {
		return 0, false
	}
	return runServer(name, args), true
}

//go:build !noserver

package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"espalier.dev/cmd/espalier/internal/source"
	"espalier.dev/server/etcd/etcdcmd"
	"espalier.dev/server/kubeapiserver"
)

// This file and noserver.go are the two builds of the program: the complete one, and the one with
// the build tag noserver, which has neither the server nor etcd.

// hasServer reports whether the program contains the server.
const hasServer = true

// What the help says about the build: that of the program, and that of flags that need etcd.
const buildHelp, etcdHelp = "", ""

// serverCommands returns the commands that need the server.
func serverCommands(a *app) []*cobra.Command {
	return []*cobra.Command{newServeCommand(a), newKubeconfigCommand(a), newEnvtestCommand(a), newBackupCommand(a), newRestoreCommand(a)}
}

// openEtcd opens a snapshot file, or connects to an etcd.
func (a *app) openEtcd(ctx context.Context, c source.Etcd) (source.Source, error) {
	for _, file := range []*string{&c.Snapshot, &c.EncryptionConfig, &c.Endpoints.CAFile, &c.Endpoints.CertFile, &c.Endpoints.KeyFile} {
		*file = a.dir.Path(*file)
	}
	return source.OpenEtcd(ctx, c)
}

// runServer runs the program as etcd or kube-apiserver, and returns its exit code.
func runServer(name string, args []string) int {
	trimSoon()
	releaseProgram()
	if name == etcdName {
		etcdcmd.Main(args)
		return 0
	}
	ctx, stop := withSignals(context.Background())
	defer stop()
	return kubeapiserver.Main(ctx, args[1:], os.Stdout, os.Stderr)
}

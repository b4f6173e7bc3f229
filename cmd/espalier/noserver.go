//go:build noserver

package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/cmd/espalier/internal/source"
)

// hasServer reports whether the program contains the server.
const hasServer = false

// What the help says about the build: that of the program, and that of flags that need etcd.
const (
	buildHelp = `

This is espalier-cli, which has no server: serve, kubeconfig, envtest, backup and restore, and
the flags --snapshot and --etcd-servers, need the complete program espalier of the same release.`
	etcdHelp = " (not in espalier-cli)"
)

// serverCommands returns commands with the names of those that need the server. They fail with
// the advice where the server is, and help lists and completion leave them out.
func serverCommands(*app) (commands []*cobra.Command) {
	for _, name := range []string{"serve", "kubeconfig", "envtest", "backup", "restore"} {
		commands = append(commands, &cobra.Command{
			Use:    name,
			Short:  "Not in this program: " + name + " needs the server",
			Long:   noServer(name).Error() + ".",
			Hidden: true,
			// The flags are those of the complete program.
			FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
			Args:               cobra.ArbitraryArgs,
			// Overrides that of the root command: no configuration file is read.
			PersistentPreRunE: func(*cobra.Command, []string) error { return noServer(name) },
			RunE:              func(*cobra.Command, []string) error { return nil },
		})
	}
	return commands
}

// noServer returns the error of what needs the server.
func noServer(what string) error {
	release, install := "the same release", "latest"
	if v := buildVersion().release(version); v != "" {
		release, install = "release "+v, v
	}
	return fmt.Errorf("%s needs the complete program, and this is espalier-cli, which has no server: "+
		"install the archive or package espalier of %s instead, or run go install espalier.dev/cmd/espalier@%s", what, release, install)
}

// openEtcd fails: the client of etcd and the format of snapshot files come with the server.
func (a *app) openEtcd(_ context.Context, c source.Etcd) (source.Source, error) {
	if c.Snapshot != "" {
		return nil, noServer("--snapshot")
	}
	return nil, noServer("--etcd-servers")
}

// runServer fails: the program has been given the name of a server.
func runServer(name string, _ []string) int {
	fmt.Fprintf(os.Stderr, "%s: %v\n", name, noServer("the name "+name))
	return report.Failed
}

// logConnections does nothing: the program connects to no etcd.
func logConnections() {}

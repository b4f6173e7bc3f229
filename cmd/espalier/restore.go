//go:build !noserver

package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"espalier.dev/internal/shell"
	"espalier.dev/server"
	"espalier.dev/server/snapshot"
)

func newRestoreCommand(a *app) *cobra.Command {
	o := server.NewOptions()
	r := server.RestoreOptions{Bump: snapshot.Bump}
	var output string
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: "Restore the data of an API server from a backup",
		Long: `Restore verifies the checksum and the manifest of FILE, which espalier backup has written,
and makes it the embedded etcd of a data directory. A file that was cut off or altered is
rejected, and so is one of a newer release. With --semantics, the data must have that
schema semantics.

The server must be stopped. The data directory may be new. If it has data, restore fails
unless --force is set, which moves the old data to a directory beside it. Certificates in
the data directory are kept. If there are none, the server creates new ones when it starts,
and clients need its new kubeconfig. An interrupted restore changes nothing.

The revision of etcd is increased by --bump-revision, and the older history is not
restored, so that clients with a resourceVersion from before the restore get the error
Expired and list all objects again, instead of missing changes. The bump must be more than
the number of writes since the backup.

To restore an external etcd, create its members with etcdutl, which reads FILE, too:
etcdutl snapshot restore FILE --bump-revision 1000000000 --mark-compacted.`,
		Example: `  # Verify a backup, and write nothing
  espalier restore --dry-run backup.db

  # Restore a backup into a new data directory, and serve it
  espalier restore --data-dir restored backup.db
  espalier serve --data-dir restored

  # Go back to a backup: replace the data of a stopped server
  espalier restore --force backup.db`,
		Args:              oneBackup,
		PersistentPreRunE: a.readDataSemantics,
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkTextOutput(output); err != nil {
				return err
			}
			if err := o.Validate(); err != nil {
				return err
			}
			if r.Bump < 1 {
				return fmt.Errorf("--bump-revision must be positive")
			}
			r.Path, r.Semantics = a.dir.Path(args[0]), a.expectedSemantics(c)
			restored, err := server.Restore(c.Context(), o, r)
			if err != nil {
				return err
			}
			return a.printData(output, restored, a.describeRestored(o.DataDir, r, restored))
		},
	}
	c.Flags().StringVar(&o.DataDir, "data-dir", o.DataDir, "data `directory` of the server")
	c.Flags().BoolVar(&r.Force, "force", false, "replace the data in the data directory")
	c.Flags().BoolVar(&r.DryRun, "dry-run", false, "verify FILE and write nothing")
	c.Flags().Int64Var(&r.Bump, "bump-revision", r.Bump, "`number` to add to the revision of etcd")
	groupFlags(c.Flags(), outputFlags, "data-dir", "force", "dry-run", "bump-revision")
	addTextOutputFlag(c, &output)
	return c
}

// describeRestored describes the result of a restore, and what to do next.
func (a *app) describeRestored(dir string, r server.RestoreOptions, restored snapshot.Restored) string {
	m := restored.Manifest
	if r.DryRun {
		return fmt.Sprintf("%s can be restored: %s", r.Path, summarize(m))
	}
	text := fmt.Sprintf("%s: %s; the new revision is %d", dir, summarize(m), restored.Revision)
	if restored.Replaced != "" {
		text += "\nThe replaced data is in " + restored.Replaced
	}
	text += "\nTo serve it:\n\n  " + a.name() + " serve --data-dir " + shell.Quote(filepath.Clean(dir)) + " --semantics " + m.Semantics
	if m.Prefix != server.NewOptions().EtcdPrefix {
		text += " --etcd-prefix " + shell.Quote(m.Prefix)
	}
	if m.Encrypted > 0 {
		text += " --encryption-provider-config FILE"
	}
	return text + "\n"
}

//go:build !noserver

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"espalier.dev/server"
)

func newBackupCommand(a *app) *cobra.Command {
	o := server.NewOptions()
	var b server.BackupOptions
	var output string
	c := &cobra.Command{
		Use:   "backup FILE",
		Short: "Save the data of an API server in a file",
		Long: `Backup writes all objects of a server to FILE, of CRDs and of built-in kinds, as they were
at one revision. Everything that the server acknowledged before the backup began is included. The
server may be running or stopped: --data-dir names its data directory, --etcd-servers its
external etcd.

FILE is a snapshot of etcd with a SHA-256 checksum, which etcdutl and espalier audit can
read, too. It also contains a manifest with the schema semantics, the versions and the
number of objects. Only its owner can read it. An incomplete file never has this name: it
is renamed when it is complete and on disk. With - as FILE, the backup is written to standard
output when it is complete, and the summary to standard error.

A backup does not contain the certificates and the kubeconfig of the data directory,
because the key of the CA gives full access to the server: copy the directory pki to a safe
place once. Encrypted values stay encrypted: keep the keys in
--encryption-provider-config, too.`,
		Example: `  # Back up the server whose data is in ./espalier-data
  espalier backup backup.db

  # Replace an older backup, and print the manifest
  espalier backup --data-dir espalier-data --force -o json backup.db

  # Back up a server in a pod
  kubectl exec espalier-0 -- espalier backup --data-dir /var/lib/espalier/data - > backup.db

  # Back up an external etcd
  espalier backup --etcd-servers https://etcd-0:2379,https://etcd-1:2379 \
    --etcd-cafile ca.crt --etcd-certfile client.crt --etcd-keyfile client.key backup.db`,
		Args:              oneBackup,
		PersistentPreRunE: a.readDataSemantics,
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkTextOutput(output); err != nil {
				return err
			}
			if err := o.Validate(); err != nil {
				return err
			}
			b.Path, b.Version, b.Semantics = args[0], buildVersion().version, a.expectedSemantics(c)
			if b.Path == "-" {
				return a.pipeBackup(c, o, b)
			}
			b.Path = a.dir.Path(b.Path)
			m, err := server.Backup(c.Context(), o, b)
			if err != nil {
				return err
			}
			return a.printData(output, m, fmt.Sprintf("%s: %s", args[0], summarize(m)))
		},
	}
	o.AddDataFlags(c.Flags())
	groupAllFlags(c.Flags(), inputFlags)
	c.Flags().BoolVar(&b.Force, "force", false, "replace FILE if it exists")
	groupFlags(c.Flags(), outputFlags, "force")
	addTextOutputFlag(c, &output)
	return c
}

// pipeBackup writes a backup to standard output. It is made in a file, because its manifest is part of it.
func (a *app) pipeBackup(c *cobra.Command, o *server.Options, b server.BackupOptions) (err error) {
	if isTerminal(a.stdout) {
		return usageError(c, errors.New("a backup is not for a terminal: redirect standard output"))
	}
	dir, err := os.MkdirTemp("", "espalier-backup-")
	if err != nil { // a container may have no other place that can be written
		dir, err = os.MkdirTemp(o.DataDir, ".backup-")
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b.Path = filepath.Join(dir, "backup.db")
	m, err := server.Backup(c.Context(), o, b)
	if err != nil {
		return err
	}
	file, err := os.Open(b.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := io.Copy(a.stdout, file); err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.stderr, summarize(m))
	return err
}

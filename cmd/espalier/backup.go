//go:build !noserver

package main

import (
	"fmt"

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
		Long: `Backup writes all objects of a server to FILE, of CRDs and of Kubernetes' own kinds, as they
were at one revision. Everything that the server acknowledged before the backup began is included. The
server may be running or stopped: --data-dir names its data directory, --etcd-servers its
external etcd.

FILE is a snapshot of etcd with a SHA-256 checksum, which etcdutl and espalier audit can
read, too. It also contains a manifest with the schema semantics, the versions and the
number of objects. Only its owner can read it. An incomplete file never has this name: it
is renamed when it is complete and on disk.

A backup does not contain the certificates and the kubeconfig of the data directory,
because the key of the CA gives full access to the server: copy the directory pki to a safe
place once. Encrypted values stay encrypted: keep the keys in
--encryption-provider-config, too.`,
		Example: `  # Back up the server whose data is in ./espalier-data
  espalier backup backup.db

  # Replace an older backup, and print the manifest
  espalier backup --data-dir espalier-data --force -o json backup.db

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
			m, err := server.Backup(c.Context(), o, b)
			if err != nil {
				return err
			}
			return a.printData(output, m, fmt.Sprintf("%s: %s", b.Path, summarize(m)))
		},
	}
	o.AddDataFlags(c.Flags())
	groupAllFlags(c.Flags(), inputFlags)
	c.Flags().BoolVar(&b.Force, "force", false, "replace FILE if it exists")
	groupFlags(c.Flags(), outputFlags, "force")
	addTextOutputFlag(c, &output)
	return c
}

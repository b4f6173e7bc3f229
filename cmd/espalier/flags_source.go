package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/source"
	"espalier.dev/server/keys"
)

// sourceFlags are the flags of commands that read stored objects.
type sourceFlags struct {
	fromCluster bool
	cluster     source.Cluster
	etcd        source.Etcd
	dump        string
	namespaces  []string
}

// sourceGroup is the group of flags that name a source of stored objects.
const sourceGroup = "Source"

// addSourceFlags adds the flags that name a source of stored objects, except those for manifests.
func addSourceFlags(c *cobra.Command, f *sourceFlags) {
	addFromClusterFlags(c, f, "read the objects of a running cluster through its API, which hides fields that CRDs do not specify")
	addEtcdFlags(c, &f.etcd)
	c.Flags().StringVar(&f.dump, "dump", "", "`PATH` of a Velero backup: the archive, or a directory with its content")
	groupFlags(c.Flags(), sourceGroup, "dump")
	addNamespaceFlag(c, f)
}

// addFromClusterFlags adds --from-cluster, with its usage, and the flags that name the cluster.
func addFromClusterFlags(c *cobra.Command, f *sourceFlags, usage string) {
	flags := c.Flags()
	flags.BoolVar(&f.fromCluster, "from-cluster", false, usage)
	groupFlags(flags, sourceGroup, "from-cluster")
	addClusterFlags(c, &f.cluster)
	for _, name := range []string{"kubeconfig", "context"} {
		flags.Lookup(name).Usage += "; implies --from-cluster"
	}
}

// addNamespaceFlag adds --namespace.
func addNamespaceFlag(c *cobra.Command, f *sourceFlags) {
	c.Flags().StringArrayVarP(&f.namespaces, "namespace", "n", nil,
		"`NAME` of a namespace whose objects are read; repeatable (default: all objects)")
	groupFlags(c.Flags(), sourceGroup, "namespace")
	_ = c.RegisterFlagCompletionFunc("namespace", cobra.NoFileCompletions)
}

// addClusterFlags adds the flags that name an API server.
func addClusterFlags(c *cobra.Command, f *source.Cluster) {
	flags := c.Flags()
	flags.StringVar(&f.Kubeconfig, "kubeconfig", "",
		"`FILE` with the address and credentials of the cluster (default: $KUBECONFIG, then ~/.kube/config)")
	flags.StringVar(&f.Context, "context", "", "`NAME` of the context in the kubeconfig (default: the current one)")
	flags.DurationVar(&f.RequestTimeout, "request-timeout", source.DefaultRequestTimeout, "`time` that a request to the cluster may take")
	groupFlags(flags, sourceGroup, "kubeconfig", "context", "request-timeout")
	for _, name := range []string{"context", "request-timeout"} {
		_ = c.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
}

// addEtcdFlags adds the flags that name an etcd, or a snapshot of one.
func addEtcdFlags(c *cobra.Command, f *source.Etcd) {
	flags := c.Flags()
	flags.StringVar(&f.Snapshot, "snapshot", "", "`FILE` that etcdctl snapshot save has written; no etcd is needed"+etcdHelp)
	flags.BoolVar(&f.SkipChecksum, "skip-hash-check", false,
		"do not verify the checksum of --snapshot, which a file from a data directory does not have")
	flags.StringSliceVar(&f.Endpoints.URLs, "etcd-servers", nil, "comma-separated `URLs` of an etcd cluster"+etcdHelp)
	flags.StringVar(&f.Endpoints.CAFile, "etcd-cafile", "", "`FILE` with the CA certificate for connections to etcd")
	flags.StringVar(&f.Endpoints.CertFile, "etcd-certfile", "", "`FILE` with the client certificate for connections to etcd")
	flags.StringVar(&f.Endpoints.KeyFile, "etcd-keyfile", "", "`FILE` with the private key for --etcd-certfile")
	flags.StringVar(&f.Prefix, "etcd-prefix", keys.DefaultPrefix, "`PREFIX` of all resource keys in --etcd-servers and --snapshot")
	flags.StringVar(&f.EncryptionConfig, "encryption-provider-config", "",
		"`FILE` with the keys of encrypted objects in --etcd-servers and --snapshot, as for kube-apiserver")
	groupFlags(flags, sourceGroup, "snapshot", "skip-hash-check", "etcd-servers", "etcd-cafile",
		"etcd-certfile", "etcd-keyfile", "etcd-prefix", "encryption-provider-config")
	for _, name := range []string{"etcd-servers", "etcd-prefix"} {
		_ = c.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
}

// defaultKubeconfig sets the kubeconfig files that the environment names, for a cluster that has
// none.
func (a *app) defaultKubeconfig(f *source.Cluster) {
	f.Dir = a.dir
	if paths, ok := a.environ(clientcmd.RecommendedConfigPathEnvVar); ok && paths != "" {
		f.Default = filepath.SplitList(paths)
	}
}

// openSource opens the source that the flags name: exactly one, which may be manifests, which the
// argument or flag filesName names. It returns its name for messages.
func (a *app) openSource(ctx context.Context, c *cobra.Command, f *sourceFlags, files input.Flags,
	filesName string) (source.Source, string, error) {
	var named []string
	if len(files.Paths) > 0 {
		named = append(named, filesName)
	}
	named = append(named, f.named(c)...)
	if len(named) > 1 {
		return nil, "", usageError(c, fmt.Errorf("%s exclude each other: %s reads one source", strings.Join(named, " and "), c.Name()))
	}
	if len(named) == 0 {
		return nil, "", usageError(c,
			fmt.Errorf("%s needs a source: --from-cluster, --snapshot, --etcd-servers, --dump, or %s of manifests", c.Name(), filesName))
	}
	if strings.Trim(f.etcd.Prefix, "/") == "" {
		return nil, "", errors.New("--etcd-prefix must not be empty or the root")
	}
	switch named[0] {
	case "--from-cluster":
		s, err := a.openCluster(f)
		return s, "the cluster", err
	case "--snapshot", "--etcd-servers":
		s, err := a.openEtcd(ctx, f.etcd)
		if f.etcd.Snapshot != "" {
			return s, f.etcd.Snapshot, err
		}
		return s, "etcd", err
	case "--dump":
		s, err := source.OpenDump(a.dir, f.dump)
		return s, f.dump, err
	}
	return source.OpenFiles(a.stdin, files), strings.Join(files.Paths, ", "), nil
}

// openCluster opens the cluster that the flags name. It sends no request.
func (a *app) openCluster(f *sourceFlags) (source.Finder, error) {
	a.defaultKubeconfig(&f.cluster)
	return source.OpenCluster(f.cluster)
}

// named returns the flags that name a source, each source once.
func (f *sourceFlags) named(c *cobra.Command) (named []string) {
	for _, name := range []string{"from-cluster", "kubeconfig", "context", "snapshot", "etcd-servers", "dump"} {
		if c.Flags().Changed(name) && !(name == "from-cluster" && !f.fromCluster) {
			if name == "kubeconfig" || name == "context" {
				name = "from-cluster"
			}
			named = append(named, "--"+name)
		}
	}
	return slices.Compact(named)
}

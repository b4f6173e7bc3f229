package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	clientv3 "go.etcd.io/etcd/client/v3"

	"espalier.dev/schema"
	"espalier.dev/server/etcd"
	"espalier.dev/server/keys"
	"espalier.dev/server/snapshot"
)

// BackupOptions configures Backup.
type BackupOptions struct {
	// Path is the file to write. Force replaces an existing one.
	Path  string
	Force bool
	// Semantics is the expected schema semantics of the data; nil means any.
	Semantics *schema.Semantics
	// Version is the version of the program.
	Version string
}

// Backup saves the data of a server in a file, see [snapshot.Save]. The options are those of
// the server: its data directory, or its external etcd. The server may be running or stopped.
//
// The certificates and the kubeconfig of the data directory are not part of a backup: a copy of
// the CA's key gives full access to the server.
func Backup(ctx context.Context, o *Options, b BackupOptions) (snapshot.Manifest, error) {
	client, done, err := o.openForBackup(ctx)
	if err != nil {
		return snapshot.Manifest{}, err
	}
	defer done()
	return snapshot.Save(ctx, client, snapshot.SaveOptions{
		Path: b.Path, Force: b.Force, Prefix: o.EtcdPrefix, Semantics: b.Semantics, Espalier: b.Version,
	})
}

// openForBackup returns a client of one etcd member, and a function that closes it.
func (o *Options) openForBackup(ctx context.Context) (client *clientv3.Client, done func(), err error) {
	if len(o.Etcd.URLs) > 0 {
		return o.openExternal(ctx)
	}
	dir := o.etcdDir()
	if _, err := os.Stat(filepath.Join(dir, "member")); errors.Is(err, fs.ErrPermission) {
		return nil, nil, fmt.Errorf("read the data of the embedded etcd in %s: permission denied: run as the user that the server runs as", dir)
	}
	if !etcd.HasData(dir) {
		return nil, nil, fmt.Errorf("%s has no data of an embedded etcd: set the directory of the server with --data-dir, or its external etcd with --etcd-servers", o.DataDir)
	}
	var inUse *inUseError
	lock, err := lockDataDir(o.DataDir)
	switch {
	case errors.As(err, &inUse):
		endpoint, err := etcd.RunningEndpoint(dir)
		if err != nil {
			return nil, nil, err
		}
		client, err := etcd.Connect(ctx, etcd.Endpoints{URLs: []string{endpoint}})
		if err != nil {
			return nil, nil, fmt.Errorf("connect to the etcd of the running server: %w", err)
		}
		return client, func() { _ = client.Close() }, nil
	case err != nil:
		return nil, nil, err
	}
	// Acknowledged writes may be only in etcd's log, not in its database, so etcd is needed to
	// read them.
	release := func() { _ = lock.Close() } // the process ends soon, and frees it too
	member, err := etcd.Start(ctx, etcd.Config{Dir: dir, Quota: o.EtcdQuota})
	if err != nil {
		release()
		return nil, nil, err
	}
	client, err = etcd.Connect(ctx, etcd.Endpoints{URLs: []string{member.Endpoint()}})
	if err != nil {
		member.Close()
		release()
		return nil, nil, err
	}
	return client, func() {
		_ = client.Close() // all requests are finished
		member.Close()
		release()
	}, nil
}

// openExternal returns a client of the first member that answers a linearizable read: one that
// is not separated from the others.
func (o *Options) openExternal(ctx context.Context) (*clientv3.Client, func(), error) {
	var errs []error
	for _, url := range o.Etcd.URLs {
		one := o.Etcd
		one.URLs = []string{url}
		client, err := etcd.Connect(ctx, one)
		if err == nil {
			limited, cancel := context.WithTimeout(ctx, etcd.ConnectTimeout)
			_, err = client.Get(limited, keys.NewRoot(o.EtcdPrefix).Semantics(), clientv3.WithCountOnly())
			cancel()
			if err == nil {
				return client, func() { _ = client.Close() }, nil // all requests are finished
			}
			_ = client.Close()
			err = fmt.Errorf("%s: %w", url, err)
		}
		errs = append(errs, err)
	}
	return nil, nil, errors.Join(errs...)
}

// RestoreOptions configures Restore.
type RestoreOptions struct {
	// Path is the file of the backup.
	Path string
	// Force replaces the data in the data directory.
	Force bool
	// DryRun verifies the file, ignores the data directory and writes nothing.
	DryRun bool
	// Bump is added to the revision, see [snapshot.Snapshot.Restore].
	Bump int64
	// Semantics is the expected schema semantics of the data; nil means any.
	Semantics *schema.Semantics
}

// Restore makes a backup the embedded etcd of a data directory, which no server may use. It
// verifies the file before it writes anything.
//
// The rest of the data directory stays: certificates that are there are used further, others
// are created when the server starts.
func Restore(ctx context.Context, o *Options, r RestoreOptions) (result snapshot.Restored, err error) {
	s, err := snapshot.Open(ctx, r.Path)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if _, err := s.Check(ctx, r.Semantics); err != nil {
		return result, err
	}
	if !r.DryRun {
		lock, err := lockDataDir(o.DataDir)
		if err != nil {
			return result, err
		}
		defer func() { _ = lock.Close() }() // the process ends soon, and frees it too
	}
	return s.Restore(ctx, o.etcdDir(), snapshot.RestoreOptions{Bump: r.Bump, Force: r.Force, DryRun: r.DryRun})
}

package espaliertest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"
	"testing"

	"espalier.dev/server"
	"espalier.dev/server/snapshot"
	"espalier.dev/store/keyspace"
)

// WithState starts a server with the objects, CRDs and resourceVersions of a file that
// [Server.Save] or `espalier backup` has written, or of a snapshot of the etcd of a Kubernetes
// cluster, as `etcdctl snapshot save` writes it. It is not used with [WithEtcd].
//
// The server has its own CA and its own keys of service accounts. Nothing in the file expires:
// events stay.
func WithState(file string) Option {
	return func(c *settings) { c.options.StateFile = file }
}

// Save writes everything that the server stores to a file, for [WithState]. It replaces an existing
// file. `espalier restore` and `espalier audit` read it, too. The file has Secrets as they are stored, and only
// its owner can read it. It has no history.
func (s *Server) Save(t testing.TB, file string) {
	t.Helper()
	if err := s.SaveState(file); err != nil {
		t.Fatal(err)
	}
}

// SaveState is [Server.Save] for use outside of a test, like [Run]: it returns an error.
func (s *Server) SaveState(file string) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if _, err := s.server.Save(ctx, server.BackupOptions{Path: file, Force: true, Version: moduleVersion()}); err != nil {
		return fmt.Errorf("save the state: %w", err)
	}
	return nil
}

// moduleVersion returns the version of this module in the program, as `espalier backup` writes it.
func moduleVersion() string {
	const devel = "devel"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return devel
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path != "espalier.dev" {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		if m.Version != "" && m.Version != "(devel)" {
			return m.Version
		}
	}
	return devel
}

// explainState adds to the error of a start what can be done about a state file.
func explainState(err error) error {
	var semantics *snapshot.SemanticsError
	var prefix *snapshot.PrefixError
	switch {
	case errors.As(err, &semantics):
		return fmt.Errorf("%w: use WithSemantics(schema.%s)", semantics, map[string]string{"kep": "KEP", "kubernetes": "Kubernetes"}[semantics.Have])
	case errors.As(err, &prefix):
		return fmt.Errorf(`%w: use WithFlags("--etcd-prefix=%s")`, prefix, prefix.Have)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: write the file with Server.Save, espalier backup or etcdctl snapshot save", err)
	case errors.Is(err, keyspace.ErrNotSnapshot), errors.Is(err, keyspace.ErrNoChecksum), errors.Is(err, keyspace.ErrAltered), errors.Is(err, keyspace.ErrDamaged):
		return fmt.Errorf("%w: write it again with Server.Save, espalier backup or etcdctl snapshot save", err)
	}
	return err
}

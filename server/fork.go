package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"espalier.dev/server/definitions"
	"espalier.dev/server/etcd/memory"
	"espalier.dev/server/faults"
	"espalier.dev/server/ids"
	"espalier.dev/store"
)

// origin is what a server begins with that is a copy of another one. All of it is immutable and
// shared: what is stored, what is in memory of it, and what was compiled.
type origin struct {
	state       *memory.State
	store       *store.Copy        // nil if the store has to read the state
	definitions *definitions.State // nil if nothing is known
	// ids has made the names and UIDs so far, if they are repeatable.
	ids *ids.Source
	// fork is set if the other server was ready: what a start creates exists.
	fork bool
	// past is the revision of a server that shows a past state, which is read-only, or zero.
	past int64
}

// isFork reports whether the server is a copy of one that was ready.
func (o *Options) isFork() bool { return o.origin != nil && o.origin.fork }

// past returns the revision of a read-only server that shows a past state, or zero.
func (o *Options) past() int64 {
	if o.origin == nil {
		return 0
	}
	return o.origin.past
}

// release frees what was only needed for the start.
func (o *origin) release() {
	if o != nil {
		o.state, o.store, o.definitions, o.ids = nil, nil, nil, nil
	}
}

// ErrStoredInEtcd is returned by [Server.Fork] and [Server.At] if the server keeps its objects in etcd.
var ErrStoredInEtcd = errors.New("the server keeps its objects in etcd, and only objects in memory can be forked: " +
	"use --storage memory, or save the state and start servers with it")

// ForkOptions are the options of a fork that differ from those of its origin.
type ForkOptions struct {
	// DataDir is the directory of the certificates, the kubeconfig and the audit log.
	DataDir string
	// Bubble is that of [Options].
	Bubble bool
}

// Fork starts a server that begins with everything that this one stores, with the same options, CA
// and keys of service accounts, on another port. It writes nothing by itself, so it begins with the
// same revision and has the same history. Then the two are independent. Faults are not inherited.
//
// It takes the same time for any number of objects: both share them, and the compiled CRDs. The
// server must keep its objects in memory. One that [Server.At] has started cannot be forked.
func (s *Server) Fork(ctx context.Context, f ForkOptions) (*Server, error) {
	if past := s.options.past(); past > 0 {
		return nil, fmt.Errorf("the server shows the past state at revision %d and is read-only: fork the original server", past)
	}
	from, err := s.origin()
	if err != nil {
		return nil, err
	}
	return s.fork(ctx, f, from)
}

// At starts a read-only server with what this server stored at a revision, as far back as the history
// reaches. It is like [Server.Fork], but no controllers run, and requests that write are rejected.
func (s *Server) At(ctx context.Context, revision int64, f ForkOptions) (*Server, error) {
	from, err := s.origin()
	if err != nil {
		return nil, err
	}
	newest, oldest, compacted := from.state.Revision(), from.state.Oldest(), from.state.Begin() > 0
	if from.state, err = from.state.At(revision); err != nil {
		switch {
		case errors.Is(err, rpctypes.ErrFutureRev):
			return nil, fmt.Errorf("revision %d is in the future: the newest is %d", revision, newest)
		case compacted:
			return nil, fmt.Errorf("the history before revision %d is compacted, and revision %d with it: "+
				"keep 4 GiB of it with --history=all, or look at it earlier", oldest, revision)
		}
		return nil, fmt.Errorf("there is no revision %d: the history begins at revision %d, with the state file or the start of the server", revision, oldest)
	}
	from.store, _ = from.store.Rewind(revision) // if its events have left the window, all is read
	from.past = revision
	return s.fork(ctx, f, from)
}

// origin returns what a copy of the server begins with. A fork may be made in a testing/synctest
// bubble, from a server outside of it, so this waits for nothing but locks.
func (s *Server) origin() (*origin, error) {
	select {
	case <-s.done:
		return nil, errors.New("the server has stopped: fork it before, and keep the fork")
	default:
	}
	if s.db.memory == nil {
		return nil, ErrStoredInEtcd
	}
	// The order matters. The state has all events that the copy of the store lacks.
	from := &origin{fork: true, definitions: s.definitions.State(), store: s.db.store.Copy()}
	from.state = s.db.memory.State()
	from.ids = s.ids.Clone() // not before: all stored objects have names and UIDs that it does not make again
	return from, nil
}

// fork starts a server that begins with from.
func (s *Server) fork(ctx context.Context, f ForkOptions, from *origin) (*Server, error) {
	o := *s.options
	o.origin, o.Memory = from, nil
	o.DataDir, o.KubeconfigOut, o.Bubble = f.DataDir, "", f.Bubble
	o.SecurePort, o.StateFile = 0, ""
	if o.Faults != nil {
		o.Faults = new(faults.Set)
	}
	if o.AuditLogPath != "" && o.AuditLogPath != "-" {
		o.AuditLogPath = filepath.Join(f.DataDir, filepath.Base(o.AuditLogPath))
	}
	if o.Bubble && !s.options.Bubble {
		o.EtcdCompactionInterval = 0 // the interval is one of the other clock
	}
	if from.past > 0 {
		o.Controllers = nil
		o.CheckStoredObjects = checkNever
		o.EtcdCompactionInterval = 0
	}
	if err := copyKeys(s.identity.config.Dir, pkiConfig(&o).Dir); err != nil {
		return nil, fmt.Errorf("copy the certificates: %w", err)
	}
	return Start(ctx, &o)
}

// copyKeys copies a directory of certificates and keys, which only their owner can read. Files that
// are renewed are replaced, never changed, so links are as good as copies, and quicker.
func copyKeys(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, name), 0o700)
		}
		if err := os.Link(path, filepath.Join(to, name)); err == nil || errors.Is(err, fs.ErrExist) {
			return err
		}
		data, err := os.ReadFile(path) // another file system, or one without links
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), data, 0o600)
	})
}

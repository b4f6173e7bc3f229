package server

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"espalier.dev/server/etcd/memory"
	"espalier.dev/server/keys"
	"espalier.dev/server/snapshot"
)

// Save writes everything that the server stores to a file, in the format of [Backup]. b.Semantics
// may be nil.
func (s *Server) Save(ctx context.Context, b BackupOptions) (snapshot.Manifest, error) {
	select {
	case <-s.done:
		return snapshot.Manifest{}, errors.New("the server has stopped: save its state before")
	default:
	}
	if s.db.memory == nil {
		return Backup(ctx, s.options, b)
	}
	return snapshot.SaveState(ctx, s.db.memory.State(), snapshot.SaveOptions{
		Path: b.Path, Force: b.Force, Prefix: s.options.EtcdPrefix, Semantics: b.Semantics, Espalier: b.Version,
	})
}

// loadState reads the state file.
func (o *Options) loadState(ctx context.Context) (*memory.State, error) {
	state, err := snapshot.Load(ctx, o.StateFile, o.EtcdPrefix, o.Semantics)
	var semantics *snapshot.SemanticsError
	var prefix *snapshot.PrefixError
	switch {
	case errors.As(err, &semantics):
		return nil, fmt.Errorf("%w: start the server with --semantics %s", err, semantics.Have)
	case errors.As(err, &prefix):
		return nil, fmt.Errorf("%w: start the server with --etcd-prefix %s", err, prefix.Have)
	case err != nil:
		return nil, fmt.Errorf("load the state: %w", err)
	}
	if o.EncryptionProviderConfig == "" {
		for kv := range state.Items() {
			if key := string(kv.Key); strings.HasPrefix(key, string(keys.NewRoot(o.EtcdPrefix))) && keys.IsEncrypted(kv.Value) {
				return nil, fmt.Errorf("%s: objects such as %s are encrypted: set --encryption-provider-config to the configuration with their key", o.StateFile, key)
			}
		}
	}
	return state, nil
}

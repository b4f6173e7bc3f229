package main

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"
)

// writeSnapshot writes a snapshot of an etcd with the given values.
func writeSnapshot(t testing.TB, path string, values map[string][]byte) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		keys, err := tx.CreateBucket([]byte("key"))
		if err != nil {
			return err
		}
		if _, err := tx.CreateBucket([]byte("meta")); err != nil {
			return err
		}
		for i, key := range slices.Sorted(maps.Keys(values)) {
			revision := append(binary.BigEndian.AppendUint64(nil, uint64(i+2)), '_')
			revision = binary.BigEndian.AppendUint64(revision, 0)
			message, err := proto.Marshal(&mvccpb.KeyValue{Key: []byte(key), Value: values[key], Version: 1, CreateRevision: int64(i + 2), ModRevision: int64(i + 2)})
			if err != nil {
				return err
			}
			if err := keys.Put(revision, message); err != nil {
				return err
			}
		}
		return nil
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	if err := os.WriteFile(path, append(data, sum[:]...), 0o600); err != nil {
		t.Fatal(err)
	}
}

// storedManifests returns manifests as etcd stores them. files has the file of each key below
// /registry.
func storedManifests(t testing.TB, dir string, files map[string]string) map[string][]byte {
	t.Helper()
	values := map[string][]byte{}
	for key, file := range files {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err == nil {
			text, err = yaml.YAMLToJSON(text)
		}
		if err != nil {
			t.Fatal(err)
		}
		values["/registry/"+key] = text
	}
	return values
}

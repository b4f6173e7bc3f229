//go:build !noserver

package source

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"espalier.dev/crd"
	"espalier.dev/kinds"
	"espalier.dev/server/definitions/protobuf"
	"espalier.dev/server/encryption"
	"espalier.dev/server/etcd"
	"espalier.dev/server/keys"
	"espalier.dev/store/keyspace"
)

// stored is an etcd as a source.
type stored struct {
	reader     keyspace.Reader
	encryption *encryption.Encryption
	root       keys.Root
	// inPasses is set if reading a part of the keys is as expensive as reading all of them.
	inPasses bool
	// semantics are the recorded schema semantics, or empty.
	semantics string
}

// OpenEtcd opens a snapshot file, or connects to an etcd.
func OpenEtcd(ctx context.Context, c Etcd) (Source, error) {
	s := &stored{root: keys.NewRoot(c.Prefix)}
	var err error
	if s.encryption, err = encryption.Open(ctx, encryption.Config{File: c.EncryptionConfig, Root: s.root}); err != nil {
		return nil, err
	}
	if c.Snapshot != "" {
		s.inPasses = true
		s.reader, err = keyspace.OpenFile(ctx, c.Snapshot, keyspace.FileOptions{SkipChecksum: c.SkipChecksum})
	} else if client, failed := etcd.Connect(ctx, etcd.Endpoints{URLs: c.Endpoints.URLs,
		CertFile: c.Endpoints.CertFile, KeyFile: c.Endpoints.KeyFile, CAFile: c.Endpoints.CAFile}); failed != nil {
		err = failed
	} else {
		s.reader = keyspace.NewCluster(client)
	}
	if err != nil {
		s.encryption.Close()
		return nil, err
	}
	if err := s.readRecords(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *stored) Stored() bool { return true }

func (s *stored) Close() error {
	s.encryption.Close()
	return s.reader.Close()
}

func (s *stored) Semantics(context.Context) (string, error) { return s.semantics, nil }

// readRecords reads what a server records about its data. It returns an error if the data has a
// newer format than this release reads.
func (s *stored) readRecords(ctx context.Context) error {
	recorded := map[string][]byte{s.root.Semantics(): nil, s.root.Format(): nil}
	if s.inPasses {
		for e, err := range s.reader.Range(ctx, keys.Own) {
			if err != nil {
				return err
			}
			if _, ok := recorded[e.Key]; ok {
				recorded[e.Key] = bytes.Clone(e.Value)
			}
		}
	} else {
		for key := range recorded {
			e, _, err := s.reader.Get(ctx, key)
			if err != nil {
				return err
			}
			recorded[key] = e.Value
		}
	}
	s.semantics = string(recorded[s.root.Semantics()])
	return keys.CheckFormat(recorded[s.root.Format()])
}

func (s *stored) Definitions(ctx context.Context) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		for e, err := range s.reader.Range(ctx, string(s.root.CRDs())) {
			if err != nil {
				yield(Object{}, err)
				return
			}
			name := keys.Name(e.Key)
			o, err := s.read(ctx, e, Object{Definition: name, Name: name})
			if err == nil && keys.IsProtobuf(o.JSON) {
				if o.JSON, err = protobuf.Decode(o.JSON); err != nil {
					err = &Failure{o, Unreadable, err}
				}
			}
			if !yield(o, err) {
				return
			}
		}
	}
}

// read completes an object with its value.
func (s *stored) read(ctx context.Context, e keyspace.Entry, o Object) (Object, error) {
	o.where, o.Revision = e.Key, e.Revision
	plain, _, err := s.encryption.FromStorage(ctx, e.Key, e.Value)
	switch {
	case errors.Is(err, encryption.ErrEncrypted):
		return o, &Failure{o, Encrypted, encryption.ErrEncrypted}
	case err != nil:
		// The error names the key, and so does the failure.
		reason := err
		if inner := errors.Unwrap(err); inner != nil {
			reason = inner
		}
		return o, &Failure{o, Encrypted,
			fmt.Errorf("the value cannot be decrypted: %w: add its key, or identity if it is not encrypted, to --encryption-provider-config", reason)}
	}
	o.JSON = bytes.Clone(plain)
	return o, nil
}

func (s *stored) Objects(ctx context.Context, selected Selection) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		// Keys of custom resources begin with the group, those of built-in kinds with a directory.
		resources := map[string]*crd.Definition{}
		for _, d := range selected.Definitions {
			resources[directory(d)] = d
		}
		prefixes := []string{string(s.root)}
		if !s.inPasses {
			prefixes = prefixes[:0]
			for _, d := range selected.Definitions {
				prefixes = append(prefixes, s.prefixesOf(d, &selected)...)
			}
		}
		for _, prefix := range prefixes {
			for e, err := range s.reader.Range(ctx, prefix) {
				if err != nil {
					yield(Object{}, err)
					return
				}
				o, ok := s.identify(e.Key, resources)
				if !ok || !selected.has(o.Namespace, o.Name) {
					continue
				}
				o, err = s.read(ctx, e, o)
				if err == nil && keys.IsProtobuf(o.JSON) {
					if o.JSON, err = decodeBuiltin(o.JSON); err != nil {
						err = &Failure{o, Unreadable, err}
					}
				}
				if !yield(o, err) {
					return
				}
			}
		}
	}
}

// directory returns the directory of the objects of a CRD or built-in kind below the root.
func directory(d *crd.Definition) string {
	if isBuiltin(d) {
		return keys.BuiltinDirectory(d.GroupResource())
	}
	return d.Group() + "/" + d.GroupResource().Resource
}

// isBuiltin reports whether a definition describes a built-in kind.
func isBuiltin(d *crd.Definition) bool {
	return slices.ContainsFunc(d.Versions(), func(v *crd.Version) bool { return kinds.ByKind(v.GroupVersionKind()) != nil })
}

// builtinDecoder decodes objects of built-in kinds.
var builtinDecoder = sync.OnceValues(func() (runtime.Decoder, error) {
	s := runtime.NewScheme()
	return serializer.NewCodecFactory(s).UniversalDeserializer(), kinds.AddToScheme(s)
})

// decodeBuiltin returns an object of a built-in kind as JSON.
func decodeBuiltin(stored []byte) ([]byte, error) {
	decoder, err := builtinDecoder()
	if err != nil {
		return nil, err
	}
	obj, gvk, err := decoder.Decode(stored, nil, nil)
	if err != nil {
		return nil, err
	}
	obj.GetObjectKind().SetGroupVersionKind(*gvk)
	return json.Marshal(obj)
}

// prefixesOf returns the prefixes of the selected keys of a CRD or built-in kind.
func (s *stored) prefixesOf(d *crd.Definition, selected *Selection) (prefixes []string) {
	all := s.root.Custom(d.GroupResource())
	if isBuiltin(d) {
		all = s.root.Builtin(d.GroupResource())
	}
	if len(selected.Namespaces) == 0 {
		return []string{string(all)}
	}
	for _, namespace := range selected.Namespaces {
		prefixes = append(prefixes, all.In(namespace))
	}
	return prefixes
}

// identify returns the object that has a key. ok is false if it is not of one of the resources.
func (s *stored) identify(key string, resources map[string]*crd.Definition) (o Object, ok bool) {
	at, ok := s.root.Parse(key)
	d := resources[at.Directory]
	if d == nil || !ok {
		return Object{}, false
	}
	return Object{Definition: d.Name(), Namespace: at.Namespace, Name: at.Name}, true
}

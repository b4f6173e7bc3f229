package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"path"
	"strings"

	"espalier.dev/api"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/crd"
	"espalier.dev/server/definitions/protobuf"
	"espalier.dev/server/encryption"
	"espalier.dev/server/etcd"
	"espalier.dev/store/keyspace"
)

// Etcd configures a source whose objects are in etcd or in a snapshot of it.
type Etcd struct {
	// Snapshot is the path of a snapshot file. If it is empty, Endpoints are those of a running
	// cluster.
	Snapshot string
	// SkipChecksum reads a snapshot file without verifying its checksum.
	SkipChecksum bool
	Endpoints    etcd.Endpoints
	// Prefix is the prefix of resource keys.
	Prefix string
	// EncryptionConfig is the path of the configuration with which objects were encrypted. It
	// may be empty.
	EncryptionConfig string
}

// stored is an etcd as a source.
type stored struct {
	reader     keyspace.Reader
	encryption *encryption.Encryption
	prefix     string // ends with a slash
	// inPasses is set if reading a part of the keys is as expensive as reading all of them.
	inPasses bool
}

// OpenEtcd opens a snapshot file, or connects to an etcd.
func OpenEtcd(ctx context.Context, c Etcd) (Source, error) {
	s := &stored{prefix: strings.TrimSuffix(path.Join("/", c.Prefix), "/") + "/"}
	var err error
	if s.encryption, err = encryption.Open(ctx, encryption.Config{File: c.EncryptionConfig, Prefix: c.Prefix}); err != nil {
		return nil, err
	}
	if c.Snapshot != "" {
		s.inPasses = true
		s.reader, err = keyspace.OpenFile(ctx, c.Snapshot, keyspace.FileOptions{SkipChecksum: c.SkipChecksum})
	} else if client, failed := etcd.Connect(ctx, c.Endpoints); failed != nil {
		err = failed
	} else {
		s.reader = keyspace.NewCluster(client)
	}
	if err != nil {
		s.encryption.Close()
		return nil, err
	}
	return s, nil
}

func (s *stored) Stored() bool { return true }

func (s *stored) Close() error {
	s.encryption.Close()
	return s.reader.Close()
}

func (s *stored) Semantics(ctx context.Context) (string, error) {
	e, _, err := s.reader.Get(ctx, etcd.SemanticsKey(s.prefix))
	return string(e.Value), err
}

// definitionsPath is the path of the CRDs below the prefix.
const definitionsPath = api.GroupName + "/customresourcedefinitions/"

func (s *stored) Definitions(ctx context.Context) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		for e, err := range s.reader.Range(ctx, s.prefix+definitionsPath) {
			if err != nil {
				yield(Object{}, err)
				return
			}
			name := strings.TrimPrefix(e.Key, s.prefix+definitionsPath)
			o, err := s.read(ctx, e, Object{Definition: name, Name: name})
			if err == nil && bytes.HasPrefix(o.JSON, []byte("k8s\x00")) {
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
		return o, &Failure{o, Encrypted, fmt.Errorf("the value cannot be decrypted: %w: add its key, or identity if it is not encrypted, to --encryption-provider-config", reason)}
	}
	o.JSON = bytes.Clone(plain)
	return o, nil
}

func (s *stored) Objects(ctx context.Context, selected Selection) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		resources := map[string]*crd.Definition{}
		for _, d := range selected.Definitions {
			resources[resourcePath(d)] = d
		}
		prefixes := []string{s.prefix}
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
				if o, err = s.read(ctx, e, o); !yield(o, err) {
					return
				}
			}
		}
	}
}

// resourcePath returns the path of the objects of a CRD below the prefix, without the last
// slash.
func resourcePath(d *crd.Definition) string { return d.Group() + "/" + d.CRD().Spec.Names.Plural }

// prefixesOf returns the prefixes of the selected keys of a CRD.
func (s *stored) prefixesOf(d *crd.Definition, selected *Selection) (prefixes []string) {
	all := s.prefix + resourcePath(d) + "/"
	if len(selected.Namespaces) == 0 {
		return []string{all}
	}
	for _, namespace := range selected.Namespaces {
		prefixes = append(prefixes, all+namespace+"/")
	}
	return prefixes
}

// identify returns the object that has a key: prefix/group/resource[/namespace]/name. ok is
// false if it is not of one of the resources.
func (s *stored) identify(key string, resources map[string]*crd.Definition) (o Object, ok bool) {
	group, rest, _ := strings.Cut(strings.TrimPrefix(key, s.prefix), "/")
	plural, rest, _ := strings.Cut(rest, "/")
	d := resources[group+"/"+plural]
	if d == nil || rest == "" {
		return Object{}, false
	}
	o = Object{Definition: d.Name(), Name: rest}
	if namespace, name, found := strings.Cut(rest, "/"); found {
		o.Namespace, o.Name = namespace, name
	}
	return o, true
}

// identified completes an object with the identity that its JSON has.
func identified(o Object) Object {
	// An object that is no JSON has none.
	id, _ := input.Identify(o.JSON)
	o.Namespace, o.Name = id.Namespace, id.Name
	return o
}

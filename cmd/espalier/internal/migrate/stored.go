package migrate

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/api"
	"espalier.dev/cmd/espalier/internal/source"
	"espalier.dev/cmd/espalier/internal/spool"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/crd/compliance"
	"espalier.dev/internal/jsonx"
	"espalier.dev/schema"
)

// index finds the stored objects of a CRD by their resource version. It has the text of those
// that are not stored as they should be. An object that was written since the index was made is
// not in it: that write has left nothing to drop.
type index struct {
	inspector *compliance.Inspector
	mu        sync.Mutex // guards texts
	texts     spool.Spool
	// at has the place of the text of each revision. The length is zero if the object is stored
	// as it should be.
	at map[int64]section
}

// section is a part of a spool.
type section struct{ offset, length int64 }

// newIndex reads all stored objects of a CRD.
func newIndex(ctx context.Context, from source.Source, r *Resource, sem schema.Semantics) (_ *index, err error) {
	d, err := crd.New(r.CRD, crd.Options{Semantics: sem, Rules: cel.Checker{}})
	if err != nil {
		return nil, err
	}
	x := &index{inspector: compliance.New(d), at: map[int64]section{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, x.close())
		}
	}()
	failed := func(*source.Failure) {} // the server will say so
	err = source.Each(from.Objects(ctx, source.Selection{Definitions: []*crd.Definition{d}}), failed, func(o source.Object) error {
		found, err := x.inspector.Inspect(ctx, o.JSON)
		if err != nil {
			return err
		}
		at := section{offset: x.texts.Size()}
		if isStale(o.JSON, &found) {
			at.length = int64(len(o.JSON))
			if _, err := x.texts.Write(o.JSON); err != nil {
				return err
			}
		}
		x.at[o.Revision] = at
		return nil
	})
	if err != nil {
		return nil, err
	}
	return x, nil
}

// isStale reports whether an object would be stored differently now.
func isStale(stored []byte, found *compliance.Report) bool {
	if found.Object == nil {
		return true
	}
	now, err := jsonx.Append(nil, map[string]any(found.Object))
	return err != nil || !bytes.Equal(bytes.TrimSuffix(stored, []byte("\n")), now)
}

// find returns the text of an object if it is not stored as it should be, and whether it is known
// how it is stored. It is safe for concurrent use.
func (x *index) find(o *Object) (text []byte, known bool, err error) {
	revision, err := strconv.ParseInt(o.ResourceVersion, 10, 64)
	at, ok := x.at[revision]
	if err != nil || !ok || at.length == 0 {
		return nil, ok, nil // a resource version that is no number is of no etcd
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	in, err := x.texts.Reader(at.offset, at.length)
	if err != nil {
		return nil, false, err
	}
	if text, err = io.ReadAll(in); err != nil {
		return nil, false, err
	}
	// The revisions of a snapshot of another cluster mean something else.
	var stored metav1.PartialObjectMetadata
	if api.Unmarshal(text, &stored) == nil && string(stored.UID) != o.UID {
		return nil, false, nil
	}
	return text, true, nil
}

func (x *index) close() error { return x.texts.Close() }

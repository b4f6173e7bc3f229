package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"path"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"espalier.dev/crd"
	"espalier.dev/crd/compliance"
)

// Inspector is a [Source] that can tell what of its stored objects does not comply, although it
// does not return them as they are stored: an Espalier server.
type Inspector interface {
	// Noncompliant returns the selected objects that do not comply. The first error is
	// ErrNotInspected if the server cannot tell.
	Noncompliant(ctx context.Context, selected Selection) iter.Seq2[Noncompliant, error]
	// Count returns the number of selected objects.
	Count(ctx context.Context, selected Selection) (int64, error)
}

// ErrNotInspected is returned by a server that does not inspect its stored objects, or does not
// show the result to the user.
var ErrNotInspected = errors.New("the server does not tell which stored objects do not comply")

// Noncompliant is an object that does not comply.
type Noncompliant struct {
	Object   Object
	Problems []compliance.StoredProblem
}

func (s *served) Noncompliant(ctx context.Context, selected Selection) iter.Seq2[Noncompliant, error] {
	return func(yield func(Noncompliant, error) bool) {
		for _, d := range selected.Definitions {
			for _, p := range pathsOf("/apis/"+compliance.Group+"/v1", compliance.Plural, true, selected.Namespaces) {
				var malformed error
				l := &listing{client: s.client, path: p, fields: "crd=" + d.Name(), complete: func(o Object) Object { return o }}
				l.yield = func(o Object, _ error) bool {
					item, err := parseNoncompliant(d, o.JSON)
					if malformed = err; err != nil {
						return false
					}
					return !selected.has(item.Object.Namespace, item.Object.Name) || yield(item, nil)
				}
				err := l.all(ctx, d.Name())
				switch {
				case malformed != nil:
					err = malformed
				case l.stopped:
					return
				case apierrors.IsNotFound(err), apierrors.IsForbidden(err), apierrors.IsMethodNotSupported(err):
					err = ErrNotInspected
				}
				if err != nil {
					yield(Noncompliant{}, err)
					return
				}
			}
		}
	}
}

func parseNoncompliant(d *crd.Definition, src []byte) (Noncompliant, error) {
	var item compliance.NoncompliantObject
	if err := json.Unmarshal(src, &item); err != nil {
		return Noncompliant{}, fmt.Errorf("%s: the answer is not understood: %w", compliance.Plural, err)
	}
	o := Object{Definition: d.Name(), Namespace: item.Object.Namespace, Name: item.Object.Name}
	o.where = objectPath("/apis/"+d.Group()+"/"+servedVersion(d), d.CRD().Spec.Names.Plural, o)
	return Noncompliant{o, item.Problems}, nil
}

// Count asks for one object of each list, with the number of the others.
func (s *served) Count(ctx context.Context, selected Selection) (n int64, err error) {
	for _, d := range selected.Definitions {
		version := servedVersion(d)
		if version == "" {
			continue
		}
		for _, p := range pathsOf("/apis/"+d.Group()+"/"+version, d.CRD().Spec.Names.Plural, d.Namespaced(), selected.Namespaces) {
			found, err := s.count(ctx, p)
			if asFailure(d, p, err) != nil {
				continue
			}
			if err != nil {
				return n, err
			}
			n += found
		}
	}
	return n, nil
}

// count returns the number of objects in a list.
func (s *served) count(ctx context.Context, path string) (int64, error) {
	l := &listing{client: s.client, path: path}
	body, err := l.get(ctx, 1, "")
	if err != nil {
		return 0, err
	}
	first, items, err := readPage(path, body)
	if err != nil {
		return 0, err
	}
	return int64(len(items)) + first.Metadata.Remaining, nil
}

// pathsOf returns the paths of the lists of a resource: one for each namespace, if there are any.
func pathsOf(group, plural string, namespaced bool, namespaces []string) (paths []string) {
	if len(namespaces) == 0 {
		return []string{path.Join(group, plural)}
	}
	for _, namespace := range namespaces {
		if namespaced {
			paths = append(paths, path.Join(group, "namespaces", namespace, plural))
		}
	}
	return paths
}

// objectPath returns the path of an object.
func objectPath(group, plural string, o Object) string {
	if o.Namespace == "" {
		return path.Join(group, plural, o.Name)
	}
	return path.Join(group, "namespaces", o.Namespace, plural, o.Name)
}

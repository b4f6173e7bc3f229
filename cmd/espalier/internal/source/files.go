package source

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/api"
	"espalier.dev/api/manifest"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/spool"
	"espalier.dev/crd"
	"espalier.dev/internal/jsonx"
)

// files are manifests as a source. They are read once for the CRDs and once for the objects.
type files struct {
	flags input.Flags
	stdin io.Reader
	// kept is standard input, once it has been read.
	kept *spool.Spool
}

// OpenFiles returns a source that reads files, directories and standard input.
func OpenFiles(stdin io.Reader, flags input.Flags) Source {
	return &files{flags: flags, stdin: stdin}
}

// Stored is true: files hold what somebody wrote, or what an API server once returned.
func (f *files) Stored() bool { return true }

func (f *files) Close() error {
	if f.kept == nil {
		return nil
	}
	return f.kept.Close()
}

// Semantics is not known.
func (f *files) Semantics(context.Context) (string, error) { return "", nil }

// input returns standard input from its start.
func (f *files) input() (io.Reader, error) {
	if !slices.Contains(f.flags.Paths, "-") {
		return f.stdin, nil
	}
	if f.kept == nil {
		f.kept = new(spool.Spool)
		if _, err := io.Copy(f.kept, f.stdin); err != nil {
			return nil, err
		}
	}
	return f.kept.Reader(0, f.kept.Size())
}

// errStopped ends the reading when the caller has stopped.
var errStopped = errors.New("stopped")

// each calls keep with every object, and yields what it returns. Problems are yielded if
// withProblems is set, so that the caller learns of each once.
func (f *files) each(ctx context.Context, withProblems bool, yield func(Object, error) bool, keep func(*input.Item) (Object, bool)) {
	stdin, err := f.input()
	if err != nil {
		yield(Object{}, err)
		return
	}
	stopped := false
	err = input.Read(ctx, stdin, f.flags, func(it *input.Item) error {
		o, ok := keep(it)
		if ok && !yield(o, nil) {
			stopped = true
			return errStopped
		}
		return nil
	}, func(p input.Problem) {
		if withProblems && !stopped && !yield(Object{}, &Failure{Object{}, Unreadable, &p}) {
			stopped = true
		}
	})
	if err != nil && !stopped {
		yield(Object{}, err)
	}
}

func (f *files) Definitions(ctx context.Context) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		f.each(ctx, false, yield, func(it *input.Item) (Object, bool) {
			o := Object{Definition: it.Name(), Name: it.Name(), JSON: it.JSON, Item: it}
			return o, api.IsDefinition(it.TypeMeta())
		})
	}
}

func (f *files) Objects(ctx context.Context, selected Selection) iter.Seq2[Object, error] {
	kinds := map[runtimeschema.GroupKind]*crd.Definition{}
	for _, d := range selected.Definitions {
		kinds[runtimeschema.GroupKind{Group: d.Group(), Kind: d.CRD().Spec.Names.Kind}] = d
	}
	return func(yield func(Object, error) bool) {
		f.each(ctx, true, yield, func(it *input.Item) (Object, bool) {
			gv, err := runtimeschema.ParseGroupVersion(it.APIVersion())
			if err != nil {
				return Object{}, false
			}
			d := kinds[runtimeschema.GroupKind{Group: gv.Group, Kind: it.Kind()}]
			if d == nil {
				return Object{}, false
			}
			o := Object{Definition: d.Name(), Namespace: it.Namespace(), Name: it.Name(), JSON: it.JSON, Item: it}
			if d.Namespaced() && o.Namespace == "" {
				o.Namespace = metav1.NamespaceDefault
				o.JSON = WithNamespace(o.JSON, o.Namespace)
			}
			return o, selected.has(o.Namespace, o.Name)
		})
	}
}

// WithNamespace adds the namespace to the metadata of an object, as kubectl does for manifests
// that have none.
func WithNamespace(src []byte, namespace string) []byte {
	var r jsonx.Reader
	r.Reset(src)
	out := src
	// The object has been parsed before.
	_ = r.Members(func(name string) error {
		isObject := r.Peek() == '{'
		start := r.Offset()
		err := r.Skip()
		if name == "metadata" && isObject {
			out = slices.Concat(src[:start], manifest.WithMember(src[start:r.Offset()], "namespace", namespace), src[r.Offset():])
		}
		return err
	})
	return out
}

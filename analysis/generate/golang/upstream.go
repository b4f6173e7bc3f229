package golang

import (
	_ "embed"
	"strings"
	"sync"

	"espalier.dev/analysis/generate"
)

// upstreamTable has a line for each type of k8s.io/api/core/v1 and of apimachinery's meta/v1
// that generated code may use: the fingerprint of the schema that controller-gen derives from
// it, and the type. A test in test/generate derives the table.
//
//go:embed upstream.txt
var upstreamTable string

// upstreamTypes returns the types of other packages by fingerprint.
var upstreamTypes = sync.OnceValue(func() map[string]string {
	types := map[string]string{}
	for line := range strings.Lines(upstreamTable) {
		if fingerprint, name, ok := strings.Cut(strings.TrimSpace(line), " "); ok && !strings.HasPrefix(line, "#") {
			types[fingerprint] = name
		}
	}
	return types
})

// upstream returns the type of another package that has the schema of t, or nothing. Such types drop
// unknown fields.
func (w *writer) upstream(t *generate.Type) string {
	if t.Kind != nil || len(t.Fields) < 1 || t.Open {
		return ""
	}
	return upstreamTypes()[w.fingerprints.Of(t.Schema)]
}

// object returns the Go type of an object with fields.
func (w *writer) object(v *generate.Value) *expression {
	if name := w.upstream(v.Type); name != "" {
		return &expression{text: name, shape: deep}
	}
	return &expression{text: v.Type.Name, shape: deep}
}

// used returns the types that have to be declared: those that no type of another package
// replaces or contains.
func (w *writer) used() map[*generate.Type]bool {
	used := map[*generate.Type]bool{}
	var visit func(t *generate.Type)
	visitValue := func(v *generate.Value) {
		for v.Elem != nil {
			v = v.Elem
		}
		if v.Kind == generate.Object && w.upstream(v.Type) == "" {
			visit(v.Type)
		}
	}
	visit = func(t *generate.Type) {
		if used[t] {
			return
		}
		used[t] = true
		for _, f := range t.Fields {
			visitValue(f.Value)
		}
	}
	for _, k := range w.p.Kinds {
		visit(k.Type)
	}
	return used
}

package protocol

import (
	"crypto/sha256"
	"fmt"
	"sync"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/analysis"
	"espalier.dev/analysis/lookup"
	"espalier.dev/analysis/object"
	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// setKey identifies the CRDs of a text in a semantics.
type setKey struct {
	sum       [sha256.Size]byte
	semantics schema.Semantics
}

// crdSet has the CRDs of a text.
type crdSet struct {
	// mu guards text, whose documents are analyzed lazily.
	mu    sync.Mutex
	text  *text
	index *lookup.Index[*definition]
}

// definition is a CRD of a text. It is compiled when it is needed.
type definition struct {
	item *item
	kind runtimeschema.GroupKind
	// base has no rules. The checker has them.
	base    func() (*crd.Definition, error)
	checker func() (*object.Checker, error)
	// costs has the checked rules of each version.
	costs sync.Map
}

// Defines, Base and Place make a definition a [lookup.Definition].
func (d *definition) Defines() runtimeschema.GroupKind { return d.kind }

// Base returns the CRD without its rules.
func (d *definition) Base() (*crd.Definition, error) { return d.base() }

// Place returns nothing: all CRDs are in one text.
func (d *definition) Place() string { return "" }

// set returns the CRDs of a text.
func (e *Engine) set(source string, sem Semantics) (*crdSet, error) {
	if len(source) > MaxText {
		return nil, failf(TooLarge, "the CRDs have %d bytes: the limit is %d", len(source), MaxText)
	}
	return e.crds.Get(setKey{sha256.Sum256([]byte(source)), sem.Semantics}, func() (*crdSet, error) {
		t, err := newCRDs(source)
		if err != nil {
			return nil, err
		}
		s := &crdSet{text: t, index: lookup.New[*definition]()}
		for _, it := range t.objects {
			if api.IsDefinition(it.TypeMeta) {
				s.index.Add(e.definition(s, it, sem.Semantics))
			} else if m := lookup.Misspelled(it); m != nil {
				t.problems = append(t.problems, it.finding(m.Finding()))
			}
		}
		return s, nil
	})
}

// definition returns the CRD of an object.
func (e *Engine) definition(s *crdSet, it *item, sem schema.Semantics) *definition {
	d := &definition{item: it, kind: lookup.Defined(it.json)}
	d.base = sync.OnceValues(func() (*crd.Definition, error) {
		hub, err := codec.DecodeLenient(it.json)
		if err != nil && !sem.KnowsForeignFields() {
			hub, err = codec.DecodeLenient(api.DropMalformedForeign(it.json))
		}
		if err != nil {
			return nil, err
		}
		crd.PrepareCreate(hub)
		return crd.New(hub, crd.Options{Semantics: sem, IgnoreRules: true})
	})
	d.checker = sync.OnceValues(func() (*object.Checker, error) {
		made, err := d.base()
		if err != nil {
			return nil, err
		}
		if e.options.Rules != nil {
			if made, err = made.With(crd.Options{Semantics: sem, Rules: e.options.Rules}); err != nil {
				return nil, err
			}
		}
		return object.New(made, object.Options{Document: func() []byte { return it.json }, Locate: s.locate(it)}), nil
	})
	return d
}

// locate returns a function that finds pointers into a CRD. Positions are offsets: File is empty,
// Line is that of the text, and the columns are offsets in UTF-16 code units.
func (s *crdSet) locate(it *item) func(string) analysis.Location {
	return func(pointer string) analysis.Location {
		s.mu.Lock()
		defer s.mu.Unlock()
		at := it.at(pointer, analysis.FieldName)
		return analysis.Location{Pointer: pointer, Line: at.Line, Column: at.Start, EndColumn: at.End}
	}
}

// place converts a location of locate.
func place(l *analysis.Location) *Place {
	if l == nil {
		return nil
	}
	p := &Place{Path: l.Path}
	if l.Line > 0 {
		p.Range = &Range{l.Column, l.EndColumn, l.Line}
	}
	return p
}

// problems returns the problems with the text.
func (s *crdSet) problems() []Finding { return sorted(append([]Finding{}, s.text.problems...)) }

// named returns the CRD with a name, or the first if name is empty.
func (s *crdSet) named(name string) (*definition, error) {
	for _, d := range s.index.All() {
		if name == "" || d.item.name == name {
			return d, nil
		}
	}
	if name == "" {
		return nil, failf(Failed, "no CRD found")
	}
	return nil, failf(Failed, "no CRD %s found", name)
}

// version returns a version of a CRD or, if crdName is the name of a built-in kind such as
// deployments.apps, of that kind. The default is the storage version.
func (e *Engine) version(s *crdSet, crdName, version string) (*crd.Version, *definition, error) {
	d, err := s.named(crdName)
	var base *crd.Definition
	if err != nil {
		if base = e.builtin.named(crdName); base == nil {
			return nil, nil, err
		}
		d = nil
	} else if base, err = d.base(); err != nil {
		return nil, nil, failf(Failed, "the CRD cannot be used: %v", err)
	}
	v := base.Version(version)
	if version == "" {
		if v = base.Storage(); v == nil && len(base.Versions()) > 0 {
			v = base.Versions()[0]
		}
	}
	if v == nil {
		return nil, nil, failf(Failed, "%s has no version %q", base.Name(), version)
	}
	return v, d, nil
}

// title names an object in messages.
func (it *item) title() string {
	if it.name == "" {
		return it.TypeMeta.Kind
	}
	return fmt.Sprintf("%s %s", it.TypeMeta.Kind, it.name)
}

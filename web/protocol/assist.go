//go:build !small

package protocol

import (
	"context"
	"slices"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/analysis/assist"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// maxItems is the maximum number of completions.
const maxItems = 300

// CursorRequest asks about a place in a text. The text may be the CRDs or the objects.
type CursorRequest struct {
	CRDs      string    `json:"crds"`
	Text      string    `json:"text"`
	Offset    int       `json:"offset"`
	Semantics Semantics `json:"semantics"`
}

// CompleteAnswer is the answer to a CursorRequest that completes what is typed.
type CompleteAnswer struct {
	Items []Item `json:"items"`
}

// Item is a completion.
type Item struct {
	Label  string `json:"label"`
	Kind   string `json:"kind"`
	Detail string `json:"detail,omitempty"`
	// Documentation is Markdown.
	Documentation string `json:"documentation,omitempty"`
	// Insert replaces the text between Start and End.
	Insert     string `json:"insert"`
	Start      int    `json:"start"`
	End        int    `json:"end"`
	Filter     string `json:"filter"`
	Preselect  bool   `json:"preselect,omitempty"`
	Deprecated bool   `json:"deprecated,omitempty"`
}

// HoverAnswer describes what is under a cursor.
type HoverAnswer struct {
	// Markdown is empty if nothing is known.
	Markdown string `json:"markdown"`
	Range    *Range `json:"range,omitempty"`
}

// cursor returns the text, the offset in bytes, and what is known besides the text.
func (e *Engine) cursor(ctx context.Context, r CursorRequest) (*text, int, assist.Env, error) {
	if len(r.Text) > MaxText {
		return nil, 0, assist.Env{}, failf(TooLarge, "the text has %d bytes: the limit is %d", len(r.Text), MaxText)
	}
	set, err := e.set(r.CRDs, r.Semantics)
	if err != nil {
		return nil, 0, assist.Env{}, err
	}
	t := &text{source: []byte(r.Text)}
	t.index()
	offset := t.bytes(r.Offset)
	p := assist.Locate(t.source, offset)
	version := func(apiVersion, kind string) (v *crd.Version, builtIn bool) {
		o := named{apiVersion, kind}
		gvk := runtimeschema.FromAPIVersionAndKind(apiVersion, kind)
		if set.index.IsBuiltin(o) || kind == "CustomResourceDefinition" {
			return e.builtin.of(gvk), true
		}
		d, err := set.index.Find(o)
		if err != nil {
			return nil, false
		}
		base, err := d.base()
		if err != nil {
			return nil, false
		}
		return base.Version(gvk.Version), false
	}
	env := assist.Env{
		Kinds: func() []assist.Kind { return e.knownKinds(set) },
		Resource: func(apiVersion, kind string) *crd.Version {
			v, _ := version(apiVersion, kind)
			return v
		},
		Rules: func(v *crd.Version) *schema.RuleReport {
			if e.options.Rules == nil {
				return nil
			}
			return e.options.Rules.CheckRules(ctx, crd.RuleCheck{Root: v.Structural()})
		},
	}
	env.Version, env.BuiltIn = version(p.Root["apiVersion"], p.Root["kind"])
	env.BuiltIn = env.BuiltIn && env.Version != nil
	if p.Root["kind"] == "CustomResourceDefinition" && r.Text == r.CRDs {
		env.Definition = set.definitionAt(t.utf16(offset))
	}
	return t, offset, env, nil
}

// named is an object of which only apiVersion and kind are known.
type named struct{ apiVersion, kind string }

func (n named) APIVersion() string { return n.apiVersion }
func (n named) Kind() string       { return n.kind }
func (named) Field(string) byte    { return 0 }

// definitionAt returns the CRD whose document has an offset, or nil.
func (s *crdSet) definitionAt(offset int) *crd.Definition {
	for _, d := range slices.Backward(s.index.All()) {
		if s.text.utf16(int(d.item.doc.Offset())) <= offset {
			base, _ := d.base() // one that is not valid is not known
			return base
		}
	}
	return nil
}

// knownKinds returns all kinds that an object can have.
func (e *Engine) knownKinds(set *crdSet) (all []assist.Kind) {
	for _, d := range set.index.All() {
		base, err := d.base()
		if err != nil {
			continue
		}
		for _, v := range base.Versions() {
			if v.Served() {
				gvk := v.GroupVersionKind()
				all = append(all, assist.Kind{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Deprecated: v.DeprecationWarning() != ""})
			}
		}
	}
	return append(all, e.builtin.served()...)
}

// complete answers a CursorRequest.
func (e *Engine) complete(ctx context.Context, r CursorRequest) (*CompleteAnswer, error) {
	t, offset, env, err := e.cursor(ctx, r)
	if err != nil {
		return nil, err
	}
	answer := &CompleteAnswer{Items: []Item{}}
	for _, item := range assist.Complete(t.source, offset, env) {
		insert := item.Insert
		if item.Snippet {
			insert = item.Plain
		}
		answer.Items = append(answer.Items, Item{Label: item.Label, Kind: item.Kind.String(), Detail: item.Detail, Documentation: item.Documentation,
			Insert: insert, Start: t.utf16(item.Range.Start), End: t.utf16(item.Range.End), Filter: item.Filter,
			Preselect: item.Preselect, Deprecated: item.Deprecated})
		if len(answer.Items) == maxItems {
			break
		}
	}
	return answer, nil
}

// hover answers a CursorRequest.
func (e *Engine) hover(ctx context.Context, r CursorRequest) (*HoverAnswer, error) {
	t, offset, env, err := e.cursor(ctx, r)
	if err != nil {
		return nil, err
	}
	answer := &HoverAnswer{}
	if h := assist.HoverAt(t.source, offset, env); h != nil {
		answer.Markdown, answer.Range = h.Markdown, t.span(h.Range.Start, h.Range.End)
	}
	return answer, nil
}

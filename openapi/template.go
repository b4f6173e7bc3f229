package openapi

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"espalier.dev/crd"
)

// Members are what a version of a CRD adds to a document. They are written much faster than the document:
// all CRDs of a shape have the same paths, with other names.
type Members struct {
	// Paths and Schemas are those of the version alone.
	Paths, Schemas []Member
	// Shared and Parameters are those that others have as well. They must not be changed. Only documents of OpenAPI
	// v2 have parameters.
	Shared     map[string]*spec.Schema
	Parameters map[string]spec.Parameter
}

// Member is a member of an object of a document.
type Member struct {
	Name string
	// Text is the member as JSON, with its name. The path of an object is followed by those of its subresources: no
	// other name can be between them.
	Text []byte
}

// MembersV3 returns the members of the document that V3 returns. It returns nil if a name of the version is
// special, such as that of a type that all CRDs share: then V3 is needed.
func (b *Builder) MembersV3(v *crd.Version) (*Members, error) { return b.members(v, false) }

// MembersV2 returns the same in OpenAPI v2. Schemas of the version have no defaults, which clients of OpenAPI v2 do
// not expect.
func (b *Builder) MembersV2(v *crd.Version) (*Members, error) { return b.members(v, true) }

func (b *Builder) members(v *crd.Version, v2 bool) (*Members, error) {
	r, err := resourceOf(v)
	if err != nil {
		return nil, err
	}
	if b.isSpecial(r) {
		return nil, nil
	}
	t, err := b.templates.get(shape{
		v2: v2, namespaced: r.namespaced, status: r.status, scale: r.scale, article: article(r.kind.Kind),
	}, b.newTemplate)
	if err != nil {
		return nil, err
	}
	values := r.values()
	out := &Members{Shared: t.shared, Parameters: t.parameters}
	for _, p := range t.paths {
		out.Paths = append(out.Paths, Member{Name: string(p.name.fill(&values)), Text: p.text.fill(&values)})
	}
	own, err := b.definitions(v, r, v2, !v2)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{r.object, r.list} {
		s := own[name].Schema
		if name == r.list && len(v.Spec().SelectableFields) == 0 {
			out.Schemas = append(out.Schemas, Member{Name: name, Text: t.list.fill(&values)})
			continue
		}
		text, err := encodeSchema(name, &s, !v2)
		if err != nil {
			return nil, err
		}
		out.Schemas = append(out.Schemas, Member{Name: name, Text: text})
	}
	return out, nil
}

// isSpecial reports whether the document of a resource depends on its names in a way that no template has.
func (b *Builder) isSpecial(r *resource) bool {
	for _, name := range []string{r.object, r.list} {
		if _, ok := b.v3[name]; ok || b.kinds[name] != nil {
			return true
		}
	}
	// Parameters with such types are shared by all paths in OpenAPI v2.
	return r.object == r.list || strings.HasPrefix(r.object, "io.k8s.apimachinery") ||
		slices.Contains([]string{r.kind.Group, r.kind.Version, r.kind.Kind, r.listKind, r.plural}, "")
}

// shape is what the paths of a resource depend on beside its names.
type shape struct {
	v2, namespaced, status, scale bool
	article                       string
}

// template has the members of all resources of a shape.
type template struct {
	paths      []blankMember
	list       blank
	shared     map[string]*spec.Schema
	parameters map[string]spec.Parameter
}

type blankMember struct{ name, text blank }

// templates has the templates that were needed so far. The zero value is ready. It is safe for concurrent use.
type templates struct {
	mu      sync.Mutex
	byShape map[shape]func() (*template, error)
}

func (t *templates) get(s shape, make func(shape) (*template, error)) (*template, error) {
	t.mu.Lock()
	get := t.byShape[s]
	if get == nil {
		get = sync.OnceValues(func() (*template, error) { return make(s) })
		if t.byShape == nil {
			t.byShape = map[shape]func() (*template, error){}
		}
		t.byShape[s] = get
	}
	t.mu.Unlock()
	return get()
}

// newTemplate builds the document of a resource with invented names, and cuts them out.
func (b *Builder) newTemplate(s shape) (*template, error) {
	r := s.sample()
	cut := cutter(r.values())
	prefix, shared := prefixV3, b.v3
	if s.v2 {
		prefix, shared = prefixV2, b.v2
	}
	list := listSchema(r, prefix, shared[metav1.TypeMeta{}.OpenAPIModelName()].Schema.Properties)
	own := map[string]common.OpenAPIDefinition{
		r.object: {Dependencies: []string{metav1.ObjectMeta{}.OpenAPIModelName()}},
		r.list:   {Schema: *list, Dependencies: []string{metav1.ListMeta{}.OpenAPIModelName()}},
	}
	out := &template{shared: map[string]*spec.Schema{}}
	var paths []Member
	add := func(name string, value interface{ MarshalJSON() ([]byte, error) }) error {
		text, err := EncodeMember(name, value)
		paths = append(paths, Member{Name: name, Text: text})
		return err
	}
	if s.v2 {
		doc, err := b.buildV2(r, own)
		if err != nil {
			return nil, err
		}
		for name, path := range doc.Paths.Paths {
			if err := add(name, path); err != nil {
				return nil, err
			}
		}
		for name, schema := range doc.Definitions {
			out.shared[name] = &schema
		}
		out.parameters = doc.Parameters
	} else {
		doc, err := b.buildV3(r, own)
		if err != nil {
			return nil, err
		}
		for name, path := range doc.Paths.Paths {
			if err := add(name, path); err != nil {
				return nil, err
			}
		}
		maps.Copy(out.shared, doc.Components.Schemas)
	}
	text, err := EncodeMember(r.list, out.shared[r.list])
	if err != nil {
		return nil, err
	}
	out.list = cut(text)
	delete(out.shared, r.object)
	delete(out.shared, r.list)
	for _, m := range joinPaths(paths) {
		out.paths = append(out.paths, blankMember{name: cut([]byte(m.Name)), text: cut(m.Text)})
	}
	return out, nil
}

// joinPaths joins the paths below each object, so that they are compressed together. No other path is between
// them: a path of a resource whose name continues that of another differs from it before the name of the object.
func joinPaths(paths []Member) []Member {
	slices.SortFunc(paths, func(a, b Member) int { return cmp.Compare(a.Name, b.Name) })
	var out []Member
	for _, p := range paths {
		if last := len(out) - 1; last >= 0 && strings.HasSuffix(out[last].Name, "/{name}") && strings.HasPrefix(p.Name, out[last].Name+"/") {
			out[last].Text = slices.Concat(out[last].Text, []byte{','}, p.Text)
			continue
		}
		out = append(out, p)
	}
	return out
}

// The names in the document of a resource. Those in IDs of operations and in tags are not as in the CRD.
const (
	gapGroup = iota
	gapVersion
	gapKind
	gapListKind
	gapPlural
	gapObject
	gapList
	gapGroupID
	gapVersionID
	gapKindFirstID
	gapKindID
	gapTag
	gaps
)

// values returns the names of a resource, as in its document.
func (r *resource) values() [gaps]string {
	group := strings.TrimSuffix(r.kind.Group, ".k8s.io")
	return [gaps]string{
		gapGroup:    r.kind.Group,
		gapVersion:  r.kind.Version,
		gapKind:     r.kind.Kind,
		gapListKind: r.listKind,
		gapPlural:   r.plural,
		gapObject:   r.object,
		gapList:     r.list,

		gapGroupID:     camel(group, true),
		gapVersionID:   camel(r.kind.Version, true),
		gapKindFirstID: camel(r.kind.Kind, true),
		gapKindID:      camel("x"+r.kind.Kind, false)[1:], // after another word
		gapTag:         camel(group, false) + "_" + camel(r.kind.Version, false),
	}
}

// sample returns a resource of the shape. Each of its values is found in a document wherever the value of another
// resource is: texts of Kubernetes have no such names, and none is a part of another one.
func (s shape) sample() *resource {
	kind := map[string]string{" a ": "zkind.zname", " an ": "azkind.zname", " ": "zkind.znames"}[s.article]
	return &resource{
		kind:       runtimeschema.GroupVersionKind{Group: "zgroup.zname", Version: "zversion.zname", Kind: kind},
		plural:     "zplural.zname",
		listKind:   "zlists.zname",
		namespaced: s.namespaced, status: s.status, scale: s.scale,
		object: "zobject.zname", list: "zobjects.zname",
	}
}

// blank is a text with gaps for names.
type blank struct {
	texts [][]byte // one more than gaps
	gaps  []int
	size  int // of all texts
}

// cutter returns a function that cuts names out of a text.
func cutter(values [gaps]string) func([]byte) blank {
	number := map[string]int{}
	var patterns []string
	for i, v := range values {
		number[v] = i
		patterns = append(patterns, regexp.QuoteMeta(v))
	}
	// Of names that begin with the same text, the longest one is found.
	slices.SortFunc(patterns, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	any := regexp.MustCompile(strings.Join(patterns, "|"))
	return func(text []byte) (out blank) {
		from := 0
		for _, at := range any.FindAllIndex(text, -1) {
			out.texts = append(out.texts, text[from:at[0]])
			out.gaps = append(out.gaps, number[string(text[at[0]:at[1]])])
			out.size += at[0] - from
			from = at[1]
		}
		out.texts = append(out.texts, text[from:])
		out.size += len(text) - from
		return out
	}
}

// fill returns the text with names.
func (b *blank) fill(values *[gaps]string) []byte {
	size := b.size
	for _, g := range b.gaps {
		size += len(values[g])
	}
	out := make([]byte, 0, size)
	for i, g := range b.gaps {
		out = append(append(out, b.texts[i]...), values[g]...)
	}
	return append(out, b.texts[len(b.gaps)]...)
}

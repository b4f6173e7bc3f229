package why

import (
	"fmt"
	"slices"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/crd"
	"espalier.dev/internal/jsonx"
	"espalier.dev/kinds"
	"espalier.dev/schema"
)

// ExplainKind is like [Explain] for an object of a built-in kind, which d describes as a CRD would.
// Go types decide what is served, not schemas.
func ExplainKind(d *crd.Definition, rules *kinds.Offline, source []byte, path string, o Options) (*Explanation, error) {
	out, value, at, err := begin(source, path, o)
	if err != nil {
		return nil, err
	}
	r, err := rules.Request(source)
	if err != nil {
		return nil, err
	}
	e := &kindExplainer{definition: d, rules: rules, request: r, value: value, path: at}
	for _, v := range d.Versions() {
		version, err := e.version(v)
		if err != nil {
			return nil, err
		}
		out.Versions = append(out.Versions, version)
	}
	return out, nil
}

// kindExplainer explains one path of one object of a built-in kind.
type kindExplainer struct {
	definition *crd.Definition
	rules      *kinds.Offline
	request    *kinds.Request
	value      schema.Object
	path       schema.Path
}

// version explains what a version serves.
func (e *kindExplainer) version(v *crd.Version) (out Version, err error) {
	gvk := v.GroupVersionKind()
	out = Version{Name: v.Name(), Served: true}
	if r := kinds.ByKind(gvk); r != nil {
		out.Storage = r.StoredKind() == gvk
	}
	if e.request.Undecodable != nil {
		out.Decision, out.Reason = Unreadable, "the object cannot be read: "+e.request.Undecodable.Error()
		return out, nil
	}
	text, err := e.rules.Encode(gvk, e.request.Object)
	if err != nil {
		return out, err
	}
	obj, err := jsonx.Parse(text)
	if err != nil {
		return out, err
	}
	before, given := e.path.Find(e.value)
	out.Value, out.Found = e.path.Find(obj)
	if m, ok := out.Value.(map[string]any); !given && (out.Value == nil || ok && len(m) == 0) {
		out.Value, out.Found = nil, false // Go adds it
	}
	converted := ""
	if gvk != e.request.Kind {
		converted = fmt.Sprintf("the conversion from version %s to version %s ", e.request.Kind.Version, gvk.Version)
	}
	switch {
	case out.Found && slices.Contains([]string{"apiVersion", "kind", "metadata"}, e.path[0].Key):
		out.Decision, out.Reason = Metadata, "every object has this field"
	case out.Found && before != nil:
		out.Decision, out.Reason = Specified, fmt.Sprintf("a %s has this field", gvk.Kind)
	case out.Found && converted != "":
		out.Decision, out.Reason = Specified, converted+"sets it"
	case out.Found && given:
		out.Decision, out.Reason = Defaulted, "null is the same as no value: filled in with the default of Kubernetes"
	case out.Found:
		out.Decision, out.Reason = Defaulted, "not set: filled in with the default of Kubernetes"
	case given:
		e.removed(&out, gvk, before, converted)
	default:
		e.absent(&out, v)
	}
	return out, nil
}

// removed explains why a stored value is not served.
func (e *kindExplainer) removed(out *Version, gvk runtimeschema.GroupVersionKind, before any, converted string) {
	for _, c := range e.request.Compare().Changes {
		if n := len(c.Path); c.Kind == schema.Pruned && n <= len(e.path) && c.Path.Pointer() == e.path[:n].Pointer() {
			out.Decision, out.Nearest = Pruned, c.Nearest()
			out.Reason = fmt.Sprintf("a %s has no such field", gvk.Kind)
			if n < len(e.path) {
				out.At = c.Path.String()
				out.Reason = fmt.Sprintf("a %s has no field %s", gvk.Kind, out.At)
			}
			return
		}
	}
	switch {
	case before == nil:
		out.Decision, out.Reason = NullDropped, "null is the same as no value"
	case converted != "":
		out.Decision, out.Reason = Pruned, converted+"drops it"
	default:
		out.Decision, out.Reason = Absent, "it has the value of a field that is not set"
	}
}

// absent explains why there is no value although the object has none that could be removed.
func (e *kindExplainer) absent(out *Version, v *crd.Version) {
	out.Decision, out.Reason = Absent, "not set, and Kubernetes has no default"
	if p := follow(v, e.path); p.pruned > 0 && !p.at.InMetadata() {
		out.Decision, out.Nearest = Pruned, p.nearest
		out.Reason = fmt.Sprintf("not set, and version %s of %s has no such field", v.Name(), v.GroupVersionKind().Kind)
		if p.pruned < len(e.path) {
			out.At = e.path[:p.pruned].String()
		}
	}
}

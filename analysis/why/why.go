// Package why explains the value at one path of a stored object: what is stored there, what
// each version of the CRD serves, and which schema decides it. It does no I/O.
package why

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/analysis/object"
	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/internal/jsonptr"
	"espalier.dev/internal/jsonx"
	"espalier.dev/internal/nearest"
	"espalier.dev/schema"
)

// Decision is why a version serves a value, or does not.
type Decision string

// The decisions. A value is served with the first four.
const (
	// Specified is a value that the schema specifies.
	Specified Decision = "specified"
	// Metadata is a value in apiVersion, kind or metadata, whose fields every object has.
	Metadata Decision = "metadata"
	// Preserved is a value that the schema does not specify, but preserves.
	Preserved Decision = "preserved"
	// Defaulted is a value that a default fills in.
	Defaulted Decision = "defaulted"
	// Pruned is a value that is removed because the schema does not specify it.
	Pruned Decision = "pruned"
	// NullDropped is a null that is removed because the schema does not allow it.
	NullDropped Decision = "nullDropped"
	// Malformed is a value in the metadata that is removed because it is malformed.
	Malformed Decision = "malformed"
	// Absent is a value that the schema allows, but that the object does not have.
	Absent Decision = "absent"
	// Webhook is a value that only the conversion webhook knows.
	Webhook Decision = "webhook"
	// Unreadable is a value of an object that cannot be read.
	Unreadable Decision = "unreadable"
)

// Explanation explains the value at one path of an object.
type Explanation struct {
	Path    string `json:"path"`
	Pointer string `json:"pointer"`
	// Stored is what is stored at the path. It is nil if that is not known, because the object
	// comes from an API server.
	Stored *Stored `json:"stored,omitempty"`
	// Versions are those of the CRD, in its order.
	Versions []Version `json:"versions"`
}

// Stored is what is stored at a path.
type Stored struct {
	// APIVersion is that of the stored object.
	APIVersion string `json:"apiVersion"`
	Found      bool   `json:"found"`
	Value      any    `json:"value,omitempty"`
}

// Version is what a version of the CRD has at a path.
type Version struct {
	Name string `json:"name"`
	// Served and Storage are the flags of the version in the CRD. The rest describes what is
	// served, or what would be served if the version were.
	Served   bool     `json:"served"`
	Storage  bool     `json:"storage"`
	Found    bool     `json:"found"`
	Value    any      `json:"value,omitempty"`
	Decision Decision `json:"decision"`
	// Reason is the decision as a sentence.
	Reason string `json:"reason"`
	// At is the path of the value that is removed or filled in, if that is not the requested
	// value, but one that contains it.
	At string `json:"at,omitempty"`
	// Nearest is the field with the most similar name to that of a field that is not specified.
	Nearest string `json:"nearest,omitempty"`
	// Schema is the schema that decides, if there is one.
	Schema *Schema `json:"schema,omitempty"`
	// Violations are those of the schema by a value that is served, without those of CEL rules. An update that does not
	// change the value is accepted with them.
	Violations []string `json:"violations,omitempty"`
}

// Schema is a position in a CRD.
type Schema struct {
	// Version is the version whose schema it is. It is empty for a field of the CRD that applies
	// to all versions.
	Version string `json:"version,omitempty"`
	// Path is relative to the schema of the version. It is empty for its root.
	Path    string `json:"path"`
	Pointer string `json:"pointer"`
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
}

// Options configure Explain.
type Options struct {
	// Text describes the text of the CRD.
	Text object.Options
	// FromServer is set if the object is not as it is stored, but as an API server has returned
	// it.
	FromServer bool
}

// Explain explains the value at a path of an object, which is JSON. The path is a JSON pointer
// or has the form spec.list[0].name; a key with dots is written as spec.map["a.b"] or
// spec.map[a.b]. The error is about the path, or the object is not JSON, or a schema of the CRD
// cannot be compiled.
func Explain(d *crd.Definition, source []byte, path string, o Options) (*Explanation, error) {
	out, value, at, err := begin(source, path, o)
	if err != nil {
		return nil, err
	}
	e := &explainer{definition: d, checker: object.New(d, o.Text), options: o, source: source, value: value, path: at}
	for _, v := range d.Versions() {
		version, err := e.version(v)
		if err != nil {
			return nil, err
		}
		out.Versions = append(out.Versions, version)
	}
	return out, nil
}

// begin parses an object and a path in it, and returns an Explanation without versions.
func begin(source []byte, text string, o Options) (out *Explanation, value schema.Object, path schema.Path, err error) {
	tokens, err := parse(text)
	if err != nil {
		return nil, nil, nil, err
	}
	parsed, err := jsonx.Parse(source)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("the stored value is not JSON: %w", err)
	}
	value, ok := parsed.(map[string]any)
	if !ok {
		return nil, nil, nil, errors.New("the stored value is not an object")
	}
	if path, err = resolve(tokens, value); err != nil {
		return nil, nil, nil, err
	}
	out = &Explanation{Path: path.String(), Pointer: path.Pointer()}
	if !o.FromServer {
		out.Stored = &Stored{}
		out.Stored.Value, out.Stored.Found = path.Find(value)
		out.Stored.APIVersion, _ = value["apiVersion"].(string)
	}
	return out, value, path, nil
}

// explainer explains one path of one object.
type explainer struct {
	definition *crd.Definition
	checker    *object.Checker
	options    Options
	source     []byte
	value      schema.Object
	path       schema.Path
}

// reading is an object as a version serves it.
type reading struct {
	// from is the version with whose schema the stored object is decoded, to the requested one.
	from, to *crd.Version
	object   schema.Object
	changes  []change
	// webhook is set if a webhook would convert the object.
	webhook bool
	failure error
}

// change is a change that affects the path, with the version whose schema causes it.
type change struct {
	schema.Change
	version *crd.Version
}

// read reads the object as the API server does for a request of a version: it decodes it with
// the schema of the version in which it is stored, and converts it. The error is about the CRD.
func (e *explainer) read(v *crd.Version) (*reading, error) {
	r := &reading{from: v, to: v}
	if id, err := api.Identify(e.source); err == nil {
		gv, _ := runtimeschema.ParseGroupVersion(id.APIVersion) // a malformed one has no group
		if stored := e.definition.Version(gv.Version); gv.Group == e.definition.Group() && stored != nil {
			r.from = stored
		}
	}
	program, err := r.from.Program()
	if err != nil {
		return nil, err
	}
	var report *schema.Report
	if r.object, report, r.failure = program.Decode(e.source, schema.DecodeOptions{FromStorage: true, Report: true}); r.failure != nil {
		return r, nil
	}
	r.add(e.path, r.from, report)
	if r.from == v {
		return r, nil
	}
	if c := e.definition.CRD().Spec.Conversion; c != nil && c.Strategy != api.NoneConverter {
		r.webhook = true
		return r, nil
	}
	if program, err = v.Program(); err != nil {
		return nil, err
	}
	r.object["apiVersion"] = v.GroupVersionKind().GroupVersion().String()
	if report, r.failure = program.Normalize(r.object, schema.DecodeOptions{FromStorage: true,
		WithoutDefaults: true, Report: true}); r.failure == nil {
		r.add(e.path, v, report)
	}
	return r, nil
}

// add adds the changes of the value at the path and of those that contain it.
func (r *reading) add(path schema.Path, v *crd.Version, report *schema.Report) {
	for _, c := range report.Changes {
		if n := len(c.Path); n <= len(path) && c.Path.Pointer() == path[:n].Pointer() {
			r.changes = append(r.changes, change{c, v})
		}
	}
}

// last returns the last change of one of the kinds, or nil.
func (r *reading) last(kinds ...schema.ChangeKind) *change {
	for i := range slices.Backward(r.changes) {
		if slices.Contains(kinds, r.changes[i].Kind) {
			return &r.changes[i]
		}
	}
	return nil
}

// version explains what a version serves.
func (e *explainer) version(v *crd.Version) (Version, error) {
	out := Version{Name: v.Name(), Served: v.Served(), Storage: v.Storage()}
	r, err := e.read(v)
	if err != nil {
		return out, err
	}
	removed := r.last(schema.Pruned, schema.NullDropped, schema.MetadataDropped)
	if r.failure == nil && !r.webhook {
		out.Value, out.Found = e.path.Find(r.object)
	}
	switch {
	case r.failure != nil:
		out.Decision, out.Reason = Unreadable, "the object cannot be read: "+r.failure.Error()
	case r.webhook && (removed == nil || removed.Kind != schema.Pruned):
		out.Decision = Webhook
		out.Reason = fmt.Sprintf("not known: a webhook converts objects from version %s to version %s", r.from.Name(), v.Name())
		out.Schema = e.crdField("/spec/conversion/strategy")
	case out.Found:
		e.served(&out, r)
		out.Violations = e.violations(r)
	case removed != nil:
		e.removed(&out, r, removed)
	default:
		e.absent(&out, r)
	}
	if r.last(schema.Duplicate) != nil {
		out.Reason += "; the text has this field more than once, and the last one is used"
	}
	return out, nil
}

// violations returns what is wrong with a value that is served, and with the values in it. CEL rules are not
// evaluated, so that this ends soon.
func (e *explainer) violations(r *reading) (all []string) {
	d, err := e.definition.With(crd.Options{Semantics: e.definition.Semantics(), IgnoreRules: true})
	if err != nil {
		return nil // the definition could not be used either
	}
	ctx, v := context.Background(), d.Version(r.to.Name())
	found, err := v.Validate(ctx, r.object, r.object)
	if err != nil {
		return nil
	}
	for _, f := range e.checker.Ratcheted(ctx, v, r.object, found) {
		if below, ok := jsonptr.CutPrefix(f.Pointer, e.path.Pointer()); ok && below == "" {
			all = append(all, f.Message)
		} else if ok {
			all = append(all, f.Path+": "+f.Message)
		}
	}
	return all
}

// served explains why a value is served.
func (e *explainer) served(out *Version, r *reading) {
	if c := r.last(schema.Defaulted); c != nil {
		out.Decision, out.Reason, out.Schema = Defaulted,
			"not set: filled in with the default of the schema", e.schema(c.version, c.Schema.Path())
		if _, isNull := c.Path.Find(e.value); isNull {
			out.Reason = "null is not allowed here: filled in with the default of the schema"
		}
		e.at(out, c.Path)
		return
	}
	p := follow(r.to, e.path)
	switch {
	case p.at.InMetadata():
		out.Decision, out.Reason = Metadata, "every object has this field, whatever the schema specifies"
	case p.at.Schema() == nil && p.at.Entered() == schema.PruningOff && e.definition.PreservesUnknownFields():
		out.Decision, out.Reason = Preserved, "not specified, but kept: spec.preserveUnknownFields of the CRD is true"
		out.Schema = e.crdField("/spec/preserveUnknownFields")
	case p.at.Schema() == nil && p.at.Entered() == schema.PruningOff:
		out.Decision, out.Reason = Preserved, "not specified, but kept: the schema has x-kubernetes-preserve-unknown-fields: true"
		out.Schema = e.schema(r.to, p.preserving)
	default:
		out.Decision, out.Reason, out.Schema = Specified, "the schema specifies it", e.schema(r.to, p.schema)
		if e.options.FromServer && p.hasDefault(out.Value) {
			out.Reason += "; the value is its default, which need not be stored"
		}
	}
}

// removed explains why a stored value is not served.
func (e *explainer) removed(out *Version, r *reading, c *change) {
	what := "this field"
	if e.at(out, c.Path); out.At != "" {
		what = out.At
	}
	when := ""
	switch {
	case r.from == r.to:
	case c.version == r.to:
		when = fmt.Sprintf("dropped by the conversion from version %s to version %s: ", r.from.Name(), r.to.Name())
	default:
		when = fmt.Sprintf("dropped when the object is read in version %s, in which it is stored: ", r.from.Name())
	}
	switch c.Kind {
	case schema.Pruned:
		out.Decision, out.Nearest = Pruned, c.Nearest()
		if c.Schema == (schema.NodeRef{}) {
			out.Reason = when + "metadata has no such field"
			return
		}
		out.Reason = fmt.Sprintf("%sthe schema of version %s does not specify %s", when, c.version.Name(), what)
		out.Schema = e.schema(c.version, follow(c.version, c.Path).schema)
	case schema.NullDropped:
		out.Decision, out.Reason = NullDropped, fmt.Sprintf("%sthe schema of version %s does not allow null for %s", when,
			c.version.Name(), what)
		out.Schema = e.schema(c.version, c.Schema.Path())
	default:
		out.Decision, out.Reason = Malformed, when+"this part of the metadata is malformed"
	}
}

// absent explains why there is no value although nothing has been removed.
func (e *explainer) absent(out *Version, r *reading) {
	p := follow(r.to, e.path)
	out.Decision, out.Reason = Absent, "not set"
	if p.at.InMetadata() {
		return
	}
	out.Schema = e.schema(r.to, p.schema)
	switch {
	case p.pruned > 0:
		out.Decision, out.Nearest = Pruned, p.nearest
		e.at(out, e.path[:p.pruned])
		what := "it"
		if out.At != "" {
			what = out.At
		}
		out.Reason = fmt.Sprintf("not set, and the schema of version %s does not specify %s", r.to.Name(), what)
		if e.options.FromServer {
			out.Reason = fmt.Sprintf("the schema of version %s does not specify %s: if it is stored, it is not served", r.to.Name(), what)
		}
	case p.at.Schema() == nil || p.at.Schema().Default == nil:
		out.Reason = "not set, and the schema has no default"
	case r.from != r.to:
		out.Reason = fmt.Sprintf("not set: the default of version %s does not apply to objects that are stored in version %s",
			r.to.Name(), r.from.Name())
	default:
		out.Reason = fmt.Sprintf("not set: the default of the schema applies only if %s exists", e.path[:len(e.path)-1])
	}
}

// at records the path of a value that contains the requested one.
func (e *explainer) at(out *Version, path schema.Path) {
	if len(path) < len(e.path) {
		out.At = path.String()
	}
}

// schema returns the position of a schema.
func (e *explainer) schema(v *crd.Version, path schema.SchemaPath) *Schema {
	at := e.checker.SchemaLocation(v, path)
	return &Schema{Version: v.Name(), Path: at.Path, Pointer: at.Pointer, File: at.File, Line: at.Line, Column: at.Column}
}

// crdField returns the position of a field of the CRD.
func (e *explainer) crdField(pointer string) *Schema {
	out := &Schema{Pointer: pointer}
	if locate := e.options.Text.Locate; locate != nil {
		at := locate(pointer)
		out.File, out.Line, out.Column = at.File, at.Line, at.Column
	}
	return out
}

// place is where a path leads in the schema of a version.
type place struct {
	at schema.Cursor
	// schema is the deepest schema on the path.
	schema schema.SchemaPath
	// preserving is the last schema on the path that preserves unknown fields.
	preserving schema.SchemaPath
	// pruned is the length of the path to the field that would be pruned, or zero. nearest is
	// the specified field with the most similar name.
	pruned  int
	nearest string
}

// follow follows a path in the schema of a version as far as possible.
func follow(v *crd.Version, path schema.Path) (p place) {
	pruning := schema.PruningOn
	if v.Definition().PreservesUnknownFields() {
		pruning = schema.PruningOff
	}
	p.at = schema.NewCursor(v.Structural(), v.Definition().Semantics(), pruning)
	for i, step := range path {
		if p.at.Entered() == schema.PruningOn && !p.at.Prunes() {
			p.preserving = slices.Clip(p.schema)
		}
		s := p.at.Schema()
		if s == nil {
			s = &schema.Structural{}
		}
		if step.Kind == schema.Index {
			p.at = p.at.Items()
			if s.Items != nil {
				p.schema = append(p.schema, schema.SchemaStep{Keyword: "items"})
			}
			continue
		}
		next, kept := p.at.Field(step.Key)
		if !kept {
			p.pruned, p.nearest = i+1, nearest.Name(step.Key, slices.Values(slices.Sorted(maps.Keys(s.Properties))))
			return p
		}
		p.at = next
		switch {
		case s.Properties[step.Key] != nil:
			p.schema = append(p.schema, schema.SchemaStep{Keyword: "properties", Form: schema.StepNamed, Name: step.Key})
		case s.AdditionalProperties != nil:
			p.schema = append(p.schema, schema.SchemaStep{Keyword: "additionalProperties"})
		}
	}
	return p
}

// hasDefault reports whether a value is the default of the schema.
func (p *place) hasDefault(value any) bool {
	s := p.at.Schema()
	return s != nil && s.Default != nil && reflect.DeepEqual(s.Default.Value, value)
}

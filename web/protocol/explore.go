//go:build !small

package protocol

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/analysis/explain"
	"espalier.dev/analysis/explain/sample"
	"espalier.dev/analysis/forms"
	"espalier.dev/analysis/generate"
	"espalier.dev/analysis/generate/golang"
	"espalier.dev/analysis/generate/proto"
	"espalier.dev/analysis/generate/typescript"
	"espalier.dev/analysis/impact"
	"espalier.dev/analysis/jsonschema"
	"espalier.dev/crd"
	"espalier.dev/internal/yamlx"
	"espalier.dev/schema"
)

// maxAnswerText is the maximum size of a text in an answer.
const maxAnswerText = 16 << 20

// maxMatches is the maximum number of fields that a search returns.
const maxMatches = 200

// ResourcesRequest asks which CRDs a text has.
type ResourcesRequest struct {
	CRDs      string    `json:"crds"`
	Semantics Semantics `json:"semantics"`
}

// ResourcesAnswer is the answer to a ResourcesRequest.
type ResourcesAnswer struct {
	Resources []Resource `json:"resources"`
	Problems  []Finding  `json:"problems"`
}

// Resource is a CRD.
type Resource struct {
	Name       string    `json:"name"`
	Group      string    `json:"group"`
	Kind       string    `json:"kind"`
	Plural     string    `json:"plural"`
	ShortNames []string  `json:"shortNames,omitempty"`
	Namespaced bool      `json:"namespaced"`
	Versions   []Version `json:"versions"`
	// Problem is why the CRD cannot be used, or empty.
	Problem string `json:"problem,omitempty"`
	Range   *Range `json:"range,omitempty"`
}

// Version is a version of a CRD.
type Version struct {
	Name    string `json:"name"`
	Served  bool   `json:"served"`
	Storage bool   `json:"storage"`
	// Deprecated is the warning that clients get, or empty.
	Deprecated string `json:"deprecated,omitempty"`
	// Status is set if status is a subresource.
	Status bool `json:"status,omitempty"`
}

// resources answers a ResourcesRequest.
func (e *Engine) resources(ctx context.Context, r ResourcesRequest) (*ResourcesAnswer, error) {
	set, err := e.set(r.CRDs, r.Semantics)
	if err != nil {
		return nil, err
	}
	answer := &ResourcesAnswer{Resources: []Resource{}, Problems: set.problems()}
	for _, d := range set.index.All() {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		out := Resource{Name: d.item.name, Group: d.kind.Group, Kind: d.kind.Kind, Versions: []Version{}}
		at := set.locate(d.item)("/metadata/name")
		out.Range = &Range{at.Column, at.EndColumn, at.Line}
		base, err := d.base()
		if err != nil {
			out.Problem = err.Error()
		} else {
			out.Plural, out.ShortNames, out.Namespaced = base.Names().Plural, base.Names().ShortNames, base.Namespaced()
			for _, v := range base.Versions() {
				out.Versions = append(out.Versions, Version{v.Name(), v.Served(), v.Storage(), v.DeprecationWarning(), v.HasStatus()})
			}
		}
		answer.Resources = append(answer.Resources, out)
	}
	return answer, nil
}

// VersionRequest names a version of a CRD, or of a built-in kind by its name, such as
// deployments.apps. The default is the storage version of the first CRD.
type VersionRequest struct {
	CRDs      string    `json:"crds"`
	CRD       string    `json:"crd,omitempty"`
	Version   string    `json:"version,omitempty"`
	Semantics Semantics `json:"semantics"`
}

// find returns the version.
func (e *Engine) find(r VersionRequest) (*crd.Version, *definition, error) {
	set, err := e.set(r.CRDs, r.Semantics)
	if err != nil {
		return nil, nil, err
	}
	return e.version(set, r.CRD, r.Version)
}

// FieldsRequest asks for a field and the fields in it.
type FieldsRequest struct {
	VersionRequest
	// Path is empty for the whole resource.
	Path string `json:"path,omitempty"`
}

// FieldsAnswer is the answer to a FieldsRequest.
type FieldsAnswer struct {
	*explain.Doc
	// Costs has the rules of the field and of the fields in it, with their cost.
	Costs []RuleCost `json:"costs,omitempty"`
	// Range is the position of the schema in the CRDs.
	Range *Range `json:"range,omitempty"`
}

// fields answers a FieldsRequest.
func (e *Engine) fields(ctx context.Context, r FieldsRequest) (*FieldsAnswer, error) {
	v, d, err := e.find(r.VersionRequest)
	if err != nil {
		return nil, err
	}
	doc, err := explain.Describe(v, r.Path, explain.Options{})
	if err != nil {
		return nil, failf(Failed, "%v", err)
	}
	answer := &FieldsAnswer{Doc: doc}
	if d == nil {
		return answer, nil
	}
	if known, err := e.costs(ctx, d, v); err == nil { // without them, the fields are shown
		for _, c := range known.Rules {
			if c.Path == doc.Field.Path || parentField(c.Path) == doc.Field.Path {
				answer.Costs = append(answer.Costs, c)
			}
		}
	}
	if p, ok := schemaOf(v.Structural(), doc.Field.Path); ok {
		if checker, err := d.checker(); err == nil {
			answer.Range = place(checker.SchemaLocation(v, p)).Range
		}
	}
	return answer, nil
}

// schemaOf returns the path of the schema of a field.
func schemaOf(s *schema.Structural, path string) (at schema.SchemaPath, ok bool) {
	for s != nil {
		here := impact.FieldPath(at)
		if here == path {
			return at, true
		}
		next, from := s, at
		s = nil
		try := func(step schema.SchemaStep, inner *schema.Structural) {
			p := append(slices.Clip(from), step)
			if rest, ok := strings.CutPrefix(path, impact.FieldPath(p)); ok && inner != nil && (rest == "" || rest[0] == '.' || rest[0] == '[') {
				s, at = inner, p
			}
		}
		for name, inner := range next.Properties {
			try(schema.SchemaStep{Keyword: "properties", Form: schema.StepNamed, Name: name}, inner)
		}
		if next.Items != nil {
			try(schema.SchemaStep{Keyword: "items"}, next.Items)
		}
		if next.AdditionalProperties != nil {
			try(schema.SchemaStep{Keyword: "additionalProperties"}, next.AdditionalProperties.Structural)
		}
	}
	return nil, false
}

// parentField returns the path of the field around a field, without its items and values.
func parentField(path string) string {
	path = strings.TrimSuffix(strings.TrimSuffix(path, "[]"), ".*")
	return path[:max(strings.LastIndexByte(path, '.'), 0)]
}

// SearchRequest asks for the fields whose name, path or description contains a text.
type SearchRequest struct {
	VersionRequest
	Query string `json:"query"`
}

// SearchAnswer is the answer to a SearchRequest.
type SearchAnswer struct {
	Matches []Match `json:"matches"`
	// More is set if there are more.
	More bool `json:"more,omitempty"`
}

// Match is a field that was found.
type Match struct {
	Path        string `json:"path"`
	Type        string `json:"type"`
	Description string `json:"description,omitempty"`
}

// search answers a SearchRequest: fields whose name matches come first.
func (e *Engine) search(ctx context.Context, r SearchRequest) (*SearchAnswer, error) {
	v, _, err := e.find(r.VersionRequest)
	if err != nil {
		return nil, err
	}
	answer := &SearchAnswer{Matches: []Match{}}
	query := strings.ToLower(strings.TrimSpace(r.Query))
	if query == "" {
		return answer, nil
	}
	doc, err := explain.Describe(v, "", explain.Options{Recursive: true})
	if err != nil {
		return nil, failf(Failed, "%v", err)
	}
	type ranked struct {
		Match
		rank int
	}
	var found []ranked
	var walk func(f *explain.Field)
	walk = func(f *explain.Field) {
		if f == nil || ctx.Err() != nil {
			return
		}
		rank := -1
		switch name := strings.ToLower(f.Name); {
		case name == query:
			rank = 0
		case strings.HasPrefix(name, query):
			rank = 1
		case strings.Contains(name, query):
			rank = 2
		case f.Name != "" && strings.Contains(strings.ToLower(f.Path), query):
			rank = 3
		case strings.Contains(strings.ToLower(f.Description), query):
			rank = 4
		}
		if rank >= 0 && f.Path != "" {
			found = append(found, ranked{Match{f.Path, f.Type, excerpt(f.Description)}, rank})
		}
		for _, inner := range f.Fields {
			walk(inner)
		}
		walk(f.Items)
		walk(f.Values)
	}
	walk(doc.Field)
	slices.SortStableFunc(found, func(a, b ranked) int { return cmp.Compare(a.rank, b.rank) })
	for _, f := range found[:min(len(found), maxMatches)] {
		answer.Matches = append(answer.Matches, f.Match)
	}
	answer.More = len(found) > maxMatches
	return answer, ctx.Err()
}

// excerpt returns the start of a description.
func excerpt(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "") + "…"
	}
	return s
}

// FormRequest asks for a form of the schema: one of those of package forms, or json-schema.
type FormRequest struct {
	VersionRequest
	Form string `json:"form"`
}

// TextAnswer is a text with findings about it.
type TextAnswer struct {
	Text string `json:"text"`
	// Language is yaml, json, go, protobuf or typescript.
	Language string `json:"language"`
	// Findings are reasons why the text is not complete.
	Findings []Finding `json:"findings,omitempty"`
}

// form answers a FormRequest.
func (e *Engine) form(ctx context.Context, r FormRequest) (*TextAnswer, error) {
	f, ok := forms.Lookup(r.Form)
	if !ok {
		return nil, failf(BadRequest, "unknown form %q", r.Form)
	}
	v, d, err := e.find(r.VersionRequest)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	answer := &TextAnswer{Language: "yaml"}
	if d != nil && f.Structural {
		if checker, err := d.checker(); err == nil {
			for _, p := range checker.NotStructural(v) {
				answer.Findings = append(answer.Findings, Finding{Rule: p.Rule, Severity: p.Severity, Path: p.Path, Message: p.Message, Detail: p.Detail})
			}
		}
	}
	value, err := f.Derive(v, jsonschema.Options{GoTypes: d == nil})
	if err != nil {
		return nil, failf(Failed, "%v", err)
	}
	if f.Name == forms.JSONSchema {
		answer.Language = "json"
		text, err := json.MarshalIndent(value, "", "  ")
		if err != nil {
			return nil, err
		}
		return answer.with(string(text) + "\n")
	}
	text, err := yamlx.Marshal(value)
	if err != nil {
		return nil, err
	}
	return answer.with(string(text))
}

// with returns the answer with a text, unless that is too long.
func (a *TextAnswer) with(text string) (*TextAnswer, error) {
	if len(text) > maxAnswerText {
		return nil, failf(TooLarge, "the text has %d bytes: the limit is %d", len(text), maxAnswerText)
	}
	a.Text = text
	return a, nil
}

// SampleRequest asks for a sample object, minimal or full.
type SampleRequest struct {
	VersionRequest
	Full bool `json:"full,omitempty"`
}

// sample answers a SampleRequest.
func (e *Engine) sample(ctx context.Context, r SampleRequest) (*TextAnswer, error) {
	v, d, err := e.find(r.VersionRequest)
	if err != nil {
		return nil, err
	}
	if d != nil && e.options.Rules != nil {
		with, err := v.Definition().With(crd.Options{Semantics: r.Semantics.Semantics, Rules: e.options.Rules})
		if err != nil {
			return nil, err
		}
		v = with.Version(v.Name())
	}
	if d == nil && !r.Full {
		// The schemas of Kubernetes' own kinds do not say all that makes an object valid.
		obj, err := e.builtin.called(r.CRD).Sample(v.Name())
		if err != nil {
			return nil, failf(Failed, "%v", err)
		}
		text, err := yamlx.Marshal(obj)
		if err != nil {
			return nil, err
		}
		return (&TextAnswer{Language: "yaml"}).with(string(text))
	}
	size := sample.Minimal
	if r.Full {
		size = sample.Full
	}
	made, err := sample.New(ctx, v, size)
	if err != nil {
		return nil, failf(Failed, "%v", err)
	}
	answer := &TextAnswer{Language: "yaml"}
	if !made.Valid() {
		answer.Findings = append(answer.Findings, Finding{Rule: "sample", Severity: analysis.Warning,
			Message: "no valid object was found: this is the best attempt", Detail: messages(made.Violations)})
	}
	text, err := yamlx.Marshal(made.Object)
	if err != nil {
		return nil, err
	}
	return answer.with(string(text))
}

// messages returns the first messages of violations.
func messages(vs schema.Violations) (lines []string) {
	for _, e := range vs.FieldErrors()[:min(len(vs), 5)] {
		lines = append(lines, e.Error())
	}
	return lines
}

// GenerateRequest asks for the types of all CRDs of a text, for go, proto or typescript.
type GenerateRequest struct {
	CRDs      string    `json:"crds"`
	Target    string    `json:"target"`
	Semantics Semantics `json:"semantics"`
}

// GenerateAnswer is the answer to a GenerateRequest.
type GenerateAnswer struct {
	Files    []File    `json:"files"`
	Problems []Finding `json:"problems"`
}

// File is a generated file.
type File struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// generate answers a GenerateRequest.
func (e *Engine) generate(ctx context.Context, r GenerateRequest) (*GenerateAnswer, error) {
	set, err := e.set(r.CRDs, r.Semantics)
	if err != nil {
		return nil, err
	}
	answer := &GenerateAnswer{Files: []File{}, Problems: set.problems()}
	var inputs []generate.Input
	for _, d := range set.index.All() {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		base, err := d.base()
		if err != nil {
			answer.Problems = append(answer.Problems, Finding{Rule: "invalid-definition", Severity: analysis.Error, Message: err.Error()})
			continue
		}
		inputs = append(inputs, generate.Input{Definition: base, Document: d.item.json})
	}
	packages, problems := generate.Build(inputs)
	var files generate.Files
	switch r.Target {
	case "go":
		var more []generate.Problem
		files, more, err = golang.Generate(packages)
		problems = append(problems, more...)
	case "proto":
		files, err = proto.Generate(packages, nil, proto.Options{})
	case "typescript":
		files = typescript.Generate(packages)
	default:
		return nil, failf(BadRequest, "unknown target %q: choose go, proto or typescript", r.Target)
	}
	if err != nil {
		return nil, err
	}
	for _, p := range problems {
		answer.Problems = append(answer.Problems, Finding{Rule: p.Rule, Severity: p.Severity, Path: p.Path, Message: p.Message, Detail: p.Detail})
	}
	total := 0
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if total += len(files[name]); total > maxAnswerText {
			return nil, failf(TooLarge, "the files have more than %d bytes", maxAnswerText)
		}
		answer.Files = append(answer.Files, File{name, string(files[name])})
	}
	return answer, nil
}

// Package report writes findings as text with the offending line, JSON, YAML, SARIF, JUnit, GitHub
// annotations or Markdown, in several formats at once. It also determines the exit code, which
// depends on the findings and not on the format. Findings are written as they come: memory use does
// not grow with their number. With [Options].MaxFindings, the worst are chosen and kept until the
// end; Markdown is kept until the end in any case, and never gets longer than a comment may be.
package report

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/analysis/audit"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/internal/nearest"
	"espalier.dev/internal/yamledit"
	"espalier.dev/internal/yamlx"
)

// Finding is a finding with its position in a file.
type Finding struct {
	analysis.Finding
	// Object is the object that the finding is about. It is zero if there is none.
	Object input.Identity
	// File is the file as the user named it. It is empty if the finding is not about a file.
	File string
	// Span is the position in the file. Lines and columns count from 1; a zero Line stands
	// for the file as a whole.
	Span yamlx.Position
	// Source is the line, or the part of a long line around the position.
	Source input.Excerpt
	// Doc is the document that the position is in, if it is known to [At].
	Doc *yamlx.Document
	// Rendered is set if a program has rendered the document from the file. The position is that in
	// the file, and has no line if it is unknown; Source is the rendered line.
	Rendered bool
	// RenderedBy is the name of the program.
	RenderedBy string
	// Failed is set for an input that could not be processed.
	Failed bool
	// Folded findings are counted, but not listed in formats for people.
	Folded bool
	// Section is the title of the part of the report that the finding is in. It may be empty.
	Section string
	// Affected are the objects that the finding is about, if it is about several. Its details
	// list them too.
	Affected *Affected
	// Case is the name of the test case, if the finding is about one. Reports use the same
	// name whether the test case passes or fails.
	Case string
}

// Location returns the location of the finding.
func (f *Finding) Location() analysis.Location {
	at := analysis.Location{
		Path: f.Path, Pointer: f.Pointer, File: f.File,
		Line: f.Span.Line, Column: f.Span.Column, EndLine: f.Span.EndLine, EndColumn: f.Span.EndColumn,
	}
	if at.Line == 0 {
		at.Column, at.EndLine, at.EndColumn = 0, 0, 0
	}
	return at
}

// inTree returns a location for programs that show findings beside files of the working tree. A file
// of a Git revision is the one of the working tree, whose lines are unknown.
func (o *Options) inTree(at analysis.Location) analysis.Location {
	if o.Local == nil || !input.IsGit(at.File) {
		return at
	}
	file := o.Local(at.File)
	if current, err := o.Dir.Get(); err == nil {
		if physical, err := filepath.EvalSymlinks(current); err == nil {
			current = physical
		}
		if relative, err := filepath.Rel(current, file); err == nil {
			file = relative
		}
	}
	at.File = file
	at.Line, at.Column, at.EndLine, at.EndColumn = 0, 0, 0, 0
	return at
}

// Document is a report in JSON and YAML, as a whole. Reports are written finding by finding.
type Document struct {
	Findings []record `json:"findings"`
	Summary  Summary  `json:"summary"`
}

// record is a finding in JSON and YAML. The field names are part of the interface.
type record struct {
	location
	// Rendered is set if the file is a template, and the finding is about what it renders.
	Rendered bool `json:"rendered,omitempty"`
	// Section is the title of the part of the report that the finding is in.
	Section string `json:"section,omitempty"`
	// Rule is the name of the rule.
	Rule string `json:"rule"`
	// Severity is error, warning or info.
	Severity analysis.Severity `json:"severity"`
	// Object is the object that the finding is about.
	Object *objectRecord `json:"object,omitempty"`
	// Message is the problem in one line.
	Message string `json:"message"`
	// Details are further lines of the message.
	Details []string `json:"details,omitempty"`
	// Schema, Policy and Old are the locations of the schema, of the expression of an admission
	// policy, and of the field before a change.
	Schema *location `json:"schema,omitempty"`
	Policy *location `json:"policy,omitempty"`
	Old    *location `json:"old,omitempty"`
	// Fix is the fix that espalier fix applies.
	Fix *fixRecord `json:"fix,omitempty"`
	// Affected are the objects that the finding is about, if it is about several.
	Affected *Affected `json:"affected,omitempty"`
}

// Affected are the objects that a finding is about, in JSON and YAML.
type Affected struct {
	// Definition is the name of their CRD.
	Definition string `json:"crd"`
	// Objects is the number of objects.
	Objects int64 `json:"objects"`
	// Values is the number of values in the objects that have the problem.
	Values int64 `json:"values"`
	// Examples are some of the objects.
	Examples []audit.Example `json:"examples,omitempty"`
}

// location is a location in JSON and YAML. Lines and columns count from 1, columns count
// characters, and the end is exclusive. A line of zero stands for the whole file.
type location struct {
	// File is the file as the user named it.
	File string `json:"file"`
	// Line, Column, EndLine and EndColumn are the position in the file.
	Line      int `json:"line"`
	Column    int `json:"column"`
	EndLine   int `json:"endLine,omitempty"`
	EndColumn int `json:"endColumn,omitempty"`
	// Path is the path of the field, such as spec.replicas.
	Path string `json:"path"`
	// Pointer is the path as a JSON pointer.
	Pointer string `json:"pointer"`
}

// objectRecord is the object that a finding is about, in JSON and YAML.
type objectRecord struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name,omitempty"`
}

type fixRecord struct {
	// Message describes the fix.
	Message string `json:"message"`
	// Edits are the changes of the fix, in this order.
	Edits []editRecord `json:"edits,omitempty"`
}

type editRecord struct {
	// Op is the operation.
	Op string `json:"op"`
	// Pointer is where the operation applies.
	Pointer string `json:"pointer"`
	// To is the target of a move or copy.
	To string `json:"to,omitempty"`
	// Value is the new value.
	Value any `json:"value,omitempty"`
}

// objectName returns the name of the object for people. It is empty if there is none, and for
// test cases, which have names of their own.
func (f *Finding) objectName() string {
	if f.Case != "" {
		return ""
	}
	return f.Object.String()
}

// details returns the lines after the message: the details, and the other locations.
func (f *Finding) details() []string {
	lines := slices.Clip(f.Detail)
	switch {
	case f.RenderedBy == "kustomize":
		lines = append(lines, "set by the kustomization that builds the object")
	case f.Rendered:
		lines = append(lines, "rendered by helm from the template")
	}
	if at := f.Schema; at != nil {
		line := "schema: " + cmp.Or(at.Path, "the root of the schema")
		if at.File != "" {
			line += " (" + at.Position() + ")"
		}
		lines = append(lines, line)
	}
	if at := f.Policy; at != nil {
		line := "policy: " + at.Position()
		if at.Path != "" {
			line = "policy: " + at.Path + " (" + at.Position() + ")"
		}
		lines = append(lines, line)
	}
	if at := f.Old; at != nil {
		lines = append(lines, "old: "+at.Position())
	}
	return lines
}

// fullMessage returns the message with its details and the fix.
func (f *Finding) fullMessage() string {
	lines := append([]string{f.Message}, f.details()...)
	if f.Fix != nil {
		lines = append(lines, "fix: "+f.Fix.Message)
	}
	return strings.Join(lines, "\n")
}

func newRecord(f *Finding) record {
	r := record{
		location: *newLocation(new(f.Location())), Rule: f.Rule, Severity: f.Severity,
		Message: f.Message, Details: f.Detail, Schema: newLocation(f.Schema), Policy: newLocation(f.Policy), Old: newLocation(f.Old), Affected: f.Affected,
		Section: f.Section, Rendered: f.Rendered,
	}
	if id := f.Object; id != (input.Identity{}) {
		r.Object = &objectRecord{APIVersion: id.APIVersion, Kind: id.Kind, Namespace: id.Namespace, Name: id.Name}
	}
	if f.Fix != nil {
		r.Fix = &fixRecord{Message: f.Fix.Message}
		for _, e := range f.Fix.Edits {
			r.Fix.Edits = append(r.Fix.Edits, editRecord{Op: fmt.Sprint(e.Op), Pointer: e.Pointer, To: e.To, Value: e.Value})
		}
	}
	return r
}

func newLocation(l *analysis.Location) *location {
	if l == nil {
		return nil
	}
	return &location{File: l.File, Line: l.Line, Column: l.Column, EndLine: l.EndLine,
		EndColumn: l.EndColumn, Path: l.Path, Pointer: l.Pointer}
}

// Summary counts inputs and findings.
type Summary struct {
	// Semantics is the schema semantics of the run.
	Semantics string `json:"semantics"`
	// Files and Objects count the input that was processed.
	Files   int `json:"files"`
	Objects int `json:"objects"`
	// Skipped counts the objects that were not processed.
	Skipped int `json:"skipped"`
	// Others counts the documents that are not objects of the kind that the command reads, and
	// that were skipped without being read.
	Others int `json:"skippedDocuments,omitempty"`
	// SkippedBy counts what was not read or not judged, by reason.
	SkippedBy map[string]int `json:"skippedBy,omitempty"`
	// SkippedLine is the same as text.
	SkippedLine string `json:"-"`
	// Errors, Warnings and Infos count the findings of each severity.
	Errors   int `json:"errors"`
	Warnings int `json:"warnings"`
	Infos    int `json:"infos"`
	// Failures counts the inputs that could not be processed: files that cannot be read,
	// documents that cannot be parsed. The errors include them.
	Failures int `json:"failures"`
	// Suppressed counts the findings that comments, the configuration or a baseline suppress. They
	// are not included in the other counts.
	Suppressed int `json:"suppressed,omitempty"`
	// Hidden counts the findings below --min-severity. They are not included in the other
	// counts.
	Hidden int `json:"hidden,omitempty"`
	// Omitted counts the findings that an output does not list because there are more than
	// --max-findings. They are included in the other counts.
	Omitted int `json:"omitted,omitempty"`
	// Interrupted is set if the run was interrupted before the end of the input.
	Interrupted bool `json:"interrupted,omitempty"`
	// Aborted is set if the command was aborted by an error, which the caller reports.
	Aborted bool `json:"-"`
	// Steps are what to do about the findings, in this order.
	Steps []Step `json:"steps,omitempty"`
	// Extra holds additional counts of a command.
	Extra map[string]any `json:"-"`
	// Note, if set, says in text which objects these are.
	Note string `json:"-"`
	// Notes are further lines before the summary in formats for people.
	Notes []string `json:"-"`
	// Verdict, if set, replaces the number of findings in the text of the summary.
	Verdict string `json:"-"`
}

// Step is something to do, in JSON and YAML too.
type Step struct {
	// Phase and Action identify the step.
	Phase  string `json:"phase"`
	Action string `json:"action"`
	// Title describes the step. Findings that need it have the title as their section.
	Title string `json:"title"`
	// CRDs are the names of the CRDs that the step is about.
	CRDs []string `json:"crds,omitempty"`
	// Objects is the number of objects that the step is about.
	Objects int64 `json:"objects"`
	// Commands are what to run.
	Commands []string `json:"commands,omitempty"`
}

// shownNames is the maximum number of names that a line lists.
const shownNames = 5

// line returns the step as one line, without commands.
func (s *Step) line() string {
	line, crds := s.Title, nearest.First(s.CRDs, shownNames)
	switch {
	case s.Objects > 0 && crds != "":
		return fmt.Sprintf("%s (%s of %s)", line, analysis.Plural(int(s.Objects), "object"), crds)
	case crds != "":
		return fmt.Sprintf("%s (%s)", line, crds)
	}
	return line
}

// lines returns the lines before the summary in formats for people.
func (s *Summary) lines() []string {
	if s.SkippedLine == "" {
		return s.Notes
	}
	return append(slices.Clip(s.Notes), s.SkippedLine)
}

// MarshalJSON writes Extra beside the other counts.
func (s Summary) MarshalJSON() ([]byte, error) {
	type plain Summary
	base, err := marshal(plain(s))
	if err != nil || len(s.Extra) == 0 {
		return base, err
	}
	extra, err := marshal(s.Extra)
	if err != nil {
		return nil, err
	}
	base[len(base)-1] = ','
	return append(base, extra[1:]...), nil
}

// At adds the position in the file to a finding about an object. The position is that of
// the value if the finding is about a value on the same line as its name, else that of the
// name.
func At(it *input.Item, f analysis.Finding) Finding {
	span, doc, by := it.Locate(f.Pointer)
	if f.Part == analysis.RepeatedName && it.Doc != nil && !it.Rendered() {
		span = it.Doc.FindAgain(it.Base + f.Pointer)
	}
	p := span.Value
	if (span.Key.Line > 0 || span.Key.Column > 0) && (f.Part != analysis.FieldValue || !span.Exact ||
		span.Key.Line != span.Value.Line || span.Value.EndLine != span.Value.Line) {
		p = span.Key
	}
	if p.Line == 0 && doc != nil && by == "" {
		p = yamlx.Position{Line: it.Line(), Column: 1}
	}
	if it.Base != "" {
		// Make pointers relative to the document instead of the list item.
		f.Pointer = it.Base + f.Pointer
		f.Fix = below(it.Base, f.Fix)
	}
	return Finding{Finding: f, Object: it.Identity(), Doc: doc, Rendered: by != "", RenderedBy: by, File: it.File, Span: p,
		Source: input.ExcerptAt(doc, p)}
}

// LocationOf returns the location of a pointer into an object: that of the field's name, if
// there is one.
func LocationOf(it *input.Item, pointer string) analysis.Location {
	f := At(it, analysis.Finding{Pointer: pointer, Part: analysis.FieldName})
	return f.Location()
}

// Sort sorts findings by position. Findings about an object as a whole come last.
func Sort(fs []Finding) {
	slices.SortStableFunc(fs, func(a, b Finding) int {
		whole := func(f *Finding) int {
			if f.Path == "" {
				return 1
			}
			return 0
		}
		return cmp.Or(cmp.Compare(whole(&a), whole(&b)), cmp.Compare(a.Span.Line, b.Span.Line), cmp.Compare(a.Span.Column, b.Span.Column))
	})
}

// below returns a fix whose edits are relative to base.
func below(base string, fix *analysis.Fix) *analysis.Fix {
	if fix == nil {
		return nil
	}
	out := &analysis.Fix{Message: fix.Message, Edits: slices.Clone(fix.Edits)}
	for i := range out.Edits {
		e := &out.Edits[i]
		e.Pointer = base + e.Pointer
		if e.Op == yamledit.Move || e.Op == yamledit.Copy {
			e.To = base + e.To
		}
	}
	return out
}

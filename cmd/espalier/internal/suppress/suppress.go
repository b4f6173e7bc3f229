// Package suppress decides which findings are not reported: those that a comment in the file
// suppresses, those that an entry of ignore in the configuration file matches, and those in
// the baseline. It also reports suppressions that match nothing.
package suppress

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/cmd/espalier/internal/config"
	"espalier.dev/cmd/espalier/internal/glob"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/cmd/espalier/internal/workdir"
	"espalier.dev/internal/yamlx"
)

// Rules of findings about suppressions.
const (
	RuleUnused  = "unused-suppression"
	RuleInvalid = "invalid-suppression"
)

// Rules returns the rules of findings about suppressions.
func Rules() []analysis.Rule {
	return []analysis.Rule{
		{ID: RuleUnused, Severity: analysis.Warning, Summary: "A suppression matches no finding.",
			Help: "Remove the comment, or the entry of ignore in " + config.Name + "."},
		{ID: RuleStale, Severity: analysis.Info, Summary: "The baseline has findings that do not occur anymore.",
			Help: "Update it with --write-baseline."},
		{ID: RuleInvalid, Severity: analysis.Warning,
			Summary: "A comment that suppresses findings is malformed, names an unknown rule or gives no reason.", Help: "Write # " +
				Marker + " RULE[,RULE] -- reason."},
	}
}

// Options configure a [Filter].
type Options struct {
	// Dir is the directory that the paths of inputs are relative to.
	Dir    workdir.Dir
	Config *config.File
	// Known returns the rules of all commands.
	Known func() config.Rules
	// Rules lists the IDs of the rules that the command reports and that are turned on:
	// suppressions of other rules cannot be unused.
	Rules []string
	// Prune is set for prune, in which some rules had another name: suppressions may still have it.
	Prune bool
	// Severity overrides severities by rule.
	Severity map[string]analysis.Severity
	// Inputs returns the input of the command. An entry of ignore can be unused only if the
	// input has all files that it applies to.
	Inputs func() []input.Flags
	// Local returns the path in the file system of a file of a finding, which may be in a revision.
	Local func(file string) string
	// Baseline holds known findings; nil stands for none. Command is the name of the command
	// in it. If Write is set, all findings become known at the end of the run, and Written is
	// called with their number.
	Baseline *config.Baseline
	Command  string
	Write    bool
	Written  func(findings int)
}

// Filter suppresses findings. It is not safe for concurrent use.
type Filter struct {
	options Options
	// last is the document that was searched last, because findings come document by document.
	last *yamlx.Document
	// documents holds the documents with comments, because a document can come again, for
	// example a CRD that several objects use. seen lists the comments of the checked ones.
	documents map[position]*document
	files     map[string]*fileComments
	seen      []*comment
	// used holds the entries of ignore that have suppressed a finding.
	used map[*config.Ignore]bool
	// known is nil if there is no baseline.
	known *known
	// file and relative are the last path and its form relative to the configuration.
	file, relative string
}

// position is where a document starts.
type position struct {
	file string
	line int
}

// document holds the comments of a document.
type document struct {
	comments []*comment
	// seen is set if the document is checked.
	seen bool
}

// fileComments holds the comments of a file: those that apply to one line by that line, and
// the others.
type fileComments struct {
	lines  map[int][]*comment
	ranges []*comment
}

// New returns a Filter.
func New(o Options) *Filter {
	f := &Filter{options: o, documents: map[position]*document{}, files: map[string]*fileComments{}, used: map[*config.Ignore]bool{}}
	if o.Baseline != nil {
		f.known = newKnown(o.Baseline, o.Command, o.Write)
	}
	return f
}

// Saw is called for an object that is checked, before findings about it.
func (f *Filter) Saw(it *input.Item) {
	if f.known != nil {
		f.known.saw(it.Identity())
	}
	doc := it.SourceDoc()
	if doc == nil {
		return
	}
	f.read(doc, it.File)
	if it.Rendered() && doc == it.Doc {
		return // the lines of its comments are not those of the file
	}
	if d := f.documents[position{it.File, doc.Line()}]; d != nil && !d.seen {
		d.seen = true
		f.seen = append(f.seen, d.comments...)
	}
}

// read reads the comments of a document, unless they are known.
func (f *Filter) read(doc *yamlx.Document, file string) {
	if doc == nil || doc == f.last {
		return
	}
	f.last = doc
	at := position{file, doc.Line()}
	if f.documents[at] != nil {
		return
	}
	found := comments(doc, file, f.options.Known)
	if len(found) == 0 {
		return
	}
	f.documents[at] = &document{comments: found}
	of := f.files[file]
	if of == nil {
		of = &fileComments{lines: map[int][]*comment{}}
		f.files[file] = of
	}
	for _, c := range found {
		if c.first == c.last {
			of.lines[c.first] = append(of.lines[c.first], c)
		} else {
			of.ranges = append(of.ranges, c)
		}
	}
}

// match reports whether a comment applies to findings of a rule on a line, and remembers it.
func (f *fileComments) match(rule string, line int) bool {
	matches := func(c *comment) bool { return c.match(rule, line) }
	return f != nil && (slices.ContainsFunc(f.ranges, matches) || slices.ContainsFunc(f.lines[line], matches))
}

// Apply returns a finding with the configured severity, or false if it is suppressed.
func (f *Filter) Apply(found report.Finding) (report.Finding, bool) {
	if severity, ok := f.options.Severity[found.Rule]; ok {
		found.Severity = severity
	}
	doc := found.Doc
	if found.RenderedBy != "kustomize" { // the comments are those of the source
		f.read(doc, found.File)
	}
	found.Doc = nil // formats may keep findings
	names := f.names(found.Rule)
	line := found.Span.Line
	if found.Rendered && doc != nil {
		line, _ = doc.LineColumn(found.Span.Offset)
	}
	for _, name := range names {
		if f.files[found.File].match(name, line) {
			return found, false
		}
	}
	if len(f.options.Config.Ignore) > 0 {
		if found.File != f.file || f.relative == "" {
			f.file, f.relative = found.File, f.options.Config.Relative(f.options.Local(found.File))
		}
		for _, e := range f.options.Config.Ignore {
			if slices.ContainsFunc(names, func(name string) bool { return e.Match(name, f.relative, fieldOf(found.Path)) }) {
				f.used[e] = true
				return found, false
			}
		}
	}
	return found, f.known == nil || !f.known.has(&found, doc)
}

// fieldOf returns the field that a path names. The paths of diff start with the CRD and the
// version: "v1: spec.replicas".
func fieldOf(path string) string {
	if i := strings.LastIndex(path, ": "); i >= 0 {
		return path[i+2:]
	}
	return path
}

// End ends a run in which a number of inputs could not be processed. It writes the baseline if
// it should, and returns findings about comments that are malformed, about suppressions that
// have matched nothing although the command reports their rules, and about the baseline. It
// returns an error if the baseline cannot be written.
func (f *Filter) End(failures int) ([]report.Finding, error) {
	all := f.unused()
	switch {
	case f.known == nil:
		return all, nil
	case !f.options.Write:
		return append(all, f.known.stale(f.off)...), nil
	case failures > 0:
		return all, errors.New("cannot write the baseline: some input could not be read")
	}
	n, err := f.known.save()
	if err == nil {
		f.options.Written(n)
	}
	return all, err
}

// unused returns findings about comments and entries of ignore.
func (f *Filter) unused() (all []report.Finding) {
	for _, c := range f.seen {
		for _, problem := range c.problems {
			all = append(all, c.finding(RuleInvalid, problem))
		}
		for i, rule := range c.rules {
			if !c.used[i] && f.reports(rule) {
				all = append(all, c.finding(RuleUnused, fmt.Sprintf("no finding of %s to suppress: remove it from the comment", rule)))
			}
		}
	}
	for _, e := range f.options.Config.Ignore {
		if !f.used[e] && slices.ContainsFunc(e.Rules, f.reports) && f.covers(e) {
			all = append(all, report.Finding{
				Finding: analysis.Finding{Rule: RuleUnused, Severity: analysis.Warning,
					Message: fmt.Sprintf("no finding of %s to ignore: remove the entry", strings.Join(e.Rules, ", "))},
				File: f.options.Config.Path, Span: yamlx.Position{Line: e.Line, Column: e.Column},
			})
		}
	}
	return all
}

func (c *comment) finding(rule, message string) report.Finding {
	return report.Finding{Finding: analysis.Finding{Rule: rule, Severity: analysis.Warning,
		Message: message}, File: c.file, Span: c.at, Source: c.source}
}

// names returns the names of a rule in suppressions.
func (f *Filter) names(rule string) []string {
	if f.options.Prune && config.FormerlyPruned(rule) {
		return []string{rule, config.FormerPruned}
	}
	return []string{rule}
}

// reports reports whether the command reports a rule, or one that a pattern matches.
func (f *Filter) reports(pattern string) bool {
	return slices.ContainsFunc(f.options.Rules, func(rule string) bool {
		return slices.ContainsFunc(f.names(rule), func(name string) bool { return config.MatchRule(pattern, name) })
	})
}

// off reports whether a known rule is not one that the command reports.
func (f *Filter) off(rule string) bool {
	return !f.reports(rule) && slices.Contains(f.options.Known().All, rule)
}

// covers reports whether the input of the command has all files that an entry applies to.
func (f *Filter) covers(e *config.Ignore) bool {
	for _, g := range e.Files() {
		if !slices.ContainsFunc(f.options.Inputs(), func(flags input.Flags) bool { return f.coversFile(flags, g) }) {
			return false
		}
	}
	return true
}

// coversFile reports whether an input certainly has all files that a pattern matches. A
// pattern matches everything below a directory too.
func (f *Filter) coversFile(flags input.Flags, g glob.File) bool {
	if len(flags.Exclude) > 0 {
		return false
	}
	base, exact := g.Literal()
	return slices.ContainsFunc(flags.Paths, func(name string) bool {
		if name == "-" {
			return false
		}
		named := f.options.Config.Relative(name)
		info, err := f.options.Dir.Stat(name)
		switch {
		case err != nil:
			return false
		case !info.IsDir():
			return exact && named == base
		case flags.Recursive:
			return within(base, named)
		}
		return exact && named == path.Dir(base) && f.isFile(f.options.Config.Resolve(base))
	})
}

func (f *Filter) isFile(name string) bool {
	info, err := f.options.Dir.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// within reports whether a path is a directory or below it; both are relative to the same one.
func within(name, dir string) bool {
	rel, err := filepath.Rel(filepath.FromSlash(dir), filepath.FromSlash(name))
	return err == nil && rel != ".." && !strings.HasPrefix(filepath.ToSlash(rel), "../")
}

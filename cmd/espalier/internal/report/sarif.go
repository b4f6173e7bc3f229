package report

import (
	"io"
	"net/url"
	"path/filepath"
	"strings"

	"espalier.dev/analysis"
)

// sarifFormat writes SARIF 2.1.0. It streams the results and writes the description of the
// tool last, when all rules are known.
type sarifFormat struct {
	w       io.Writer
	options *Options
	rules   []analysis.Rule
	index   map[string]int
	count   int
}

type sarifResult struct {
	RuleID    string          `json:"ruleId"`
	RuleIndex int             `json:"ruleIndex"`
	Level     string          `json:"level"`
	Message   sarifText       `json:"message"`
	Locations []sarifLocation `json:"locations,omitempty"`
}

type sarifText struct {
	Text string `json:"text"`
}

type sarifLocation struct {
	Physical *sarifPhysical `json:"physicalLocation,omitempty"`
	Logical  []sarifLogical `json:"logicalLocations,omitempty"`
}

type sarifPhysical struct {
	Artifact sarifArtifact `json:"artifactLocation"`
	Region   *sarifRegion  `json:"region,omitempty"`
}

type sarifArtifact struct {
	URI string `json:"uri"`
}

type sarifRegion struct {
	StartLine   int        `json:"startLine"`
	StartColumn int        `json:"startColumn,omitempty"`
	EndLine     int        `json:"endLine,omitempty"`
	EndColumn   int        `json:"endColumn,omitempty"`
	Snippet     *sarifText `json:"snippet,omitempty"`
}

type sarifLogical struct {
	FullyQualifiedName string `json:"fullyQualifiedName"`
}

type sarifRule struct {
	ID            string      `json:"id"`
	Short         *sarifText  `json:"shortDescription,omitempty"`
	Help          *sarifText  `json:"help,omitempty"`
	Configuration sarifConfig `json:"defaultConfiguration"`
}

type sarifConfig struct {
	Level string `json:"level"`
}

func newSARIF(w io.Writer, o *Options) format {
	s := &sarifFormat{w: w, options: o, index: map[string]int{}}
	for _, r := range o.Rules {
		s.rule(r.ID, r)
	}
	return s
}

// rule returns the index of a rule, and adds the rule if it is new.
func (s *sarifFormat) rule(id string, r analysis.Rule) int {
	i, known := s.index[id]
	if !known {
		i = len(s.rules)
		s.index[id] = i
		s.rules = append(s.rules, r)
	}
	return i
}

func sarifLevel(s analysis.Severity) string {
	switch s {
	case analysis.Error:
		return "error"
	case analysis.Warning:
		return "warning"
	}
	return "note"
}

const sarifStart = `{"$schema":"https://json.schemastore.org/sarif-2.1.0.json","version":"2.1.0","runs":[{"columnKind":"unicodeCodePoints","results":[`

func (s *sarifFormat) finding(f *Finding) error {
	id := f.Rule
	if id == "" {
		id = "finding"
	}
	message := f.fullMessage()
	if f.Fix != nil {
		message += "\nfix: " + f.Fix.Message
	}
	r := sarifResult{
		RuleID:    id,
		RuleIndex: s.rule(id, analysis.Rule{ID: id, Severity: f.Severity}),
		Level:     sarifLevel(f.Severity),
		Message:   sarifText{Text: message},
	}
	var l sarifLocation
	if f.File != "" {
		l.Physical = &sarifPhysical{Artifact: sarifArtifact{URI: fileURI(f.File)}}
		if f.Span.Line > 0 {
			region := &sarifRegion{StartLine: f.Span.Line, StartColumn: f.Span.Column}
			if f.Span.EndLine > f.Span.Line || f.Span.EndLine == f.Span.Line && f.Span.EndColumn > f.Span.Column {
				region.EndLine, region.EndColumn = f.Span.EndLine, f.Span.EndColumn
			}
			if f.Source.Text != "" {
				region.Snippet = &sarifText{Text: f.Source.Text}
			}
			l.Physical.Region = region
		}
	}
	if f.Path != "" {
		l.Logical = []sarifLogical{{FullyQualifiedName: f.Path}}
	}
	if l.Physical != nil || l.Logical != nil {
		r.Locations = []sarifLocation{l}
	}
	text, err := marshal(r)
	if err != nil {
		return err
	}
	before := ",\n"
	if s.count == 0 {
		before = sarifStart + "\n"
	}
	s.count++
	_, err = io.WriteString(s.w, before+string(text))
	return err
}

// fileURI returns the URI of a file for SARIF. It is relative if the name is relative.
func fileURI(name string) string {
	u := url.URL{Path: filepath.ToSlash(name)}
	if filepath.IsAbs(name) {
		u.Scheme = "file"
	} else if first, _, _ := strings.Cut(u.Path, "/"); strings.Contains(first, ":") {
		// The part before the colon would be parsed as a scheme.
		u.Path = "./" + u.Path
	}
	return u.String()
}

func (s *sarifFormat) close(sum *Summary) error {
	rules := []sarifRule{}
	for _, r := range s.rules {
		rule := sarifRule{ID: r.ID, Configuration: sarifConfig{Level: sarifLevel(r.Severity)}}
		if r.Summary != "" {
			rule.Short = &sarifText{Text: r.Summary}
		}
		if r.Help != "" {
			rule.Help = &sarifText{Text: r.Help}
		}
		rules = append(rules, rule)
	}
	driver := map[string]any{
		"name":           "espalier",
		"informationUri": "https://espalier.dev",
		"rules":          rules,
	}
	if s.options.Version != "" {
		driver["version"] = s.options.Version
	}
	text, err := marshal(map[string]any{"driver": driver})
	if err != nil {
		return err
	}
	rest, err := marshal([]map[string]any{{"executionSuccessful": sum.Failures == 0, "properties": sum}})
	if err != nil {
		return err
	}
	before := "\n"
	if s.count == 0 {
		before = sarifStart
	}
	_, err = io.WriteString(s.w, before+`],"tool":`+string(text)+`,"invocations":`+string(rest)+"}]}\n")
	return err
}

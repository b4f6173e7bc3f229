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
	// Related holds the locations of the schema and of the field before a change.
	Related []sarifLocation `json:"relatedLocations,omitempty"`
}

type sarifText struct {
	Text string `json:"text"`
}

type sarifLocation struct {
	Physical *sarifPhysical `json:"physicalLocation,omitempty"`
	Logical  []sarifLogical `json:"logicalLocations,omitempty"`
	Message  *sarifText     `json:"message,omitempty"`
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
	Name               string `json:"name,omitempty"`
	FullyQualifiedName string `json:"fullyQualifiedName"`
	Kind               string `json:"kind,omitempty"`
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

// start returns the beginning of the file. The ID of the run distinguishes the commands: code
// scanning rejects several runs of a tool with the same ID.
func (s *sarifFormat) start() (string, error) {
	id := ""
	if s.options.Command != "" {
		text, err := marshal(map[string]string{"id": strings.ReplaceAll(s.options.Command, " ", "/") + "/"})
		if err != nil {
			return "", err
		}
		id = `"automationDetails":` + string(text) + ","
	}
	return `{"$schema":"https://json.schemastore.org/sarif-2.1.0.json","version":"2.1.0","runs":[{` + id +
		`"columnKind":"unicodeCodePoints","results":[`, nil
}

func (s *sarifFormat) finding(f *Finding) error {
	id := f.Rule
	if id == "" {
		id = "finding"
	}
	r := sarifResult{
		RuleID:    id,
		RuleIndex: s.rule(id, analysis.Rule{ID: id, Severity: f.Severity}),
		Level:     sarifLevel(f.Severity),
		Message:   sarifText{Text: f.fullMessage()},
	}
	l := sarifLocation{Physical: s.physicalLocation(new(f.Location())), Logical: logicalLocations(f)}
	if l.Physical != nil && l.Physical.Region != nil && f.Source.Text != "" {
		l.Physical.Region.Snippet = &sarifText{Text: f.Source.Text}
	}
	if l.Physical != nil || l.Logical != nil {
		r.Locations = []sarifLocation{l}
	}
	for _, other := range []struct {
		name string
		at   *analysis.Location
	}{{"schema", f.Schema}, {"policy", f.Policy}, {"old", f.Old}} {
		if physical := s.physicalLocation(other.at); physical != nil {
			message := &sarifText{Text: strings.TrimSuffix(other.name+": "+other.at.Path, ": ")}
			r.Related = append(r.Related, sarifLocation{Physical: physical, Message: message})
		}
	}
	text, err := marshal(r)
	if err != nil {
		return err
	}
	before := ",\n"
	if s.count == 0 {
		if before, err = s.start(); err != nil {
			return err
		}
		before += "\n"
	}
	s.count++
	_, err = io.WriteString(s.w, before+string(text))
	return err
}

// physicalLocation returns the file and the region of a location, or nil if it has no file.
func (s *sarifFormat) physicalLocation(l *analysis.Location) *sarifPhysical {
	if l == nil || l.File == "" {
		return nil
	}
	at := s.options.inTree(*l)
	p := &sarifPhysical{Artifact: sarifArtifact{URI: fileURI(at.File)}}
	if at.Line > 0 {
		p.Region = &sarifRegion{StartLine: at.Line, StartColumn: at.Column}
		if at.EndLine > at.Line || at.EndLine == at.Line && at.EndColumn > at.Column {
			p.Region.EndLine, p.Region.EndColumn = at.EndLine, at.EndColumn
		}
	}
	return p
}

// logicalLocations returns the object that a finding is about, and the field of the object.
func logicalLocations(f *Finding) (all []sarifLogical) {
	object := f.objectName()
	if object != "" {
		all = append(all, sarifLogical{Name: f.Object.FullName(), FullyQualifiedName: object, Kind: "resource"})
		object += ": "
	}
	if f.Path != "" {
		all = append(all, sarifLogical{Name: f.Path, FullyQualifiedName: object + f.Path, Kind: "property"})
	}
	return all
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
	invocations, err := marshal([]map[string]any{{"executionSuccessful": sum.Failures == 0}})
	if err != nil {
		return err
	}
	properties, err := marshal(sum)
	if err != nil {
		return err
	}
	before := "\n"
	if s.count == 0 {
		if before, err = s.start(); err != nil {
			return err
		}
	}
	_, err = io.WriteString(s.w, before+`],"tool":`+string(text)+`,"invocations":`+
		string(invocations)+`,"properties":`+string(properties)+"}]}\n")
	return err
}

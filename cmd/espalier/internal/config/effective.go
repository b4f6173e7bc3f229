package config

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Setting is the effective value of a key, and where it comes from.
type Setting struct {
	Name  string `json:"name"`
	Value any    `json:"value"`
	Source
}

// Source is where a value comes from.
type Source struct {
	Kind SourceKind `json:"source"`
	// Name is the flag or the environment variable.
	Name string `json:"from,omitempty"`
	// File and Line are the position in the configuration file.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
}

// SourceKind is the kind of a Source.
type SourceKind string

// The kinds of sources, in the order of precedence.
const (
	FromFlag        SourceKind = "flag"
	FromEnvironment SourceKind = "environment"
	FromFile        SourceKind = "file"
	FromDefault     SourceKind = "default"
)

// String returns the source as people write it.
func (s Source) String() string {
	switch s.Kind {
	case FromFlag:
		return "flag " + s.Name
	case FromEnvironment:
		return "environment variable " + s.Name
	case FromFile:
		return fmt.Sprintf("%s:%d", s.File, s.Line)
	}
	return string(s.Kind)
}

// Effective returns all settings. The values in override take precedence over the file.
func (f *File) Effective(rules Rules, override ...Setting) []Setting {
	all := f.keys(rules).settings("")
	for i := range all {
		s := &all[i]
		s.Source = Source{Kind: FromDefault}
		if line := f.lines[s.Name]; line > 0 {
			s.Source = Source{Kind: FromFile, File: f.Path, Line: line}
		}
		for _, o := range override {
			if o.Name == s.Name {
				*s = o
			}
		}
	}
	return all
}

// Text returns the value in one short line.
func (s Setting) Text() string {
	switch v := s.Value.(type) {
	case string:
		return v
	case []string:
		return strings.Join(v, ", ")
	case map[string]any:
		// The rules of an entry of ignore identify it; the rest would not fit.
		return Setting{Value: v["rules"]}.Text()
	}
	return fmt.Sprint(s.Value)
}

// Schema returns the JSON Schema of the configuration file.
func Schema(rules Rules) ([]byte, error) {
	schema := (&File{}).keys(rules).schema()
	schema["$schema"] = "http://json-schema.org/draft-07/schema#"
	schema["title"] = "Configuration of Espalier (" + Name + ")"
	text, err := json.MarshalIndent(schema, "", "  ")
	return append(text, '\n'), err
}

package input

import (
	"bytes"
	"unicode/utf8"

	"espalier.dev/api"
	"espalier.dev/internal/yamlx"
)

// mentionsDefinition reports whether a text may contain a CRD, possibly of a misspelled
// apiVersion or kind.
func mentionsDefinition(text []byte) bool {
	return bytes.Contains(text, []byte(api.Kind)) || bytes.Contains(text, []byte(api.GroupName+"/"))
}

// mentionsPolicy reports whether a text may contain an admission policy, a binding of one, or a
// webhook configuration.
func mentionsPolicy(text []byte) bool {
	return bytes.Contains(text, []byte("admissionregistration.k8s.io/"))
}

// mentionsObject reports whether a text may contain an object.
func mentionsObject(text []byte) bool {
	return bytes.Contains(text, []byte("apiVersion")) && bytes.Contains(text, []byte("kind"))
}

// keeps reports whether a document with this text is read.
func (f *Flags) keeps(text []byte) bool {
	if f.Select != nil && !f.Select(text) {
		return false
	}
	switch f.Keep {
	case Manifests:
		return bytes.Contains(text, []byte("apiVersion")) || bytes.Contains(text, []byte("kind")) ||
			bytes.Contains(text, []byte("Kind:")) && bytes.Contains(bytes.ToLower(text), []byte("apiversion:"))
	case Definitions:
		return mentionsDefinition(text)
	case Policies:
		return mentionsDefinition(text) || mentionsPolicy(text)
	}
	return true
}

// action is the start of an action of a Go template.
var action = []byte("{{")

// helmTemplate returns the problem if the document is a Helm template: it belongs to a chart
// and has actions, or actions keep it from being YAML. err is nil if the document is YAML.
func (d *Document) helmTemplate(err *yamlx.Error) *Problem {
	src := d.Source()
	at := bytes.Index(src, action)
	if at < 0 || d.rendered != nil {
		return nil
	}
	if err != nil {
		if at = bareAction(src, at); at < 0 {
			return nil
		}
	} else if !d.inChart() {
		return nil
	}
	start := bytes.LastIndexByte(src[:at], '\n') + 1
	line := d.Line() + bytes.Count(src[:at], []byte{'\n'})
	column := 1 + utf8.RuneCount(src[start:at])
	p := Problem{Rule: Template, File: d.File, Line: line, Column: column, Source: excerptOfLine(d.Document, line, column),
		Message: "Helm template: render it first: name its chart, or let --helm render all charts"}
	if err != nil {
		p.Message += " (not YAML: " + err.Message + ")"
	}
	return &p
}

// bareAction returns the offset of the first action, from offset at on, that is at the start
// of a line or value. Actions inside strings are common in manifests that are no templates.
func bareAction(src []byte, at int) int {
	for {
		before := bytes.TrimRight(src[:at], " \t")
		if n := len(before); n == 0 || bytes.IndexByte([]byte("\n:-"), before[n-1]) >= 0 {
			return at
		}
		next := bytes.Index(src[at+1:], action)
		if next < 0 {
			return -1
		}
		at += 1 + next
	}
}

// inChart reports whether the file is in the directory templates of a Helm chart, at any depth.
func (d *Document) inChart() bool {
	if d.in == nil {
		return false
	}
	above := d.in.parents(d.File)
	for i, dir := range above[:max(len(above)-1, 0)] {
		if dir != d.in.join(above[i+1], "templates") {
			continue
		}
		if _, err := d.in.stat(d.in.join(above[i+1], "Chart.yaml")); err == nil {
			return true
		}
	}
	return false
}

package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/internal/nearest"
	"espalier.dev/internal/yamlx"
	"espalier.dev/kinds/releases"
)

// Rules holds the IDs of the rules that a configuration can name.
type Rules struct {
	// Lint lists lint rules, Selectors what enable and disable accept in addition.
	Lint, Selectors []string
	Validate        []string
	// Diff includes the classes of changes.
	Diff []string
	// All lists the rules of all commands whose findings can be suppressed, Fixed the others:
	// their findings are about the run itself, and have fixed severities too.
	All, Fixed []string
}

// key is a key of the file.
type key struct {
	name string
	// doc describes the key to editors.
	doc   string
	value value
}

// value is the value of a key.
type value interface {
	// read reads the value of the key with the given name.
	read(p *parser, n *yamlx.Node, name string)
	// schema returns the JSON Schema of the value.
	schema() map[string]any
	// settings lists what is set, and the defaults.
	settings(name string) []Setting
}

// keys describes the file: f receives the values.
func (f *File) keys(rules Rules) section {
	severities := analysisSeverities()
	return section{
		{"semantics", "Schema semantics: kep follows the design documents of CRDs, kubernetes follows kube-apiserver.",
			choice{&f.Semantics, []string{"kep", "kubernetes"}, "kep"}},
		{"failOn", "Lowest severity of findings that make the exit code 1. Does not apply to prune, whose findings explain what it prints.",
			choice{&f.FailOn, append(severities, "never"), "error"}},
		{"exclude", "Patterns of files and directories to skip, relative to this file. ** matches any number of directories; a pattern without a slash matches names at any depth.",
			list{&f.Exclude, nil, checkFile}},
		{"crds", "Files and directories with CRDs, relative to this file: the default of --crd, and of the input of lint, fix and show.",
			list{&f.CRDs, nil, checkNotEmpty}},
		{"baseline", "File with known findings, relative to this file: only new findings are reported.",
			text{&f.Baseline, checkNotEmpty}},
		{"kubernetesVersion", "Version of Kubernetes of the cluster, such as '1.31': validate, review and lint report what it does not have.",
			text{&f.KubernetesVersion, checkRelease}},
		{"lint", "Rules of lint and fix.", section{
			{"enable", "Rules to turn on. Takes precedence over disable.",
				list{&f.Lint.Enable, slices.Concat(rules.Lint, rules.Selectors), nil}},
			{"disable", "Rules to turn off.", list{&f.Lint.Disable, slices.Concat(rules.Lint, rules.Selectors), nil}},
			{"severity", "Severities of rules.", severityMap{&f.Lint.Severity, rules.Lint, rules.Fixed, "rule"}},
		}},
		{"validate", "Defaults of validate. ignoreMissingCRDs applies to prune too.", section{
			{"fieldValidation", "Handling of unknown and duplicate fields.",
				choice{&f.Validate.FieldValidation, []string{"ignore", "warn", "strict"}, "warn"}},
			{"ignoreMissingCRDs", "Skip objects without a CRD, in validate and prune.", toggle{&f.Validate.IgnoreMissingCRDs}},
			{"checkCRDs", "Also report why the API server would reject the CRDs in use.", toggle{&f.Validate.CheckCRDs}},
			{"severity", "Severities of rules.", severityMap{&f.Validate.Severity, rules.Validate, rules.Fixed, "rule"}},
		}},
		{"diff", "Severities of changes.", section{
			{"severity", "Severities of classes of changes and of rules.", severityMap{&f.Diff.Severity,
				rules.Diff, rules.Fixed, "rule or class of change"}},
		}},
		{"ignore", "Findings that are not reported.", ignores{&f.Ignore, rules}},
	}
}

// checkRelease checks a version of Kubernetes.
func checkRelease(s string) error {
	_, err := releases.Parse(s)
	return err
}

func analysisSeverities() []string {
	return []string{string(analysis.Error), string(analysis.Warning), string(analysis.Info)}
}

// section is a mapping with known keys.
type section []key

func (s section) read(p *parser, n *yamlx.Node, name string) {
	p.mapping(n, name, func(n *yamlx.Node) {
		for _, k := range s {
			if k.name == n.Key {
				full := join(name, k.name)
				p.file.lines[full], _ = p.at(n.KeyStart)
				k.value.read(p, n, full)
				return
			}
		}
		p.unknown(n.KeyStart, "key", n.Key, s.names())
	})
}

func (s section) names() (names []string) {
	for _, k := range s {
		names = append(names, k.name)
	}
	return names
}

func (s section) schema() map[string]any {
	properties := map[string]any{}
	for _, k := range s {
		properties[k.name] = withDescription(k.value.schema(), k.doc)
	}
	return map[string]any{"type": []string{"object", "null"}, "additionalProperties": false, "properties": properties}
}

func withDescription(schema map[string]any, doc string) map[string]any {
	schema["description"] = doc
	return schema
}

func (s section) settings(name string) (all []Setting) {
	for _, k := range s {
		all = append(all, k.value.settings(join(name, k.name))...)
	}
	return all
}

func join(section, name string) string {
	if section == "" {
		return name
	}
	return section + "." + name
}

// choice is one of some names.
type choice struct {
	to      *string
	names   []string
	initial string
}

func (c choice) read(p *parser, n *yamlx.Node, _ string) {
	if s, ok := p.text(n); ok && p.oneOf(n, "value", s, c.names) {
		*c.to = s
	}
}

func (c choice) schema() map[string]any { return map[string]any{"enum": c.names, "default": c.initial} }

func (c choice) settings(name string) []Setting {
	value := *c.to
	if value == "" {
		value = c.initial
	}
	return []Setting{{Name: name, Value: value}}
}

// text is any string that a check accepts.
type text struct {
	to    *string
	check func(string) error
}

func (t text) read(p *parser, n *yamlx.Node, _ string) {
	if s, ok := p.text(n); ok {
		p.check(n, s, t.check)
		*t.to = s
	}
}

func (t text) schema() map[string]any         { return map[string]any{"type": "string", "minLength": 1} }
func (t text) settings(name string) []Setting { return []Setting{{Name: name, Value: *t.to}} }

// toggle is a boolean. Its default is false.
type toggle struct{ to *bool }

func (t toggle) read(p *parser, n *yamlx.Node, _ string) {
	switch string(n.JSON) {
	case "true", "false":
		*t.to = string(n.JSON) == "true"
	default:
		p.fail(n.Start, "must be true or false")
	}
}

func (t toggle) schema() map[string]any         { return map[string]any{"type": "boolean", "default": false} }
func (t toggle) settings(name string) []Setting { return []Setting{{Name: name, Value: *t.to}} }

// list is a list of strings. If names is not empty, it lists what the strings can be.
type list struct {
	to    *[]string
	names []string
	check func(string) error
}

func (l list) read(p *parser, n *yamlx.Node, _ string) {
	p.items(n, func(n *yamlx.Node) {
		s, ok := p.text(n)
		if !ok || len(l.names) > 0 && !p.oneOf(n, "rule", s, l.names) || l.check != nil && !p.check(n, s, l.check) {
			return
		}
		*l.to = append(*l.to, s)
	})
}

func (l list) schema() map[string]any {
	items := map[string]any{"type": "string", "minLength": 1}
	if len(l.names) > 0 {
		items = map[string]any{"enum": slices.Sorted(slices.Values(l.names))}
	}
	return map[string]any{"type": "array", "items": items}
}

func (l list) settings(name string) []Setting {
	value := *l.to
	if value == nil {
		value = []string{}
	}
	return []Setting{{Name: name, Value: value}}
}

// severityMap maps rules to severities.
type severityMap struct {
	to    *map[string]analysis.Severity
	rules []string
	// fixed lists the rules whose severities cannot change.
	fixed []string
	// what is the name of a key in errors.
	what string
}

func (m severityMap) read(p *parser, n *yamlx.Node, name string) {
	*m.to = map[string]analysis.Severity{}
	p.mapping(n, name, func(n *yamlx.Node) {
		switch {
		case slices.Contains(m.rules, n.Key):
		case slices.Contains(m.fixed, n.Key):
			p.fail(n.KeyStart, "the severity of %s cannot be changed", n.Key)
			return
		default:
			p.unknown(n.KeyStart, m.what, n.Key, m.rules)
			return
		}
		if s, ok := p.text(n); ok && p.oneOf(n, "severity", s, analysisSeverities()) {
			(*m.to)[n.Key] = analysis.Severity(s)
			p.file.lines[join(name, n.Key)], _ = p.at(n.KeyStart)
		}
	})
}

func (m severityMap) schema() map[string]any {
	properties := map[string]any{}
	for _, id := range m.rules {
		properties[id] = map[string]any{"enum": analysisSeverities()}
	}
	return map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
}

func (m severityMap) settings(name string) (all []Setting) {
	for _, id := range slices.Sorted(maps.Keys(*m.to)) {
		all = append(all, Setting{Name: join(name, id), Value: string((*m.to)[id])})
	}
	return all
}

// orList returns names as "a, b or c".
func orList(names []string) string {
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " or " + names[n-1]
	}
	return strings.Join(names, "")
}

// unknown returns a message about an unknown name that suggests a similar one.
func unknown(what, name string, known []string) string {
	message := fmt.Sprintf("unknown %s %q", what, name)
	if meant := nearest.Name(name, slices.Values(known)); meant != "" {
		return message + ": did you mean " + meant + "?"
	}
	if len(known) <= 10 {
		return message + ": use " + orList(known)
	}
	return message
}

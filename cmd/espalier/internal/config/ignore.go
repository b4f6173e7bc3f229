package config

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"espalier.dev/cmd/espalier/internal/glob"
	"espalier.dev/internal/jsonptr"
	"espalier.dev/internal/yamlx"
)

// All stands for every rule.
const All = "all"

// Ignore is an entry of ignore: findings that are not reported.
type Ignore struct {
	// Rules lists IDs and patterns of rules, or All.
	Rules []string
	// Paths lists patterns of files, Fields patterns of fields. If there are none, all match.
	Paths, Fields []string
	Reason        string
	// Line and Column are the position of the entry in the file.
	Line, Column int

	paths  []glob.File
	fields [][]string
}

// ignores is the list of entries.
type ignores struct {
	to    *[]*Ignore
	rules Rules
}

func (i ignores) entry(to *Ignore) section {
	return section{
		{"rules", "IDs of rules, patterns such as validation/*, or " + All + ".", list{&to.Rules, nil, i.checkRule}},
		{"paths", "Patterns of files, relative to this file. Without paths, the entry applies to all files.",
			list{&to.Paths, nil, checkFile}},
		{"fields", "Patterns of fields, such as spec.versions[].schema or spec.**.format, including the fields below them. Without fields, the entry applies to all fields.", list{&to.Fields, nil, checkField}},
		{"reason", "Why the findings are ignored.", text{&to.Reason, checkNotEmpty}},
	}
}

func (i ignores) read(p *parser, n *yamlx.Node, name string) {
	p.items(n, func(n *yamlx.Node) {
		e := &Ignore{}
		e.Line, e.Column = p.at(n.Start)
		full := fmt.Sprintf("%s[%d]", name, len(*i.to))
		i.entry(e).read(p, n, full)
		p.file.lines[full] = e.Line
		for _, key := range []string{"rules", "reason"} {
			if n.Kind == yamlx.Mapping && n.Entry(key) == nil {
				p.fail(n.Start, "%s is required", key)
			}
		}
		e.compile()
		*i.to = append(*i.to, e)
	})
}

func (i ignores) schema() map[string]any {
	item := i.entry(&Ignore{}).schema()
	item["required"] = []string{"rules", "reason"}
	item["type"] = "object"
	return map[string]any{"type": "array", "items": item}
}

func (i ignores) settings(name string) (all []Setting) {
	for n, e := range *i.to {
		value := map[string]any{"rules": e.Rules, "reason": e.Reason}
		if len(e.Paths) > 0 {
			value["paths"] = e.Paths
		}
		if len(e.Fields) > 0 {
			value["fields"] = e.Fields
		}
		all = append(all, Setting{Name: fmt.Sprintf("%s[%d]", name, n), Value: value})
	}
	return all
}

func (i ignores) checkRule(pattern string) error {
	if message, ok := i.rules.Known(pattern); !ok {
		return errors.New(message)
	}
	return nil
}

// Known reports whether a rule, or a pattern of rules, matches a rule whose findings can be
// suppressed. If not, it returns a message that suggests a similar rule.
func (r Rules) Known(pattern string) (message string, ok bool) {
	switch {
	case pattern == FormerPruned, slices.ContainsFunc(r.All, func(id string) bool { return MatchRule(pattern, id) }):
		return "", true
	case slices.Contains(r.Fixed, pattern):
		return "findings of " + pattern + " cannot be suppressed", false
	}
	return unknown("rule", pattern, r.All), false
}

// FormerPruned is the former name of some rules in prune. Files may still have it.
const FormerPruned = "pruned"

// FormerlyPruned reports whether the findings of a rule had the name FormerPruned in prune.
func FormerlyPruned(rule string) bool { return rule == "unknown-field" || rule == "storage-version" }

// MatchRule reports whether a pattern of rules matches a rule.
func MatchRule(pattern, rule string) bool {
	if pattern == rule || pattern == All {
		return true
	}
	ok, _ := path.Match(pattern, rule)
	return ok
}

func checkNotEmpty(s string) error {
	if s == "" {
		return errors.New("must not be empty")
	}
	return nil
}

func checkFile(pattern string) error {
	if _, err := glob.ParseFile(pattern); err != nil {
		return fmt.Errorf("%q: %w", pattern, err)
	}
	return nil
}

func checkField(pattern string) error {
	tokens, err := parseField(pattern)
	if err == nil && glob.Check(tokens) != nil {
		err = errors.New("not a valid pattern: use *, ?, [] and **, as in spec.versions[].schema")
	}
	if err != nil {
		return fmt.Errorf("%q: %w", pattern, err)
	}
	return nil
}

// parseField returns the elements of a pattern of fields: names between dots, and indexes and
// keys in brackets, where nothing stands for all of them. Slashes in names are replaced,
// because * does not match them.
func parseField(pattern string) (tokens []string, err error) {
	for rest := pattern; rest != ""; {
		var token string
		if rest[0] == '[' {
			var ok bool
			if token, rest, ok = strings.Cut(rest[1:], "]"); !ok {
				return nil, errors.New("a bracket is not closed")
			}
			if token = strings.Trim(token, `"'`); token == "" {
				token = "*"
			}
		} else {
			end := strings.IndexAny(rest, ".[")
			if end < 0 {
				end = len(rest)
			}
			token, rest = rest[:end], rest[end:]
		}
		tokens = append(tokens, strings.ReplaceAll(token, "/", "\x00"))
		if next, ok := strings.CutPrefix(rest, "."); ok {
			if rest = next; rest == "" {
				return nil, errors.New("ends with a dot")
			}
		}
	}
	return tokens, checkNotEmpty(pattern)
}

// parseFiles parses patterns of files. It omits those that are malformed.
func parseFiles(patterns []string) (files []glob.File) {
	for _, pattern := range patterns {
		if f, err := glob.ParseFile(pattern); err == nil {
			files = append(files, f)
		}
	}
	return files
}

// compile prepares the patterns for Match. The parser has reported those that are malformed.
func (e *Ignore) compile() {
	e.paths = parseFiles(e.Paths)
	for _, pattern := range e.Fields {
		if tokens, err := parseField(pattern); err == nil {
			e.fields = append(e.fields, tokens)
		}
	}
}

// Match reports whether an entry applies to a finding of a rule about a field, in a file
// relative to the configuration.
func (e *Ignore) Match(rule, file, field string) bool {
	return slices.ContainsFunc(e.Rules, func(pattern string) bool { return MatchRule(pattern, rule) }) &&
		e.MatchFile(file) && e.matchField(field)
}

// MatchFile reports whether an entry applies to a file, relative to the configuration.
func (e *Ignore) MatchFile(file string) bool {
	return len(e.Paths) == 0 || slices.ContainsFunc(e.paths, func(f glob.File) bool { return f.Match(file, false) })
}

// Files returns the patterns of files that an entry applies to.
func (e *Ignore) Files() []glob.File {
	if len(e.Paths) == 0 {
		return parseFiles([]string{"**"})
	}
	return e.paths
}

func (e *Ignore) matchField(field string) bool {
	if len(e.Fields) == 0 {
		return true
	}
	tokens := jsonptr.Split(jsonptr.FromPath(field))
	for i := range tokens {
		tokens[i] = strings.ReplaceAll(tokens[i], "/", "\x00")
	}
	return slices.ContainsFunc(e.fields, func(pattern []string) bool { return glob.MatchPrefix(pattern, tokens) })
}

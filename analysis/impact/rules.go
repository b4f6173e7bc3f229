package impact

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// ruleParser parses rules, each of them once. If that is not possible, the text of a rule
// decides.
type ruleParser struct {
	checker crd.RuleChecker
	parsed  map[string]schema.ParsedRule
}

func newRuleParser(checker crd.RuleChecker) *ruleParser {
	return &ruleParser{checker, map[string]schema.ParsedRule{}}
}

func (p *ruleParser) parse(rule string) schema.ParsedRule {
	if known, ok := p.parsed[rule]; ok {
		return known
	}
	out := schema.ParsedRule{Canonical: rule}
	if p.checker == nil {
		out.UsesOldSelf = strings.Contains(rule, "oldSelf")
	} else if parsed, err := p.checker.ParseRule(rule); err == nil {
		out = parsed
	}
	p.parsed[rule] = out
	return out
}

// isSame returns a function that reports whether a rule is the same as r, apart from its
// message.
func (p *ruleParser) isSame(r api.ValidationRule) func(api.ValidationRule) bool {
	return func(s api.ValidationRule) bool {
		return onCreate(r) == onCreate(s) && p.parse(r.Rule).Canonical == p.parse(s.Rule).Canonical
	}
}

// isTransition reports whether a rule is evaluated only if there is an old value.
func (p *ruleParser) isTransition(r api.ValidationRule) bool {
	return !onCreate(r) && p.parse(r.Rule).UsesOldSelf
}

// onCreate reports whether a transition rule also runs without an old value.
func onCreate(r api.ValidationRule) bool { return r.OptionalOldSelf != nil && *r.OptionalOldSelf }

// validations compares the rules of a schema.
func (c *comparer) validations(p place, was, is side) {
	o, n := was.node.XValidations, is.node.XValidations
	for i, r := range n {
		keyword := fmt.Sprintf("x-kubernetes-validations/%d", i)
		j := slices.IndexFunc(o, c.rules.isSame(r))
		switch {
		case j < 0 && strings.TrimSpace(r.Rule) == "true":
			c.emit(p, "rule-added", keyword, "rule added that always holds: "+show(r.Rule)).of(r.Rule)
		case j < 0 && c.rules.isTransition(r):
			c.emit(p, "rule-added", keyword, "rule added: "+show(r.Rule),
				at(Clients, p.path, "updates that violate it are rejected; stored objects stay valid")).of(r.Rule).transition = true
		case j < 0 && c.holdsWithoutAdded(p, was, is, r):
			c.emit(p, "rule-added", keyword, "rule added that holds as long as the new fields are not set: "+show(r.Rule)).of(r.Rule)
		case j < 0:
			c.emit(p, "rule-added", keyword, "rule added: "+show(r.Rule), tightened(p.path, "")...).of(r.Rule)
		case reflect.DeepEqual(o[j], r):
		case o[j].Rule == r.Rule:
			c.emit(p, "rule-message", keyword, "rule message changed: "+show(r.Rule)).of(r.Rule)
		default:
			c.emit(p, "rule-spelling", keyword, "rule spelled differently, with the same meaning: "+show(r.Rule)).of(r.Rule)
		}
	}
	for _, r := range o {
		if !slices.ContainsFunc(n, c.rules.isSame(r)) {
			c.emit(p, "rule-removed", "x-kubernetes-validations", "rule removed: "+show(r.Rule)).of(r.Rule)
		}
	}
}

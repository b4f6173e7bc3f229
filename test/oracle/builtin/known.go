package builtin

import (
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// newRule is a rule of 1.37 that 1.36 does not have, or has in another form.
type newRule struct {
	name string
	// apply returns the form in which the errors of both versions are equal.
	apply func(Cause) Cause
}

var condition = regexp.MustCompile(`^(.*\.conditions\[[0-9]+\])(\.type|\.status)?$`)

var ownerReference = regexp.MustCompile(`^(.*\.ownerReferences)(\[[0-9]+\])?(.*)$`)

// newIn137 are the rules that are new in 1.37.
var newIn137 = []newRule{
	// Errors of owner references have the index, and empty fields are "Required", not "Invalid".
	{"owner references", func(c Cause) Cause {
		if m := ownerReference.FindStringSubmatch(c.Field); m != nil {
			return Cause{Field: m[1] + m[3]}
		}
		return c
	}},
	// Empty types and statuses of conditions are "Required", with one error, and a duplicate is an error
	// of the condition, not of its type.
	{"conditions", func(c Cause) Cause {
		m := condition.FindStringSubmatch(c.Field)
		switch {
		case m == nil:
		case c.Type == string(metav1.CauseTypeFieldValueDuplicate):
			c.Field = m[1]
		case strings.HasSuffix(c.Message, `"": name part must be non-empty`):
			return Cause{}
		case c.Type == string(metav1.CauseTypeFieldValueRequired), strings.Contains(c.Message, ` value: "": `):
			return Cause{Field: c.Field}
		}
		return c
	}},
}

// newRules returns an error in the form that both versions have in common, or nothing if only one of
// them has it beside others.
func newRules(c Cause) Cause {
	for _, r := range newIn137 {
		c = r.apply(c)
	}
	return withoutDiff(c)
}

// withoutDiff removes the difference between two pods from the message of the error that an
// update may not change some field. It is for people, and its format is that of Go's internal
// types.
func withoutDiff(c Cause) Cause {
	c.Message, _, _ = strings.Cut(c.Message, "\n")
	return c
}

// knownDifference is a difference that is meant.
type knownDifference struct {
	name   string
	reason string
	// match reports whether a difference of a minimized case is this one.
	match func(k *Kind, c *Case, d *Difference) bool
}

// knownDifferences are the differences that are meant.
var knownDifferences = []knownDifference{
	{"names of limit ranges", "a limit range without a name gets a random one", func(k *Kind, c *Case, d *Difference) bool {
		return k.Name == "limitranges" && c.Op == "create" && len(d.Lines) == 2 && !slices.ContainsFunc(d.Lines, func(line string) bool {
			return !strings.Contains(line, " metadata.name: ")
		})
	}},
	{
		name:   "template generation of daemon sets",
		reason: "The reference does not decode a daemon set whose deprecated annotation is not a number.",
		match: func(k *Kind, c *Case, d *Difference) bool {
			return k.Name == "daemonsets" && has(c.Object, "metadata", "annotations", "deprecated.daemonset.template.generation") && strings.Contains(d.Key, "strconv.ParseInt")
		},
	},
}

// has reports whether an object has a field.
func has(obj map[string]any, path ...string) bool {
	for i, key := range path {
		v, ok := obj[key]
		if !ok {
			return false
		}
		if i == len(path)-1 {
			return true
		}
		if obj, ok = v.(map[string]any); !ok {
			return false
		}
	}
	return true
}

// known returns the name of the known difference that a difference is, or "".
func known(k *Kind, c *Case, d *Difference) string {
	for _, other := range knownDifferences {
		if other.match(k, c, d) {
			return other.name
		}
	}
	return ""
}

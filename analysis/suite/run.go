package suite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev"
	"espalier.dev/analysis"
	"espalier.dev/analysis/object"
	"espalier.dev/internal/jsonptr"
	"espalier.dev/internal/jsonx"
	"espalier.dev/schema"
)

// Run runs a case and returns a finding for each difference from the expected result. A
// case without findings passes.
func (r *Runner) Run(ctx context.Context, c *Case) []analysis.Finding {
	if c.openshift != nil {
		return r.runOpenShift(ctx, c)
	}
	var a Admitter = r.admitter
	if r.other != nil {
		a = r.other
	}
	result, rejections, policy := r.admit(ctx, a, c)
	switch {
	case c.rejected && len(rejections) == 0:
		lines := expectedLines(c)
		if policy != nil {
			for _, why := range policy.Unjudged {
				lines = append(lines, why+": what it does is not known without a cluster")
			}
		}
		return []analysis.Finding{failure(c, c.Pointer, "accepted, but it should be rejected", lines...)}
	case c.rejected:
		return c.compareErrors(rejections)
	case len(rejections) > 0:
		return []analysis.Finding{failure(c, c.Pointer, "rejected, but it should be accepted", lines(rejections)...)}
	}
	return append(c.compareResult(r, result), c.comparePolicies(policy)...)
}

// complete fills in the fields that an object may omit.
func (r *Runner) complete(obj schema.Object) schema.Object {
	obj = jsonx.CopyObject(obj)
	if obj == nil {
		obj = schema.Object{}
	}
	apiVersion, kind := r.types.APIVersion, r.types.Kind
	if r.admitter != nil {
		if v := r.admitter.Definition().Storage(); v != nil {
			apiVersion, kind = v.GroupVersionKind().ToAPIVersionAndKind()
		}
	}
	if obj["apiVersion"] == nil && apiVersion != "" {
		obj["apiVersion"] = apiVersion
	}
	if obj["kind"] == nil && kind != "" {
		obj["kind"] = kind
	}
	meta, ok := obj["metadata"].(map[string]any)
	if !ok {
		if obj["metadata"] != nil {
			// Keep invalid metadata: the case may test it.
			return obj
		}
		meta = map[string]any{}
		obj["metadata"] = meta
	}
	if meta["name"] == nil && meta["generateName"] == nil {
		meta["name"] = "test"
	}
	return obj
}

// rejection is one reason for which an object was rejected.
type rejection struct {
	// paths and messages include those of nested violations: a failing logical operator has
	// further reasons.
	paths, messages []string
	// rules are the names of the violated rules: a keyword or a CEL rule.
	rules []string
	// note reports whether it is informational and not a reason.
	note bool
}

// rejectionsOf returns the reasons for which an object was rejected.
func rejectionsOf(result *espalier.Result, err error) (list []rejection) {
	var contradiction *schema.ContradictionError
	var metadata *schema.MetadataError
	var field *espalier.FieldError
	var status apierrors.APIStatus
	switch {
	case errors.As(err, &status) && status.Status().Details != nil && len(status.Status().Details.Causes) > 0:
		for _, cause := range status.Status().Details.Causes {
			message := cause.Message
			if cause.Field != "" {
				message = cause.Field + ": " + message
			}
			list = append(list, rejection{paths: []string{cause.Field}, messages: []string{message}, rules: causeRules(cause)})
		}
		return list
	case errors.As(err, &contradiction):
		for _, c := range contradiction.Contradictions {
			list = append(list, rejection{
				paths: []string{c.Path.String()}, rules: []string{schema.WrongType.String()},
				messages: []string{fmt.Sprintf("%s: must be of type %s, is %s", c.Path, c.Want, c.Got)},
			})
		}
		return list
	case errors.As(err, &metadata):
		return []rejection{{paths: []string{metadata.Path.String(), metadata.Path.FieldPath().String()}, messages: []string{err.Error()}}}
	case errors.As(err, &field):
		return []rejection{{paths: []string{field.Path.String()}, messages: []string{err.Error()}}}
	case err != nil:
		return []rejection{{messages: []string{err.Error()}}}
	}
	for _, v := range result.Violations {
		r := rejection{paths: []string{v.Path.String(), v.Path.FieldPath().String()},
			rules: violationRules(&v), note: v.Kind == schema.RulesSkipped}
		if v.Kind == schema.Metadata {
			// A suite may refer to the metadata as a whole.
			r.paths = append(r.paths, metadataOf(v.Path).String(), metadataOf(v.Path).FieldPath().String())
		}
		for _, e := range (schema.Violations{v}).FieldErrors() {
			r.paths = append(r.paths, e.Field)
			r.messages = append(r.messages, e.Error())
		}
		list = append(list, r)
	}
	return list
}

// violationRules returns the names that a suite may use for a violation: its kind, and the
// rule, pattern, format or name in the schema.
func violationRules(v *schema.Violation) []string {
	if v.Kind == schema.Builtin {
		return causeRules(metav1.StatusCause{Type: metav1.CauseType(v.Cause.Type), Field: v.Cause.Field})
	}
	names := []string{v.Kind.String()}
	for _, text := range []string{v.Want.Rule, v.Want.Pattern, v.Want.Format, v.Want.Name, v.Want.Discriminator} {
		if text != "" {
			names = append(names, text)
		}
	}
	return names
}

// causeRules returns the names that a suite may use for one cause of an error of the API server.
func causeRules(cause metav1.StatusCause) []string {
	return []string{strings.TrimPrefix(object.CauseRule(cause), "validation/"), string(cause.Type)}
}

// metadataOf returns the prefix of the path that ends at metadata.
func metadataOf(path schema.Path) schema.Path {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == (schema.Step{Key: "metadata"}) {
			return path[:i+1]
		}
	}
	return path
}

// matches reports whether the rejection is the expected one.
func (e expectedError) matches(r rejection) bool {
	return (e.path == "" || slices.Contains(r.paths, e.path)) &&
		(e.message == "" || slices.ContainsFunc(r.messages, func(m string) bool { return strings.Contains(m, e.message) })) &&
		(e.rule == "" || slices.ContainsFunc(r.rules, func(rule string) bool { return plain(rule) == plain(e.rule) }))
}

// plain normalizes a name, so that maxLength, "max length" and max-length are equal.
func plain(name string) string {
	return strings.ToLower(strings.NewReplacer(" ", "", "-", "", "_", "").Replace(name))
}

// compareErrors compares the reasons with the expected errors. Each error must match a
// reason, and each reason an error.
func (c *Case) compareErrors(rejections []rejection) (findings []analysis.Finding) {
	if len(c.errors) == 0 {
		return nil
	}
	expected := make([]bool, len(rejections))
	for _, e := range c.errors {
		found := false
		for i, r := range rejections {
			if e.matches(r) {
				found, expected[i] = true, true
			}
		}
		if !found {
			detail := []string{"- " + e.String()}
			for _, line := range lines(rejections) {
				detail = append(detail, "+ "+line)
			}
			findings = append(findings, failure(c, e.pointer, "rejected, but not for this reason", detail...))
		}
	}
	if len(findings) > 0 {
		return findings
	}
	var others []rejection
	for i, r := range rejections {
		if !expected[i] && !r.note {
			others = append(others, r)
		}
	}
	if len(others) > 0 {
		return []analysis.Finding{failure(c, c.Pointer+"/errors", "rejected for other reasons as well", lines(others)...)}
	}
	return nil
}

func lines(rejections []rejection) (list []string) {
	for _, r := range rejections {
		list = append(list, r.messages...)
	}
	return list
}

func expectedLines(c *Case) (list []string) {
	for _, e := range c.errors {
		list = append(list, "- "+e.String())
	}
	return list
}

// compareResult compares the stored object, and the pruned and defaulted fields.
func (c *Case) compareResult(r *Runner, result *espalier.Result) (findings []analysis.Finding) {
	paths := func(kind []schema.Change) (list []string) {
		for _, change := range kind {
			list = append(list, change.Path.String())
		}
		slices.Sort(list)
		return list
	}
	compare := func(key string, want, got []string) {
		want = slices.Sorted(slices.Values(want))
		if slices.Equal(want, got) {
			return
		}
		findings = append(findings, failure(c, jsonptr.Child(c.Pointer, key), "different fields are "+key,
			diff(strings.Join(append(want, ""), "\n"), strings.Join(append(got, ""), "\n"))...))
	}
	pruned := paths(result.Pruned())
	switch {
	case c.hasPruned:
		compare("pruned", c.pruned, pruned)
	case !c.hasStored && len(pruned) > 0:
		detail := []string{"if this is intended, list them under pruned"}
		for _, change := range result.Pruned() {
			if near := change.Nearest(); near != "" {
				detail = append(detail, fmt.Sprintf("%s: did you mean %q?", change.Path, near))
			}
		}
		findings = append(findings, failure(c, c.Pointer, "accepted, but fields are pruned: "+strings.Join(pruned, ", "), detail...))
	}
	if c.hasDefaulted {
		compare("defaulted", c.defaulted, paths(result.Defaulted()))
	}
	if c.hasStored {
		if lines := difference(r.complete(c.stored), result.Object, c.stored); len(lines) > 0 {
			findings = append(findings, failure(c, c.Pointer+"/stored", "the stored object differs", lines...))
		}
	}
	return findings
}

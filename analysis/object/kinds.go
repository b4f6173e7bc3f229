//go:build !small

package object

import (
	"context"
	"fmt"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/analysis"
	"espalier.dev/internal/jsonx"
	"espalier.dev/kinds"
	"espalier.dev/schema"
)

// KindChecker does for the objects of Kubernetes' own kinds what a [Checker] does for those of a
// CRD. It is safe for concurrent use.
type KindChecker struct {
	rules func() (*kinds.Offline, error)
}

// ForKinds returns a KindChecker. It makes the rules when the first object is checked.
func ForKinds(cel kinds.CEL) *KindChecker {
	return &KindChecker{kinds.NewAdmission(cel).Offline}
}

// Check is like [Checker.Check], with the old object in JSON. An object without a UID is applied, as
// by kubectl: it keeps what the server has generated for the old one. Objects that the API server
// does not store, such as reviews, are only decoded.
func (c *KindChecker) Check(_ context.Context, source, old []byte, fields FieldValidation) []analysis.Finding {
	findings, err := c.check(source, old, fields)
	if err != nil {
		findings = append(findings, analysis.Finding{Rule: RuleDecode, Severity: analysis.Error, Message: err.Error()})
	}
	return findings
}

func (c *KindChecker) check(source, old []byte, fields FieldValidation) (findings []analysis.Finding, _ error) {
	r, err := c.request(source)
	if err != nil {
		return nil, err
	}
	if r.Undecodable != nil || r.Strict != nil {
		findings = decodingFindings(r, fields)
	}
	if r.Undecodable != nil || kinds.ByKind(r.Kind).CreateOnly {
		return findings, nil
	}
	if old != nil {
		if err := r.Apply(old); err != nil {
			return findings, fmt.Errorf("cannot decode the old object: %w", err)
		}
	}
	warnings, errs, err := r.Write("")
	tree := sync.OnceValue(func() any {
		// It can fail for numbers that no field has: then paths are located without the object.
		tree, _ := jsonx.Parse(source)
		return tree
	})
	for _, text := range warnings {
		findings = append(findings, warningFinding(text, tree()))
	}
	reported := map[string]bool{} // some rules of updates repeat others
	for _, e := range errs {
		if text := e.Error(); !reported[text] {
			reported[text] = true
			findings = append(findings, errorFinding(e, tree()))
		}
	}
	if err != nil {
		findings = append(findings, analysis.Finding{Rule: RuleInvalid, Severity: analysis.Error, Message: err.Error()})
	}
	return findings, nil
}

// request returns the request that creates an object.
func (c *KindChecker) request(source []byte) (*kinds.Request, error) {
	rules, err := c.rules()
	if err != nil {
		return nil, err
	}
	return rules.Request(source)
}

// decodingFindings reports what a decoder finds in an object: unknown and duplicate fields and, if
// the object cannot be decoded, all values of a wrong type.
func decodingFindings(r *kinds.Request, fields FieldValidation) (findings []analysis.Finding) {
	found := r.Compare()
	if r.Undecodable == nil {
		found.Wrong = nil
	}
	findings = comparisonFindings(found, fields)
	if r.Undecodable != nil && len(found.Wrong) == 0 {
		findings = append(findings, analysis.Finding{Rule: RuleDecode, Severity: analysis.Error, Message: r.Undecodable.Error()})
	}
	return findings
}

// comparisonFindings returns the findings about the difference between an object and its Go type.
func comparisonFindings(found kinds.Comparison, fields FieldValidation) (findings []analysis.Finding) {
	for _, change := range found.Changes {
		switch {
		case fields == Ignore:
		case change.Kind == schema.Pruned:
			findings = append(findings, unknownField(change.Path, change.Nearest(), fields.severity()))
		case change.Kind == schema.Duplicate:
			findings = append(findings, duplicateField(change.Path, fields.severity()))
		}
	}
	for _, e := range found.Wrong {
		findings = append(findings, analysis.Finding{Rule: RuleDecode, Severity: analysis.Error,
			Path: e.Path.String(), Pointer: e.Path.Pointer(), Message: e.Problem})
	}
	return findings
}

// errorFinding converts an error of the API server to a finding about the object in tree.
func errorFinding(e *field.Error, tree any) analysis.Finding {
	f := analysis.Finding{Rule: CauseRule(metav1.StatusCause{Type: metav1.CauseType(e.Type), Field: e.Field}), Severity: analysis.Error}
	if e.Field != "<nil>" {
		f.Path = e.Field
	}
	at, _ := kinds.Locate(f.Path, tree)
	f.Pointer = at.Pointer()
	f.Message, f.Detail = split(e.ErrorBody())
	return f
}

// split splits a message into its first line and the others.
func split(message string) (first string, rest []string) {
	lines := strings.Split(strings.TrimRight(message, "\n"), "\n")
	return lines[0], lines[1:]
}

// warningFinding returns the finding about a warning of the API server. Many warnings begin with
// the path of a field.
func warningFinding(text string, tree any) analysis.Finding {
	f := serverWarning("", "", "")
	f.Message, f.Detail = split(text)
	end := strings.IndexAny(f.Message, ": ")
	if end <= 0 {
		return f
	}
	path := f.Message[:end]
	at, exact := kinds.Locate(path, tree)
	rest, prefix := strings.CutPrefix(f.Message[end:], ": ")
	// Some names differ from those in the object: storageOS is storageos.
	if !exact && !(prefix && (strings.HasPrefix(path, "spec.") || strings.HasPrefix(path, "metadata."))) {
		return f
	}
	f.Path, f.Pointer = path, at.Pointer()
	if prefix {
		f.Message = rest
	}
	return f
}

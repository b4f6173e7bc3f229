package suite

import (
	"context"
	"slices"
	"strings"

	"espalier.dev"
	"espalier.dev/analysis"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// Policies does what the admission policies of a suite do. It is injected, because it needs CEL.
type Policies interface {
	// Admit returns what the policies do to a request. It returns an error if the API server rejects
	// the object before it asks them.
	Admit(context.Context, PolicyRequest) (*PolicyResult, error)
}

// PolicyRequest is a request that policies see.
type PolicyRequest struct {
	// Object is created or, unless Old is nil, replaces Old. Status is set if its status does.
	Object, Old schema.Object
	Status      bool
	// Definition is the CRD, or nil for a built-in kind.
	Definition *crd.Definition
	// User sends the request: an administrator, if it is nil.
	User *User
}

// User is the user of a suite.
type User struct {
	Name   string
	Groups []string
}

// PolicyResult is what policies do to a request.
type PolicyResult struct {
	// Object is the object after mutating policies have changed it, or nil if they have not.
	Object schema.Object
	// Changed are the fields that they have changed, without duplicates.
	Changed []string
	// Denials are the reasons for which policies deny the request. Mutating ones come before the
	// object is validated.
	Denials []Denial
	// Warnings are the messages that the client gets.
	Warnings []string
	// Unjudged names policies that cannot be evaluated without a cluster, and says why.
	Unjudged []string
}

// Denial is a reason for which a policy denies a request.
type Denial struct {
	// Policy is the name of the policy, and Message that of the API server.
	Policy, Message string
	// Path is the field that the expression of the policy reads, if it is only one.
	Path     string
	Mutating bool
}

// admit admits the object of a case, with the policies of the suite. The result of policies is nil if
// there are none, or if they are not asked.
func (r *Runner) admit(ctx context.Context, a Admitter, c *Case) (result *espalier.Result, rejections []rejection, policy *PolicyResult) {
	obj, old := r.complete(c.object), schema.Object(nil)
	if c.old != nil {
		old = r.complete(c.old)
	}
	write := func(obj schema.Object) (*espalier.Result, error) {
		switch {
		case old == nil:
			return a.Create(ctx, obj)
		case c.status:
			return a.UpdateStatus(ctx, obj, old)
		}
		return a.Update(ctx, obj, old)
	}
	result, err := write(obj)
	if r.options.Policies == nil {
		return result, rejectionsOf(result, err), nil
	}
	request := PolicyRequest{Object: obj, Old: old, Status: c.status, User: r.suite.User}
	if r.admitter != nil {
		request.Definition = r.admitter.Definition()
	}
	policy, failed := r.options.Policies.Admit(ctx, request)
	if failed != nil {
		if rejections = rejectionsOf(result, err); len(rejections) == 0 {
			rejections = []rejection{{messages: []string{failed.Error()}}}
		}
		return result, rejections, nil
	}
	if policy.Object != nil {
		var changes []schema.Change
		if err == nil {
			changes = result.Changes // what was decoded, and not what policies have made of it
		}
		if result, err = write(policy.Object); err == nil {
			result.Changes = changes
		}
	}
	// The API server asks mutating policies first, and validating ones about valid objects.
	if rejections = denied(policy, true); len(rejections) > 0 {
		return result, rejections, policy
	}
	if rejections = rejectionsOf(result, err); len(rejections) == 0 {
		rejections = denied(policy, false)
	}
	return result, rejections, policy
}

// denied returns the reasons for which mutating or validating policies deny a request.
func denied(p *PolicyResult, mutating bool) (list []rejection) {
	for _, d := range p.Denials {
		if d.Mutating != mutating {
			continue
		}
		r := rejection{messages: []string{d.Message}, rules: []string{d.Policy, "policy"}}
		if d.Path != "" {
			r.paths = []string{d.Path}
		}
		list = append(list, r)
	}
	return list
}

// comparePolicies compares the warnings and the changed fields with the expected ones.
func (c *Case) comparePolicies(p *PolicyResult) (findings []analysis.Finding) {
	if p == nil {
		p = &PolicyResult{}
	}
	if len(p.Unjudged) > 0 {
		findings = append(findings, failure(c, c.Pointer, "what policies do is not known without a cluster", p.Unjudged...))
	}
	if c.hasWarnings {
		findings = append(findings, c.compareWarnings(p.Warnings)...)
	}
	if c.hasChanged {
		want, got := slices.Sorted(slices.Values(c.changed)), slices.Sorted(slices.Values(p.Changed))
		if !slices.Equal(want, got) {
			findings = append(findings, failure(c, c.Pointer+"/changed", "policies change different fields",
				diff(strings.Join(append(want, ""), "\n"), strings.Join(append(got, ""), "\n"))...))
		}
	}
	return findings
}

// compareWarnings compares warnings: each expected one is a part of one, and the other way around.
func (c *Case) compareWarnings(got []string) (findings []analysis.Finding) {
	var lines []string
	for _, want := range c.warnings {
		if !slices.ContainsFunc(got, func(w string) bool { return strings.Contains(w, want) }) {
			lines = append(lines, "- "+want)
		}
	}
	for _, w := range got {
		if !slices.ContainsFunc(c.warnings, func(want string) bool { return strings.Contains(w, want) }) {
			lines = append(lines, "+ "+w)
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return []analysis.Finding{failure(c, c.Pointer+"/warnings", "the warnings of policies differ", lines...)}
}

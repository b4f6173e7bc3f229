package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"espalier.dev/analysis"
	"espalier.dev/analysis/lookup"
	"espalier.dev/analysis/object"
	"espalier.dev/analysis/suite"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/crd"
	"espalier.dev/internal/jsonptr"
	"espalier.dev/internal/jsonx"
	"espalier.dev/kinds"
	"espalier.dev/policies"
	"espalier.dev/schema"
)

// Rules of findings about admission policies.
const (
	rulePolicyDenied    = "policy/denied"
	rulePolicyWarning   = "policy/warning"
	rulePolicyAudit     = "policy/audit"
	rulePolicyChanged   = "policy/changed"
	rulePolicyUnsettled = "policy/unsettled"
	rulePolicyUnjudged  = "policy/unjudged"
	rulePolicyNamespace = "policy/namespace"
	rulePolicyWebhook   = "policy/webhook"
	rulePolicyProblem   = "policy/" // with the code of a problem
	ruleNoPolicies      = "no-policies"
)

// policyRules returns the rules of findings about admission policies.
func policyRules() []analysis.Rule {
	return []analysis.Rule{
		{ID: rulePolicyDenied, Severity: analysis.Error, Summary: "An admission policy denies the request.",
			Help: "Change the object as the message says. The finding shows the expression of the policy."},
		{ID: rulePolicyWarning, Severity: analysis.Warning, Summary: "An admission policy warns of the object."},
		{ID: rulePolicyAudit, Severity: analysis.Info, Summary: "An admission policy adds a failed validation to the audit log."},
		{ID: rulePolicyChanged, Severity: analysis.Info, Summary: "A mutating admission policy changes the object."},
		{ID: rulePolicyUnsettled, Severity: analysis.Warning, Summary: "Mutating admission policies change their own result.",
			Help: "The API server applies a policy twice at most. Add a match condition that is false if there is nothing to change."},
		{ID: rulePolicyUnjudged, Severity: analysis.Warning, Summary: "What admission policies do to the object is not known without a cluster.",
			Help: "An expression asks the authorizer, a webhook converts the object to the version of the policy, or the object cannot be decoded."},
		{ID: rulePolicyNamespace, Severity: analysis.Warning, Summary: "Policies depend on the labels of a namespace that is not in the input.",
			Help: "Add the Namespace to --policies."},
		{ID: rulePolicyWebhook, Severity: analysis.Info, Summary: "The API server calls a webhook, and what it does is not known."},
		{ID: rulePolicyProblem + string(policies.Rejected), Severity: analysis.Error, Summary: "The API server rejects a policy, a binding or a webhook configuration, so it has no effect."},
		{ID: rulePolicyProblem + string(policies.Duplicate), Severity: analysis.Error, Summary: "Two policies, bindings or webhook configurations have the same name."},
		{ID: rulePolicyProblem + string(policies.Unbound), Severity: analysis.Warning, Summary: "The policy of a binding does not exist."},
		{ID: rulePolicyProblem + string(policies.UnknownParamKind), Severity: analysis.Warning, Summary: "The kind of the parameters of a policy is not known.",
			Help: "Add its CRD with --crd. The policy denies every request that it matches, unless its failurePolicy is Ignore."},
		{ID: rulePolicyProblem + string(policies.MissingParam), Severity: analysis.Warning, Summary: "The parameter of a binding does not exist."},
		{ID: ruleNoPolicies, Severity: analysis.Error, Summary: "The input contains no admission policy and no webhook configuration."},
	}
}

// policyFlags are the flags for admission policies.
type policyFlags struct {
	from   input.Flags
	as     string
	groups []string
}

// addPolicyFlags adds --policies, --as and --as-group.
func addPolicyFlags(c *cobra.Command, f *policyFlags) {
	c.Flags().StringArrayVar(&f.from.Paths, "policies", nil,
		"`PATH` of a file or directory with admission policies, bindings, parameters, namespaces and webhook configurations; repeatable")
	groupFlags(c.Flags(), inputFlags, "policies")
	_ = c.MarkFlagFilename("policies", manifestExtensions()...)
	c.Flags().StringVar(&f.as, "as", "", "`USER` who sends the requests that admission policies see (default: the administrator of the server)")
	c.Flags().StringArrayVar(&f.groups, "as-group", nil, "`GROUP` of the user of --as; repeatable")
	groupFlags(c.Flags(), checkFlags, "as", "as-group")
	for _, name := range []string{"as", "as-group"} {
		_ = c.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
}

// complete checks the flags.
func (f *policyFlags) complete(c *cobra.Command) error {
	switch {
	case len(f.from.Paths) == 0 && (f.as != "" || len(f.groups) > 0):
		return usageError(c, errors.New("--as and --as-group need --policies: nothing else depends on the user"))
	case f.as == "" && len(f.groups) > 0:
		return usageError(c, errors.New("--as-group needs --as"))
	}
	return nil
}

// user returns the user who sends the requests, or nil for the administrator.
func (f *policyFlags) user() *policies.User {
	if f.as == "" {
		return nil
	}
	return &policies.User{Name: f.as, Groups: f.groups}
}

// policySet are the admission policies that objects are evaluated with.
type policySet struct {
	evaluator *policies.Evaluator
	items     []*input.Item
	user      *policies.User

	// mu guards items, whose documents are not safe for concurrent use.
	mu sync.Mutex
}

// loadPolicies reads the policies, and the parameters and namespaces among the objects.
func (a *app) loadPolicies(ctx context.Context, f policyFlags, objects input.Flags, ahead *input.Ahead,
	ds *definitions, r *report.Reporter) (*policySet, error) {
	from := objects.With(f.from.Paths...)
	from.Keep = input.Everything
	var items []*input.Item
	own := a.noDefinitions()
	failures := r.Summary().Failures
	if err := input.Read(ctx, a.stdin, from, func(it *input.Item) error {
		if isDefinition(it) {
			own.Add(newDefinition(it, own.semantics))
		}
		items = append(items, it)
		return nil
	}, r.Failure); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(items, isPolicy) && r.Summary().Failures == failures {
		r.Failure(input.Problem{Rule: ruleNoPolicies, File: strings.Join(f.from.Paths, ", "),
			Message: "no ValidatingAdmissionPolicy, MutatingAdmissionPolicy or webhook configuration found"})
	}
	if len(objects.Paths) > 0 {
		wanted := paramKinds(items)
		all := ahead.All(objects)
		all.Keep = input.Everything
		// Problems are reported when the objects are validated.
		if err := input.Read(ctx, a.stdin, all, func(it *input.Item) error {
			if wanted[lookup.KindOf(it)] {
				items = append(items, it)
			}
			return nil
		}, func(input.Problem) {}); err != nil {
			return nil, err
		}
	}
	s, problems, err := a.newPolicySet(ctx, items, func(gvk runtimeschema.GroupVersionKind) *definition {
		if of := own.Of(gvk.GroupKind()); len(of) > 0 {
			return of[0]
		}
		probe, err := input.NewItem("", fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q}`, gvk.GroupVersion(), gvk.Kind))
		if err != nil {
			return nil
		}
		d, err := ds.Find(probe)
		if err != nil {
			return nil
		}
		return d
	})
	if err != nil {
		return nil, err
	}
	s.user = f.user()
	for _, p := range problems {
		r.Add(s.problem(p))
	}
	return s, nil
}

// silenceLogs ends the logs of this process: k8s.io/apiserver logs errors of expressions, which are
// findings here.
func silenceLogs() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
}

// newPolicySet returns the policies among items. find returns the CRD of a kind, or nil.
func (a *app) newPolicySet(ctx context.Context, items []*input.Item, find func(runtimeschema.GroupVersionKind) *definition) (*policySet, []policies.Problem, error) {
	if a.silence != nil {
		a.silence()
	}
	s := &policySet{items: items}
	config := policies.Config{Definition: func(gvk runtimeschema.GroupVersionKind) *crd.Definition {
		if kinds.ByKind(gvk) != nil {
			return nil
		}
		d := find(gvk)
		if d == nil {
			return nil
		}
		with, err := d.admitted()
		if err != nil {
			return nil
		}
		return with
	}}
	for _, it := range items {
		config.Objects = append(config.Objects, policies.Object{JSON: it.JSON})
	}
	var problems []policies.Problem
	var err error
	s.evaluator, problems, err = policies.New(ctx, config)
	return s, problems, err
}

// isPolicy reports whether an object is an admission policy or a webhook configuration.
func isPolicy(it *input.Item) bool {
	group, _, _ := strings.Cut(it.APIVersion(), "/")
	return group == "admissionregistration.k8s.io" &&
		(strings.HasSuffix(it.Kind(), "AdmissionPolicy") || strings.HasSuffix(it.Kind(), "WebhookConfiguration"))
}

// paramKinds returns the kinds of objects that policies read: namespaces and parameters.
func paramKinds(items []*input.Item) map[runtimeschema.GroupKind]bool {
	wanted := map[runtimeschema.GroupKind]bool{{Kind: "Namespace"}: true}
	for _, it := range items {
		if !isPolicy(it) {
			continue
		}
		value, err := jsonx.Parse(it.JSON)
		if err != nil {
			continue // it is reported as a policy that cannot be decoded
		}
		obj, _ := value.(map[string]any)
		apiVersion, _, _ := unstructured.NestedString(obj, "spec", "paramKind", "apiVersion")
		kind, ok, _ := unstructured.NestedString(obj, "spec", "paramKind", "kind")
		if ok {
			wanted[runtimeschema.FromAPIVersionAndKind(apiVersion, kind).GroupKind()] = true
		}
	}
	return wanted
}

// problem returns the finding about a policy, a binding or a webhook configuration.
func (s *policySet) problem(p policies.Problem) report.Finding {
	it := s.items[p.Place.Object]
	f := analysis.Finding{Rule: rulePolicyProblem + string(p.Code), Severity: analysis.Warning, Path: p.Place.Path, Pointer: p.Place.Pointer}
	if p.Code == policies.Rejected || p.Code == policies.Duplicate {
		f.Severity = analysis.Error
	}
	lines := strings.Split(strings.TrimRight(p.Message, "\n"), "\n")
	f.Message, f.Detail = lines[0], lines[1:]
	if p.Field != nil {
		if value, err := jsonx.Parse(it.JSON); err == nil {
			at, _ := kinds.Locate(p.Place.Path, value)
			f.Pointer = at.Pointer()
		}
	}
	if p.Other >= 0 {
		f.Detail = append(f.Detail, "first: "+report.LocationOf(s.items[p.Other], "/metadata/name").Position())
	}
	return report.At(it, f)
}

// policyRequest is a request that policies are evaluated for.
type policyRequest struct {
	source, old []byte
	// uses is the CRD of the object, or nil for a built-in kind.
	uses *definition
}

// check returns the findings of check about an object after mutating policies have changed it, and
// those of policies. A nil policySet has no policies.
func (s *policySet) check(ctx context.Context, it *input.Item, r policyRequest, check func(source []byte) []analysis.Finding) []analysis.Finding {
	if s == nil {
		return check(r.source)
	}
	result, err := s.evaluate(ctx, r)
	if err != nil {
		findings := check(r.source)
		var undecodable *policies.UndecodableError
		if !errors.As(err, &undecodable) || !slices.ContainsFunc(findings, isError) {
			findings = append(findings, analysis.Finding{Rule: rulePolicyUnjudged, Severity: analysis.Warning,
				Message: fmt.Sprintf("the admission policies cannot be evaluated: %v", err)})
		}
		return findings
	}
	findings := check(r.source)
	if result.Mutated != nil {
		// What the client sends is not what is validated, but it is what is decoded.
		sent := slices.DeleteFunc(findings, func(f analysis.Finding) bool {
			return f.Rule != object.RuleUnknownField && f.Rule != object.RuleDuplicateField
		})
		findings = append(sent, check(result.Mutated)...)
	}
	return append(findings, s.findings(it, result)...)
}

func isError(f analysis.Finding) bool { return f.Severity == analysis.Error }

// evaluate evaluates the policies for a request.
func (s *policySet) evaluate(ctx context.Context, r policyRequest) (*policies.Result, error) {
	request := policies.Request{Object: r.source, Old: r.old, User: s.user, Apply: true}
	if r.uses != nil {
		var err error
		if request.Definition, err = r.uses.admitted(); err != nil {
			return nil, err
		}
	}
	return s.evaluator.Evaluate(ctx, request)
}

// findings returns the findings about what policies do.
func (s *policySet) findings(it *input.Item, r *policies.Result) (findings []analysis.Finding) {
	for _, d := range r.Decisions {
		f := analysis.Finding{Rule: rulePolicyDenied, Severity: analysis.Error, Policy: s.location(d.Policy)}
		switch d.Action {
		case policies.Warn:
			f.Rule, f.Severity = rulePolicyWarning, analysis.Warning
		case policies.Audit:
			f.Rule, f.Severity = rulePolicyAudit, analysis.Info
			d.Message = fmt.Sprintf("ValidatingAdmissionPolicy '%s' with binding '%s' adds to the audit log: %s", d.Name, d.Binding, d.Message)
		}
		lines := strings.Split(strings.TrimRight(d.Message, "\n"), "\n")
		f.Message, f.Detail = lines[0], lines[1:]
		if d.Expression != "" {
			f.Detail = append(f.Detail, "expression: "+strings.Join(strings.Fields(d.Expression), " "))
		}
		if d.Param != "" {
			f.Detail = append(f.Detail, "parameter: "+d.Param)
		}
		if d.Cost > 0 {
			f.Detail = append(f.Detail, fmt.Sprintf("cost: %d of %d", d.Cost, policies.Budget))
		}
		if len(d.Fields) == 1 {
			f.Path, f.Pointer = d.Fields[0], jsonptr.FromPath(d.Fields[0])
		}
		findings = append(findings, f)
	}
	for _, m := range r.Mutations {
		findings = append(findings, s.mutation(rulePolicyChanged, analysis.Info, m, "changes"))
	}
	for _, m := range r.Unsettled {
		findings = append(findings, s.mutation(rulePolicyUnsettled, analysis.Warning, m, "changes its own result: applied again, it changes"))
	}
	for _, u := range r.Unjudged {
		name := fmt.Sprintf("%s '%s' with binding '%s'", policyKind(u.Mutating), u.Name, u.Binding)
		if u.Webhook != "" {
			name = fmt.Sprintf("webhook '%s' of '%s'", u.Webhook, u.Name)
		}
		findings = append(findings, analysis.Finding{Rule: rulePolicyUnjudged, Severity: analysis.Warning, Policy: s.location(u.Policy),
			Message: name + " " + u.Reason + ": what it does is not known without a cluster"})
	}
	for _, w := range r.Webhooks {
		f := analysis.Finding{Rule: rulePolicyWebhook, Severity: analysis.Info, Policy: s.location(w.Place),
			Message: fmt.Sprintf("webhook '%s' of '%s' is called: what it does is not known", w.Name, w.Configuration)}
		if w.Err != nil {
			f.Rule, f.Severity, f.Message = rulePolicyDenied, analysis.Error, w.Err.Error()
		}
		findings = append(findings, f)
	}
	// The reporter drops repeats: objects are validated concurrently, but reported in order.
	if ns := r.AssumedNamespace; ns != "" {
		findings = append(findings, analysis.Finding{Rule: rulePolicyNamespace, Severity: analysis.Warning, Path: "metadata.namespace", Pointer: "/metadata/namespace",
			Message: fmt.Sprintf("policies depend on namespace %q, which is not in the input: it is assumed to have no labels but its name", ns)})
	}
	return findings
}

func policyKind(mutating bool) string {
	if mutating {
		return "MutatingAdmissionPolicy"
	}
	return "ValidatingAdmissionPolicy"
}

// mutation returns the finding about what a mutating policy changes.
func (s *policySet) mutation(rule string, severity analysis.Severity, m policies.Mutation, does string) analysis.Finding {
	var paths []string
	for _, path := range m.Paths {
		paths = append(paths, path.String())
	}
	f := analysis.Finding{Rule: rule, Severity: severity, Policy: s.location(m.Policy),
		Message: fmt.Sprintf("MutatingAdmissionPolicy '%s' with binding '%s' %s %s", m.Name, m.Binding, does, strings.Join(paths, ", ")),
		Detail:  []string{fmt.Sprintf("cost: %d of %d", m.Cost, policies.Budget)}}
	if m.Again {
		f.Message += " again"
	}
	if len(m.Paths) == 1 {
		f.Path, f.Pointer = paths[0], m.Paths[0].Pointer()
	}
	return f
}

// location returns the location of an expression, or nil if there is none.
func (s *policySet) location(p policies.Place) *analysis.Location {
	if p.Object < 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := report.LocationOf(s.items[p.Object], p.Pointer)
	at.Path = p.Path
	return &at
}

// Admit implements [suite.Policies].
func (s *policySet) Admit(ctx context.Context, r suite.PolicyRequest) (*suite.PolicyResult, error) {
	request := policies.Request{Definition: r.Definition}
	if r.User != nil {
		request.User = &policies.User{Name: r.User.Name, Groups: r.User.Groups}
	}
	if r.Status {
		request.Subresource = "status"
	}
	var err error
	if request.Object, err = json.Marshal(r.Object); err != nil {
		return nil, err
	}
	if r.Old != nil {
		if request.Old, err = json.Marshal(r.Old); err != nil {
			return nil, err
		}
	}
	result, err := s.evaluator.Evaluate(ctx, request)
	if err != nil {
		return nil, err
	}
	out := &suite.PolicyResult{Warnings: result.Warnings}
	if result.Mutated != nil {
		value, err := jsonx.Parse(result.Mutated)
		if err != nil {
			return nil, err
		}
		out.Object, _ = value.(schema.Object)
	}
	for _, m := range result.Mutations {
		for _, path := range m.Paths {
			if !slices.Contains(out.Changed, path.String()) {
				out.Changed = append(out.Changed, path.String())
			}
		}
	}
	for _, d := range result.Decisions {
		if d.Action != policies.Deny {
			continue
		}
		denial := suite.Denial{Policy: d.Name, Message: d.Message, Mutating: d.Mutating}
		if len(d.Fields) == 1 {
			denial.Path = d.Fields[0]
		}
		out.Denials = append(out.Denials, denial)
	}
	for _, w := range result.Webhooks {
		if w.Err != nil {
			out.Denials = append(out.Denials, suite.Denial{Policy: w.Name, Message: w.Err.Error(), Mutating: w.Mutating})
		}
	}
	for _, u := range result.Unjudged {
		out.Unjudged = append(out.Unjudged, fmt.Sprintf("%s '%s' %s", policyKind(u.Mutating), u.Name, u.Reason))
	}
	return out, nil
}

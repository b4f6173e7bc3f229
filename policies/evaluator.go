package policies

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/internal/jsonptr"
	"espalier.dev/kinds"
	kindscel "espalier.dev/kinds/cel"
	"espalier.dev/kinds/kind"
	"espalier.dev/schema/rules"
	"espalier.dev/schema/rules/bounds"
	"espalier.dev/server/fields"
)

// Config configures an Evaluator.
type Config struct {
	// Objects are policies, bindings, webhook configurations, namespaces, and the parameters of
	// policies. Objects of other kinds are ignored.
	Objects []Object
	// Definition returns the CRD of a kind, or nil if there is none. It is called concurrently.
	Definition func(runtimeschema.GroupVersionKind) *crd.Definition
}

// Evaluator evaluates admission policies without a server. It is safe for concurrent use.
type Evaluator struct {
	config     Config
	offline    *kinds.Offline
	converter  *kinds.Converter
	builtins   apiruntime.EquivalentResourceMapper
	objects    *objects
	validating []*validatingPolicy
	mutating   []*mutatingPolicy
	webhooks   []*webhook

	matcher *Matcher
	// conditionCompiler returns the compiler of the match conditions of all webhooks.
	conditionCompiler  func() plugincel.ConditionCompiler
	validatingDispatch Dispatcher[ValidatingHook]
	mutatingDispatch   Dispatcher[MutatingHook]
	// merged has the types of CRDs, and equivalents their versions.
	merged, equivalents sync.Map
	// readsNamespaces is set if labels or annotations of namespaces matter.
	readsNamespaces bool
}

// source is where a policy comes from.
type source struct {
	index     int
	variables []admissionregistrationv1.Variable
}

// place returns the place of a field of the policy.
func (s source) place(pointer string) Place {
	return Place{Object: s.index, Pointer: pointer, Path: jsonptr.Display(pointer)}
}

// reads returns the fields that an expression reads of a variable of the request, also through those
// of the policy, and whether it uses the variable.
func (s source) reads(expression, variable string) (paths []string, used bool) {
	seen := map[string]bool{}
	var follow func(string)
	follow = func(expression string) {
		read := rules.Fields(expression)
		of, ok := read[variable]
		paths, used = append(paths, of...), used || ok
		for _, path := range read["variables"] {
			name, _, _ := strings.Cut(path, ".")
			if seen[name] {
				continue
			}
			seen[name] = true
			if i := slices.IndexFunc(s.variables, func(v admissionregistrationv1.Variable) bool { return v.Name == name }); i >= 0 {
				follow(s.variables[i].Expression)
			}
		}
	}
	follow(expression)
	slices.Sort(paths)
	return slices.Compact(paths), used
}

// fields returns the fields of the object that an expression reads.
func (s source) fields(expression string) []string {
	paths, _ := s.reads(expression, "object")
	return paths
}

// asks reports whether an expression may ask the authorizer.
func (s source) asks(expression string) bool {
	_, used := s.reads(expression, "authorizer")
	return used
}

type validatingPolicy struct {
	source
	*ValidatingPolicy
	bindings []*ValidatingBinding
	// compiled compiles the policy on first use, and hook has what it is dispatched with.
	compiled func() Validator
	hook     ValidatingHook
}

type mutatingPolicy struct {
	source
	*MutatingPolicy
	bindings []*MutatingBinding
	compiled func() Mutator
	hook     MutatingHook
}

// New returns an Evaluator, and what is wrong with the objects. The policies with errors that the
// API server reports when they are stored have no effect.
func New(ctx context.Context, c Config) (*Evaluator, []Problem, error) {
	if c.Definition == nil {
		c.Definition = func(runtimeschema.GroupVersionKind) *crd.Definition { return nil }
	}
	e := &Evaluator{config: c, builtins: BuiltinEquivalents(kinds.Resources()),
		conditionCompiler: sync.OnceValue(func() plugincel.ConditionCompiler { return kindscel.NewCompiler(bounds.EnvSet()) })}
	cel := kindscel.New()
	var err error
	if e.offline, err = kinds.NewOffline(cel); err != nil {
		return nil, nil, err
	}
	ruleOf := kinds.Rules(cel)
	scheme, err := kinds.NewScheme(func(gvk runtimeschema.GroupVersionKind, obj kind.Object) {
		if r := kinds.ByKind(gvk); r != nil && r.Stored.Kind == "" {
			if f := ruleOf(r).Default; f != nil {
				f(obj)
			}
		}
	}, nil)
	if err != nil {
		return nil, nil, err
	}
	e.converter = &kinds.Converter{Scheme: scheme}
	e.objects = newObjects(e.offline, c)
	problems, err := e.read(ctx)
	if err != nil {
		return nil, nil, err
	}
	e.matcher = NewMatcher(e.objects)
	e.validatingDispatch = NewValidatingDispatcher(&question{}, e.matcher, unobserved{})
	e.mutatingDispatch = NewMutatingDispatcher(&question{}, e.matcher, e.types(), unobserved{})
	return e, problems, nil
}

// customTypes returns the types of a custom resource, or nil.
func (e *Evaluator) customTypes(s subject) managedfields.TypeConverter {
	c, ok := s.(*customSubject)
	if !ok || len(e.mutating) == 0 {
		return nil
	}
	d := c.version.Definition()
	if known, ok := e.merged.Load(d); ok {
		return known.(managedfields.TypeConverter)
	}
	known, _ := e.merged.LoadOrStore(d, fields.NewTypes(d))
	return known.(managedfields.TypeConverter)
}

// equivalentsOf returns the versions of a CRD, which policies may match interchangeably.
func (e *Evaluator) equivalentsOf(d *crd.Definition) apiruntime.EquivalentResourceMapper {
	known, ok := e.equivalents.Load(d)
	if !ok {
		known, _ = e.equivalents.LoadOrStore(d, CustomEquivalents(d))
	}
	return known.(apiruntime.EquivalentResourceMapper)
}

// types returns the types that mutating policies merge by.
func (e *Evaluator) types() *Types {
	builtin := newBuiltinTypes(e.converter.Scheme.Scheme)
	return &Types{Definition: e.config.Definition, Builtin: func(gvk runtimeschema.GroupVersionKind) (managedfields.TypeConverter, error) {
		if !builtin.scheme.Recognizes(gvk) {
			// The request names the CRD, and recordedMutator uses its types.
			return managedfields.NewDeducedTypeConverter(), nil
		}
		return builtin.of(gvk)
	}}
}

// decoded is an object of the group of admission configurations.
type decoded struct {
	index    int
	kind     string
	object   kind.Object
	problems []Problem
}

// read reads policies, bindings and webhook configurations.
func (e *Evaluator) read(ctx context.Context) (problems []Problem, err error) {
	var all []*decoded
	for i, o := range e.config.Objects {
		id, err := api.Identify(o.JSON)
		if err != nil {
			continue
		}
		if gvk := id.GroupVersionKind(); gvk.Group == admissionregistrationv1.GroupName {
			all = append(all, &decoded{index: i, kind: gvk.Kind})
		}
	}
	if err := e.decode(ctx, all); err != nil {
		return nil, err
	}
	first := map[string]int{}
	var validatingBindings, mutatingBindings []*decoded
	all = slices.DeleteFunc(all, func(d *decoded) bool {
		problems = append(problems, d.problems...)
		return d.object == nil || len(d.problems) > 0
	})
	slices.SortStableFunc(all, func(a, b *decoded) int { return strings.Compare(a.object.GetName(), b.object.GetName()) })
	for _, d := range all {
		key := d.kind + "/" + d.object.GetName()
		if other, ok := first[key]; ok {
			if !e.same(d.index, other) {
				problems = append(problems, Problem{Place: Place{Object: max(d.index, other), Path: "metadata.name", Pointer: "/metadata/name"}, Code: Duplicate,
					Message: fmt.Sprintf("there is another %s %q: only the first has an effect", d.kind, d.object.GetName()), Other: min(d.index, other)})
			}
			continue
		}
		first[key] = d.index
		switch obj := d.object.(type) {
		case *ValidatingPolicy:
			p := &validatingPolicy{source: source{d.index, obj.Spec.Variables}, ValidatingPolicy: obj}
			p.compiled = sync.OnceValue(func() Validator { return compileValidating(obj, meters{on: true}, unobserved{}) })
			e.validating = append(e.validating, p)
		case *MutatingPolicy:
			p := &mutatingPolicy{source: source{d.index, obj.Spec.Variables}, MutatingPolicy: obj}
			p.compiled = sync.OnceValue(func() Mutator { return compileMutating(obj, meters{on: true}, unobserved{}) })
			e.mutating = append(e.mutating, p)
		case *ValidatingBinding:
			validatingBindings = append(validatingBindings, d)
		case *MutatingBinding:
			mutatingBindings = append(mutatingBindings, d)
		case *admissionregistrationv1.MutatingWebhookConfiguration, *admissionregistrationv1.ValidatingWebhookConfiguration:
			e.addWebhooks(d)
		}
	}
	problems = append(problems, e.bindValidating(validatingBindings)...)
	problems = append(problems, e.bindMutating(mutatingBindings)...)
	slices.SortStableFunc(problems, func(a, b Problem) int { return a.Place.Object - b.Place.Object })
	e.readsNamespaces = e.namespacesMatter()
	return problems, nil
}

// same reports whether two objects are equal.
func (e *Evaluator) same(i, j int) bool {
	return string(e.config.Objects[i].JSON) == string(e.config.Objects[j].JSON)
}

// decode decodes and validates objects as the API server does when they are created. Expressions take
// long to compile, so it uses all processors.
func (e *Evaluator) decode(ctx context.Context, all []*decoded) error {
	next := make(chan *decoded)
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(all)) {
		wg.Go(func() {
			for d := range next {
				e.decodeOne(d)
			}
		})
	}
	defer wg.Wait()
	defer close(next)
	for _, d := range all {
		select {
		case next <- d:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (e *Evaluator) decodeOne(d *decoded) {
	reject := func(message string) {
		d.problems = append(d.problems, Problem{Place: Place{Object: d.index}, Code: Rejected, Message: message, Other: -1})
	}
	r, err := e.offline.Request(e.config.Objects[d.index].JSON)
	switch {
	case err != nil:
		reject(err.Error())
		return
	case r.Undecodable != nil:
		reject(r.Undecodable.Error())
		return
	}
	_, errs, err := r.Write("")
	if err != nil {
		reject(err.Error())
		return
	}
	for _, f := range errs {
		d.problems = append(d.problems, Problem{Place: Place{Object: d.index, Path: f.Field}, Code: Rejected, Message: f.ErrorBody(), Other: -1, Field: f})
	}
	d.object = r.Object
}

// bindValidating gives the validating policies their bindings and hooks.
func (e *Evaluator) bindValidating(bindings []*decoded) (problems []Problem) {
	byName := map[string]*validatingPolicy{}
	var list []*ValidatingPolicy
	for _, p := range e.validating {
		byName[p.Name] = p
		list = append(list, p.ValidatingPolicy)
	}
	var bound []*ValidatingBinding
	for _, d := range bindings {
		b := d.object.(*ValidatingBinding)
		bound = append(bound, b)
		p := byName[b.Spec.PolicyName]
		if p == nil {
			problems = append(problems, unbound(d.index, "ValidatingAdmissionPolicy", b.Spec.PolicyName))
			continue
		}
		p.bindings = append(p.bindings, b)
		problems = append(problems, e.missingParam(d.index, p.Spec.ParamKind, b.Spec.ParamRef)...)
	}
	plugin := Validating(unobserved{})
	hooks := plugin.Hooks(list, bound, func(i int) Validator { return recordedValidator{e.validating[i]} }, e.objects.params)
	for _, h := range hooks {
		p := byName[h.Policy.Name]
		p.hook = h
		problems = append(problems, unknownParams(p.source, h.ConfigurationError)...)
	}
	return problems
}

// bindMutating gives the mutating policies their bindings and hooks.
func (e *Evaluator) bindMutating(bindings []*decoded) (problems []Problem) {
	byName := map[string]*mutatingPolicy{}
	var list []*MutatingPolicy
	for _, p := range e.mutating {
		byName[p.Name] = p
		list = append(list, p.MutatingPolicy)
	}
	var bound []*MutatingBinding
	for _, d := range bindings {
		b := d.object.(*MutatingBinding)
		bound = append(bound, b)
		p := byName[b.Spec.PolicyName]
		if p == nil {
			problems = append(problems, unbound(d.index, "MutatingAdmissionPolicy", b.Spec.PolicyName))
			continue
		}
		p.bindings = append(p.bindings, b)
		problems = append(problems, e.missingParam(d.index, p.Spec.ParamKind, b.Spec.ParamRef)...)
	}
	plugin := Mutating(unobserved{})
	hooks := plugin.Hooks(list, bound, func(i int) Mutator { return recordedMutator{e.mutating[i]} }, e.objects.params)
	for _, h := range hooks {
		p := byName[h.Policy.Name]
		p.hook = h
		problems = append(problems, unknownParams(p.source, h.ConfigurationError)...)
	}
	return problems
}

func unbound(index int, kind, name string) Problem {
	return Problem{Place: Place{Object: index, Path: "spec.policyName", Pointer: "/spec/policyName"}, Code: Unbound, Other: -1,
		Message: fmt.Sprintf("there is no %s %q: the binding has no effect", kind, name)}
}

// unknownParams returns the problem about a policy whose kind of parameters is not known.
func unknownParams(s source, err error) []Problem {
	if err == nil {
		return nil
	}
	return []Problem{{Place: s.place("/spec/paramKind"), Code: UnknownParamKind, Message: err.Error(), Other: -1}}
}

// missingParam returns the problem about a binding whose parameter does not exist, unless it depends
// on the namespace of the request.
func (e *Evaluator) missingParam(index int, kind *admissionregistrationv1.ParamKind, ref *admissionregistrationv1.ParamRef) []Problem {
	if kind == nil || ref == nil || ref.Name == "" {
		return nil
	}
	params, err := e.objects.params(kind)
	if err != nil || params.Namespaced && ref.Namespace == "" || !params.Namespaced && ref.Namespace != "" {
		return nil
	}
	if _, err := (paramObjects{e.objects}).Get(params, ref.Namespace, ref.Name); err == nil {
		return nil
	}
	where := ""
	if params.Namespaced {
		where = fmt.Sprintf(" in namespace %q", ref.Namespace)
	}
	return []Problem{{Place: Place{Object: index, Path: "spec.paramRef.name", Pointer: "/spec/paramRef/name"}, Code: MissingParam, Other: -1,
		Message: fmt.Sprintf("there is no %s %q%s", kind.Kind, ref.Name, where)}}
}

// namespacesMatter reports whether a selector or an expression depends on more of a namespace than
// its name.
func (e *Evaluator) namespacesMatter() bool {
	selects := func(m *admissionregistrationv1.MatchResources) bool {
		return m != nil && selectsLabels(m.NamespaceSelector)
	}
	reads := func(expressions ...string) bool {
		return slices.ContainsFunc(expressions, func(x string) bool {
			if !strings.Contains(x, "namespaceObject") {
				return false
			}
			paths, used := rules.Fields(x)["namespaceObject"]
			return used && !slices.Equal(paths, []string{"metadata.name"})
		})
	}
	common := func(m *admissionregistrationv1.MatchResources, vs []admissionregistrationv1.Variable, cs []admissionregistrationv1.MatchCondition) bool {
		return selects(m) || slices.ContainsFunc(vs, func(v admissionregistrationv1.Variable) bool { return reads(v.Expression) }) ||
			slices.ContainsFunc(cs, func(c admissionregistrationv1.MatchCondition) bool { return reads(c.Expression) })
	}
	for _, p := range e.validating {
		if len(p.bindings) == 0 {
			continue
		}
		if common(p.Spec.MatchConstraints, p.Spec.Variables, p.Spec.MatchConditions) {
			return true
		}
		for _, v := range p.Spec.Validations {
			if reads(v.Expression, v.MessageExpression) {
				return true
			}
		}
		for _, a := range p.Spec.AuditAnnotations {
			if reads(a.ValueExpression) {
				return true
			}
		}
		for _, b := range p.bindings {
			if selects(b.Spec.MatchResources) {
				return true
			}
		}
	}
	for _, p := range e.mutating {
		if len(p.bindings) == 0 {
			continue
		}
		if common(p.Spec.MatchConstraints, p.Spec.Variables, p.Spec.MatchConditions) {
			return true
		}
		for _, m := range p.Spec.Mutations {
			if m.JSONPatch != nil && reads(m.JSONPatch.Expression) || m.ApplyConfiguration != nil && reads(m.ApplyConfiguration.Expression) {
				return true
			}
		}
		for _, b := range p.bindings {
			if selects(b.Spec.MatchResources) {
				return true
			}
		}
	}
	return slices.ContainsFunc(e.webhooks, func(w *webhook) bool { return selectsLabels(w.namespaceSelector) })
}

// selectsLabels reports whether a selector depends on labels that a namespace may have, other than
// its name.
func selectsLabels(s *metav1.LabelSelector) bool {
	if s == nil {
		return false
	}
	for name := range s.MatchLabels {
		if name != corev1.LabelMetadataName {
			return true
		}
	}
	return slices.ContainsFunc(s.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool { return r.Key != corev1.LabelMetadataName })
}

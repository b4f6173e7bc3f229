package policystatus

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"espalier.dev/crd"
	"espalier.dev/kinds"
	"espalier.dev/kinds/admissionregistration"
	kindscel "espalier.dev/kinds/cel"
	"espalier.dev/kinds/schemas"
	"espalier.dev/openapi"
	"espalier.dev/schema/rules/bounds"
)

// checker checks the types of policies. Nothing is built before the first policy.
type checker struct {
	types  validating.TypeChecker
	served []*kinds.Resource
	// turn has room for one value: a check can take seconds, and there can be many.
	turn chan struct{}
}

// newChecker returns a checker for the CRDs in a catalog, for Kubernetes' own resources that are served, and for CRDs
// themselves, which definition describes.
func newChecker(catalog func() *crd.Catalog, served []*kinds.Resource, definition *crd.Definition) *checker {
	return &checker{served: served, turn: make(chan struct{}, 1), types: validating.TypeChecker{
		RestMapper: kindMapper{catalog: catalog, served: served, definition: definition},
		SchemaResolver: &published{catalog: catalog, builder: sync.OnceValue(func() *openapi.Builder { return openapi.New(openapi.Options{}) }),
			kinds: sync.OnceValue(schemas.All)},
	}}
}

// owns reports whether a group is one of Kubernetes' own.
func (c *checker) owns(group string) bool {
	return slices.ContainsFunc(c.served, func(r *kinds.Resource) bool { return r.Group == group })
}

const (
	// maxWarnings limits the size of the warnings about a policy: each has the expression once for each kind, so that all
	// of them could be too large to be stored.
	maxWarnings = 256 << 10
	// maxCost limits what the check of a policy costs: Kubernetes' type checker compiles all variables again for each
	// expression and each kind. A policy of 100 expressions and 20 variables of 50 bytes each, for one kind, costs 200,000.
	maxCost = 1 << 20
	// environmentCost is what it costs to prepare the compilation of an expression for a kind.
	environmentCost = 64
	// maxKinds is the number of kinds of a rule that Kubernetes' type checker uses at most.
	maxKinds = 10
	// maxResources limits how many combinations of groups, versions and resources of a rule are looked up.
	maxResources = 10_000
)

// check returns the warnings about a policy. If they are too large, or the policy has too many expressions, the
// last one says from which expression on there are none. It waits for other checks, and ends early with an error if ctx ends.
func (c *checker) check(ctx context.Context, p *v1.ValidatingAdmissionPolicy) (warnings []v1.ExpressionWarning, err error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	checked, kinds := bounded(p)
	types := c.types.CreateContext(checked)
	variables, cost, size := 0, 0, 0
	compiles, err := bound(p)
	if err != nil {
		return nil, err
	}
	for _, v := range p.Spec.Variables {
		variables += compilationCost(v.Expression)
	}
	end := func(ref, reason string) []v1.ExpressionWarning {
		return append(warnings, v1.ExpressionWarning{FieldRef: ref, Warning: "no warnings from this expression on: " + reason})
	}
	for _, e := range expressionsOf(p) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := compiles(e.text); err != nil {
			return end(e.ref, err.Error()), nil
		}
		if cost += kinds * (environmentCost + variables + compilationCost(e.text)); cost > maxCost {
			return end(e.ref, "the policy has too many expressions and variables to check all of them"), nil
		}
		results := c.types.CheckExpression(types, e.text)
		if len(results) == 0 {
			continue
		}
		w := v1.ExpressionWarning{FieldRef: e.ref, Warning: unnumbered(p, results.String())}
		if size += len(w.FieldRef) + len(w.Warning); size > maxWarnings {
			return end(e.ref, "all warnings together are too large to be stored"), nil
		}
		warnings = append(warnings, w)
	}
	return warnings, nil
}

// bound returns a function that returns an error if an expression of a policy, or one of its variables, takes too long to
// compile. Kubernetes' type checker has no bounds.
func bound(p *v1.ValidatingAdmissionPolicy) (func(text string) error, error) {
	c, err := kindscel.NewComposition(bounds.EnvSet())
	if err != nil {
		return nil, err
	}
	known := cel.OptionalVariableDeclarations{HasParams: p.Spec.ParamKind != nil, HasAuthorizer: true}
	for _, v := range p.Spec.Variables {
		result := c.CompileAndStoreVariable(kindscel.Variable(v.Name, v.Expression), known, environment.StoredExpressions)
		if bounds.IsTooComplex(result.Error) {
			return func(string) error { return fmt.Errorf("variable %s: %w", v.Name, result.Error) }, nil
		}
	}
	return func(text string) error {
		result := c.CompileCELExpression(kindscel.Accessor(admissionregistration.Expression{Text: text}), known, environment.StoredExpressions)
		if bounds.IsTooComplex(result.Error) {
			return result.Error
		}
		return nil
	}, nil
}

// compilationCost is the cost of compiling an expression once. The time for a long chain of operators grows with the
// square of its length.
func compilationCost(text string) int { return 40 + len(text) + len(text)*len(text)/1024 }

// expression is an expression of a policy with its path.
type expression struct{ ref, text string }

// expressionsOf returns the expressions of a policy that are checked.
func expressionsOf(p *v1.ValidatingAdmissionPolicy) (all []expression) {
	path := field.NewPath("spec", "validations")
	for i, v := range p.Spec.Validations {
		all = append(all, expression{path.Index(i).Child("expression").String(), v.Expression})
		if v.MessageExpression != "" {
			all = append(all, expression{path.Index(i).Child("messageExpression").String(), v.MessageExpression})
		}
	}
	return all
}

// bounded returns a policy whose rules have fewer resources if there are too many of them, and how many kinds
// they may have.
func bounded(p *v1.ValidatingAdmissionPolicy) (_ *v1.ValidatingAdmissionPolicy, kinds int) {
	if p.Spec.MatchConstraints == nil {
		return p, 0
	}
	left, out := maxResources, *p
	match := *p.Spec.MatchConstraints
	out.Spec.MatchConstraints, match.ResourceRules = &match, slices.Clone(match.ResourceRules)
	for i := range match.ResourceRules {
		r := &match.ResourceRules[i]
		n := 1
		for _, list := range []*[]string{&r.APIGroups, &r.APIVersions, &r.Resources} {
			*list = (*list)[:min(len(*list), left/n)]
			n *= max(1, len(*list))
		}
		left = max(1, left-n)
		kinds += min(n, maxKinds)
	}
	return &out, kinds
}

// checkedKind matches the kind in the first line of what a warning says about it.
var checkedKind = regexp.MustCompile(`(?m)^\S*, Kind=(\S+): `)

// unnumbered removes the random numbers from the names of types, which are kinds with a number. Otherwise
// each check of a policy had another result.
func unnumbered(p *v1.ValidatingAdmissionPolicy, warning string) string {
	var names []string
	if k := p.Spec.ParamKind; k != nil {
		names = append(names, regexp.QuoteMeta(k.Kind))
	}
	for _, m := range checkedKind.FindAllStringSubmatch(warning, -1) {
		names = append(names, regexp.QuoteMeta(m[1]))
	}
	numbered := regexp.MustCompile(`\b(` + strings.Join(names, "|") + `)[0-9]+\b`)
	lines := strings.Split(warning, "\n")
	for i, line := range lines {
		if !strings.HasPrefix(line, " | ") { // a line of the expression
			lines[i] = numbered.ReplaceAllString(line, "$1")
		}
	}
	return strings.Join(lines, "\n")
}

// kindMapper finds the kinds of resources. A call of any other method would panic.
type kindMapper struct {
	meta.RESTMapper
	catalog    func() *crd.Catalog
	served     []*kinds.Resource
	definition *crd.Definition
}

// KindsFor returns the kinds of a resource, which may be plural or singular. As in Kubernetes, the core group stands for
// all groups.
func (m kindMapper) KindsFor(gvr runtimeschema.GroupVersionResource) ([]runtimeschema.GroupVersionKind, error) {
	name := strings.ToLower(gvr.Resource)
	var found []runtimeschema.GroupVersionKind
	for _, r := range m.served {
		if r.Version == gvr.Version && (gvr.Group == "" || r.Group == gvr.Group) && (name == r.Plural || name == r.Singular) {
			found = append(found, r.GroupVersionKind())
		}
	}
	called := func(d *crd.Definition) bool { return name == d.Names().Plural || name == d.Names().Singular }
	if d := m.definition; called(d) && (gvr.Group == "" || gvr.Group == d.GroupResource().Group) {
		if v := d.Version(gvr.Version); v != nil && v.Served() {
			found = append(found, v.GroupVersionKind())
		}
	}
	catalog := m.catalog()
	candidates := catalog.Group(gvr.Group)
	if gvr.Group == "" {
		candidates = catalog.All()
	}
	for _, d := range candidates {
		if v := catalog.Resource(d.GroupResource().WithVersion(gvr.Version)); v != nil && called(d) {
			found = append(found, v.GroupVersionKind())
		}
	}
	if len(found) == 0 {
		return nil, &meta.NoResourceMatchError{PartialResource: gvr}
	}
	return found, nil
}

// published has the schemas of kinds as OpenAPI documents have them.
type published struct {
	catalog func() *crd.Catalog
	builder func() *openapi.Builder
	kinds   func() []*schemas.Kind
}

// ResolveSchema returns the schema of a kind, without references.
func (p *published) ResolveSchema(gvk runtimeschema.GroupVersionKind) (*spec.Schema, error) {
	if v := p.catalog().Kind(gvk); v != nil {
		return p.custom(v)
	}
	for _, k := range p.kinds() {
		if k.Group != gvk.Group || k.Names.Kind != gvk.Kind || !slices.ContainsFunc(k.Versions, func(v schemas.Version) bool { return v.Name == gvk.Version }) {
			continue
		}
		name, definitions, err := k.OpenAPI(gvk.Version)
		if err != nil {
			return nil, fmt.Errorf("schema of %s: %w", gvk, err)
		}
		return resolver.PopulateRefs(func(ref string) (*spec.Schema, bool) {
			d, ok := definitions[strings.TrimPrefix(ref, openapi.SchemaPrefix)]
			return &d.Schema, ok
		}, name)
	}
	return nil, fmt.Errorf("schema of %s: %w", gvk, resolver.ErrSchemaNotFound)
}

// custom returns the schema of a version of a CRD.
func (p *published) custom(v *crd.Version) (*spec.Schema, error) {
	doc, err := p.builder().V3(v)
	if err != nil {
		return nil, err
	}
	return resolver.PopulateRefs(func(ref string) (*spec.Schema, bool) {
		s, ok := doc.Components.Schemas[strings.TrimPrefix(ref, openapi.SchemaPrefix)]
		return s, ok
	}, openapi.DefinitionName(v.GroupVersionKind()))
}

package oracle

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/crdserverscheme"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"

	engine "espalier.dev/schema"
	"espalier.dev/schema/rules"
)

// RuleFacts are the properties of rules that do not depend on objects, as text.
type RuleFacts map[string]string

// selfType matches the reference's name for the type of self, which differs each time.
var selfType = regexp.MustCompile(`selfType\d+`)

func withoutNumbers(s string) string { return selfType.ReplaceAllString(s, "selfType") }

func ruleFacts(cost, cardinality, message uint64, usesOldSelf bool, err, messageErr string) string {
	return withoutNumbers(fmt.Sprintf("cost %d, cardinality %d, message cost %d, uses oldSelf %t, error %q, message error %q",
		cost, cardinality, message, usesOldSelf, err, messageErr))
}

// ReferenceRules returns the reference's facts about the rules of a schema, computed as in
// its validation of CRDs.
func ReferenceRules(props *apiextensions.JSONSchemaProps) RuleFacts {
	facts := RuleFacts{}
	referenceRules(props, nil, crdvalidation.RootCELContext(props), facts)
	return facts
}

func referenceRules(s *apiextensions.JSONSchemaProps, path *field.Path, in *crdvalidation.CELSchemaContext, facts RuleFacts) {
	if s == nil {
		return
	}
	if s.AdditionalProperties != nil {
		referenceRules(s.AdditionalProperties.Schema, path.Child("additionalProperties"), in.ChildAdditionalPropertiesContext(s.AdditionalProperties.Schema), facts)
	}
	for name, p := range s.Properties {
		referenceRules(&p, path.Child("properties").Key(name), in.ChildPropertyContext(&p, name), facts)
	}
	if s.Items != nil {
		referenceRules(s.Items.Schema, path.Child("items"), in.ChildItemsContext(s.Items.Schema), facts)
	}
	if len(s.XValidations) == 0 {
		return
	}
	at := path.Child("x-kubernetes-validations")
	info, err := in.TypeInfo()
	if err != nil || info == nil {
		facts[at.String()] = fmt.Sprintf("no type: %v", err)
		return
	}
	set := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	results, err := cel.Compile(info.Schema, info.DeclType, celconfig.PerCallLimit, set, cel.NewExpressionsEnvLoader())
	if err != nil {
		facts[at.String()] = err.Error()
		return
	}
	for i, r := range results {
		var ruleErr, messageErr string
		if r.Error != nil {
			ruleErr = r.Error.Error()
		}
		if r.MessageExpressionError != nil {
			messageErr = r.MessageExpressionError.Error()
		}
		facts[at.Index(i).String()] = ruleFacts(r.MaxCost, r.MaxCardinality, r.MessageExpressionMaxCost, r.UsesOldSelf, ruleErr, messageErr)
	}
}

// OurRules is ReferenceRules with the product.
func OurRules(s *engine.Structural) (RuleFacts, *engine.RuleReport) {
	facts := RuleFacts{}
	report := rules.Check(s, rules.CheckOptions{})
	for _, sr := range report.Schemas {
		at := sr.Path.Field(nil).Child("x-kubernetes-validations")
		if sr.Err != nil {
			facts[at.String()] = sr.Err.Error()
			if strings.HasPrefix(sr.Err.Error(), "unable to convert") {
				facts[at.String()] = fmt.Sprintf("no type: %v", sr.Err)
			}
			continue
		}
		for _, r := range sr.Rules {
			cardinality := r.Cost.MaxCardinality
			var ruleErr, messageErr string
			if r.Err != nil {
				ruleErr, cardinality = r.Err.Error(), 0
			}
			if strings.TrimSpace(r.Source.Rule) == "" {
				cardinality = 0
			}
			if r.MessageErr != nil {
				messageErr = r.MessageErr.Error()
			}
			facts[at.Index(r.Index).String()] = ruleFacts(r.Cost.Call, cardinality, r.MessageCost.Call, r.UsesOldSelf, ruleErr, messageErr)
		}
	}
	return facts, report
}

// compare lists the differences between two sides.
func (ref RuleFacts) compare(ours RuleFacts) []string {
	var out []string
	keys := maps.Clone(ref)
	maps.Copy(keys, ours)
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if ref[k] != ours[k] {
			out = append(out, fmt.Sprintf("%s\n  reference: %s\n  ours:      %s", k, ref[k], ours[k]))
		}
	}
	return out
}

// isRuleError reports whether an error of a CRD is about the compilation or the cost of its
// rules, and isRuleText whether it is about their text.
func isRuleError(e *field.Error) bool {
	return strings.Contains(e.Detail, "estimated rule cost total") || strings.Contains(e.Field, ".x-kubernetes-validations")
}

func isRuleText(e *field.Error) bool {
	return strings.HasSuffix(e.Field, ".fieldPath") || strings.HasSuffix(e.Field, ".message") || strings.Contains(e.Detail, "rule is not specified") ||
		strings.Contains(e.Detail, "messageExpression must be non-empty")
}

// ruleErrorsText formats the errors of the rules of a schema.
func ruleErrorsText(errs field.ErrorList) string {
	var lines []string
	for _, e := range errs {
		lines = append(lines, withoutNumbers(e.Error()))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// compareRuleErrors compares the errors of CRD validation about the rules of a schema. It
// returns nothing if the reference does not reach the rules. Of equally expensive rules the
// reference names the one that it finds first, which is random, so it may be asked again.
func compareRuleErrors(props *apiextensions.JSONSchemaProps, s *engine.Structural) (ref, ours string, compared bool) {
	for range tries {
		if ref, ours, compared = compareRuleErrorsOnce(props, s); ref == ours {
			break
		}
	}
	return ref, ours, compared
}

func compareRuleErrorsOnce(props *apiextensions.JSONSchemaProps, s *engine.Structural) (ref, ours string, compared bool) {
	root := field.NewPath("spec", "validation", "openAPIV3Schema")
	var about field.ErrorList
	var badlyWritten []string
	errs, panicked := Accepts(props, false)
	if panicked {
		// The reference panics if a fieldPath continues below additionalProperties: true.
		return "", "", false
	}
	for _, e := range errs {
		switch {
		case isRuleError(e) && isRuleText(e):
			at, _, _ := strings.Cut(e.Field, ".x-kubernetes-validations")
			badlyWritten = append(badlyWritten, at)
		case isRuleError(e):
			about = append(about, e)
		default:
			// Because of another error the rules may not be checked.
			return "", "", false
		}
	}
	report := rules.Check(s, rules.CheckOptions{Skip: func(path engine.SchemaPath) bool {
		at := path.Field(root).String()
		return slices.ContainsFunc(badlyWritten, func(bad string) bool { return bad == at || strings.HasPrefix(bad, at+".") })
	}})
	errs = append(report.FieldErrors(root, false), report.TotalErrors(root)...)
	return ruleErrorsText(about), ruleErrorsText(errs), true
}

// RulePair holds the rules of a schema, compiled for evaluation by both sides.
type RulePair struct {
	base       Case
	structural *structuralschema.Structural
	validator  *cel.Validator
	strategy   strategy
	program    *engine.Program
	rules      engine.Rules
}

// NewRulePair compiles the rules of a schema on both sides, with the same limits. It returns
// nil if the schema has no rules that are evaluated, or if the reference panics.
func NewRulePair(base Case, perCall uint64, budget int64) (*RulePair, error) {
	if base.Kind.Empty() {
		base.Kind, base.Namespaced = testKind, true
	}
	schemaJSON := encode(base.Schema)
	props, err := ReferenceSchema(schemaJSON)
	if err != nil {
		return nil, err
	}
	p := &RulePair{base: base}
	if p.structural, err = structuralschema.NewStructural(props); err != nil {
		return nil, err
	}
	if !base.Preserve {
		if err := defaulting.PruneDefaults(p.structural); err != nil {
			return nil, err
		}
	}
	if guard(func() { p.validator = cel.NewValidator(p.structural, true, perCall) }) != "" {
		return nil, nil // see compareRuleErrors
	}
	ours, _, err := OurStructural(schemaJSON)
	if err != nil {
		return nil, err
	}
	compiler := rules.Compiler(rules.WithBrokenRules(), rules.WithPerCallLimit(perCall), rules.WithBudget(budget))
	if p.rules, err = compiler(ours); err != nil {
		return nil, fmt.Errorf("ours: %w", err)
	}
	if (p.rules == nil) && p.validator == nil {
		return nil, nil
	}
	opts := []engine.Option{
		engine.WithSemantics(engine.Kubernetes), engine.WithRules(compiler),
		engine.WithIdentity(engine.Identity{APIVersion: base.Kind.GroupVersion().String(), Kind: base.Kind.Kind, Namespaced: base.Namespaced}),
	}
	if base.Preserve {
		opts = append(opts, engine.WithPreserveUnknownFields())
	}
	if p.program, err = engine.Compile(ours, opts...); err != nil {
		return nil, fmt.Errorf("ours: %w", err)
	}
	validator, _, err := validation.NewSchemaValidator(props)
	if err != nil {
		return nil, err
	}
	p.strategy = customresource.NewStrategy(crdserverscheme.NewUnstructuredObjectTyper(), base.Namespaced, base.Kind, validator, nil, p.structural, nil, nil, nil)
	return p, nil
}

// Reference evaluates only the rules.
func (p *RulePair) Reference(obj, old map[string]any, budget int64) field.ErrorList {
	var before any
	var opts []cel.Option
	if old != nil {
		before = old
		opts = append(opts, cel.WithRatcheting(common.NewCorrelatedObject(obj, old, &model.Structural{Structural: p.structural})))
	}
	errs, _ := p.validator.Validate(context.Background(), nil, p.structural, obj, before, budget, opts...)
	return errs
}

// Ours evaluates only the rules.
func (p *RulePair) Ours(obj, old map[string]any) field.ErrorList {
	if p.rules == nil {
		return nil
	}
	return p.rules.Validate(context.Background(), obj, old).FieldErrors()
}

// ReferenceWhole validates an object as the reference's strategy does.
func (p *RulePair) ReferenceWhole(obj, old map[string]any) field.ErrorList {
	u := &unstructured.Unstructured{Object: obj}
	if old == nil {
		return p.strategy.Validate(context.Background(), u)
	}
	return p.strategy.ValidateUpdate(context.Background(), u, &unstructured.Unstructured{Object: old})
}

// OursWhole is ReferenceWhole with the engine.
func (p *RulePair) OursWhole(obj, old map[string]any) field.ErrorList {
	return p.program.Validate(context.Background(), obj, old).FieldErrors()
}

// budgetTexts are the messages of both sides when the cost is too high. Which rule exceeds
// the budget depends on the order in which the reference walks a map.
var budgetTexts = []string{"running out of cost budget", "cost exceeds limit"}

func hitsBudget(text string) bool {
	return slices.ContainsFunc(budgetTexts, func(s string) bool { return strings.Contains(text, s) })
}

// check compares both sides on an object.
func (p *RulePair) check(name string, obj, old map[string]any, budget int64) (*Difference, bool) {
	c := &Case{Name: name, Schema: p.base.Schema, Doc: encode(obj)}
	if old != nil {
		c.Old = encode(old)
	}
	failing := false
	for _, way := range []struct {
		what      string
		ref, ours func() field.ErrorList
	}{
		{"rules", func() field.ErrorList { return p.Reference(clone(obj), clone(old), budget) }, func() field.ErrorList { return p.Ours(obj, old) }},
		{"validation with rules", func() field.ErrorList { return p.ReferenceWhole(clone(obj), clone(old)) }, func() field.ErrorList { return p.OursWhole(obj, old) }},
	} {
		if way.what != "rules" && budget != celconfig.RuntimeCELCostBudget {
			continue
		}
		var ref, ours string
		if guard(func() { ref = withoutNumbers(errorsText(way.ref())) }) != "" {
			return nil, false // the reference panics: nothing to compare
		}
		before := render(obj)
		if g := guard(func() { ours = withoutNumbers(errorsText(way.ours())) }); g != "" {
			return &Difference{Case: c, What: way.what, Reference: "no panic", Ours: g}, false
		}
		if after := render(obj); after != before {
			return &Difference{Case: c, What: way.what + " change the object", Reference: before, Ours: after}, false
		}
		failing = failing || way.what == "rules" && ref != "no errors"
		if ref == ours || hitsBudget(ref) && hitsBudget(ours) {
			continue
		}
		if budget != celconfig.RuntimeCELCostBudget {
			// If the budget may run out, the order of a map determines how many rules are
			// evaluated. Our order must be one of the reference's.
			if !everSays(way.ref, ours) {
				return &Difference{Case: c, What: way.what, Reference: ref, Ours: ours}, failing
			}
			continue
		}
		// The order of a map also determines, on both sides, which of several errors of a
		// value an expression reaches first. Each side must report every error of the other
		// at some time.
		if !saidBy(way.ref, ours) || !saidBy(way.ours, ref) {
			return &Difference{Case: c, What: way.what, Reference: ref, Ours: ours}, failing
		}
	}
	return nil, failing
}

// saidBy runs one side until it has reported every line of text. Rare lines may take a while.
func saidBy(side func() field.ErrorList, text string) bool {
	missing := map[string]bool{}
	for _, line := range strings.Split(text, "\n    ") {
		missing[line] = true
	}
	for range 20 * tries {
		for _, line := range strings.Split(withoutNumbers(errorsText(side())), "\n    ") {
			delete(missing, line)
		}
		if len(missing) == 0 {
			return true
		}
	}
	return false
}

// everSays runs one side until it reports exactly the text.
func everSays(side func() field.ErrorList, text string) bool {
	for range 40 * tries {
		if withoutNumbers(errorsText(side())) == text {
			return true
		}
	}
	return false
}

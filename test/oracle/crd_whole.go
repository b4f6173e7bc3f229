package oracle

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	engine "espalier.dev/schema"
)

// CRDCase is a CRD to create, or, with Old, to update. Both are v1, as trees.
type CRDCase struct {
	Name     string
	New, Old map[string]any
}

// CRDComparer compares the validation of whole CRDs.
type CRDComparer struct {
	scheme *runtime.Scheme
	// Panics counts the compared CRDs on which the reference panics.
	Panics atomic.Int64
}

// NewCRDComparer returns a new CRDComparer.
func NewCRDComparer() *CRDComparer {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	return &CRDComparer{scheme: scheme}
}

// Verdict is the result of one side for a CRD.
type Verdict struct {
	// Undecodable is the error if the CRD could not be decoded.
	Undecodable error
	// Errors and Warnings are sorted.
	Errors   []string
	Warnings []string
	// Panicked reports whether the side panicked. Only the reference may.
	Panicked bool
}

func (v Verdict) equal(o Verdict) bool {
	return (v.Undecodable == nil) == (o.Undecodable == nil) && slices.Equal(v.Errors, o.Errors) && slices.Equal(v.Warnings, o.Warnings)
}

// Reference validates a CRD with the reference.
func (j *CRDComparer) Reference(c CRDCase) (v Verdict) {
	// The reference panics on some paths into schemas that do not exist, and on rules below
	// a property without a CEL type.
	defer func() {
		if recover() != nil {
			v = Verdict{Panicked: true}
		}
	}()
	ctx := context.Background()
	strategy := customresourcedefinition.NewStrategy(j.scheme)
	obj, err := j.decodeReference(c.New)
	if err != nil {
		return Verdict{Undecodable: err}
	}
	if c.Old == nil {
		strategy.PrepareForCreate(ctx, obj)
		return crdVerdict(strategy.Validate(ctx, obj), strategy.WarningsOnCreate(ctx, obj))
	}
	old, err := j.decodeReference(c.Old)
	if err != nil {
		return Verdict{Undecodable: err}
	}
	obj.ResourceVersion, old.ResourceVersion = "1", "1"
	strategy.PrepareForUpdate(ctx, obj, old)
	return crdVerdict(strategy.ValidateUpdate(ctx, obj, old), strategy.WarningsOnUpdate(ctx, obj, old))
}

func (j *CRDComparer) decodeReference(tree map[string]any) (*apiextensions.CustomResourceDefinition, error) {
	in := &apiextensionsv1.CustomResourceDefinition{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(mustJSON(tree), in); err != nil {
		return nil, err
	}
	j.scheme.Default(in)
	out := &apiextensions.CustomResourceDefinition{}
	if err := j.scheme.Convert(in, out, nil); err != nil {
		return nil, err
	}
	return out, nil
}

// Ours validates a CRD with the product.
func (j *CRDComparer) Ours(c CRDCase) Verdict {
	ctx := context.Background()
	options := crd.Options{Semantics: engine.Kubernetes, Rules: cel.Checker{}}
	obj, err := decodeOurs(c.New)
	if err != nil {
		return Verdict{Undecodable: err}
	}
	if c.Old == nil {
		crd.PrepareCreate(obj)
		r := crd.ValidateCreate(ctx, obj, options)
		return crdVerdict(r.Errors, r.Warnings)
	}
	old, err := decodeOurs(c.Old)
	if err != nil {
		return Verdict{Undecodable: err}
	}
	obj.ResourceVersion, old.ResourceVersion = "1", "1"
	crd.PrepareUpdate(obj, old)
	r := crd.ValidateUpdate(ctx, obj, old, options)
	return crdVerdict(r.Errors, r.Warnings)
}

func decodeOurs(tree map[string]any) (*api.CustomResourceDefinition, error) {
	obj := &api.CustomResourceDefinition{}
	if err := api.Unmarshal(mustJSON(tree), obj); err != nil {
		return nil, err
	}
	api.SetDefaults(obj)
	return obj, nil
}

func crdVerdict(errs field.ErrorList, warnings []string) (v Verdict) {
	for _, e := range errs {
		v.Errors = append(v.Errors, crdError(e))
	}
	v.Warnings = slices.Clone(warnings)
	slices.Sort(v.Errors)
	slices.Sort(v.Warnings)
	return v
}

// crdError formats an error. If the reference shows one of its Go structs as the bad value,
// the value is omitted.
func crdError(e *field.Error) string {
	for _, detail := range []string{
		"may not all be set to identical values",
		"must contain unique version names",
		"must have exactly one version marked as storage version",
		"fields are allowed at the root of the schema",
		"must only have a single schema",
	} {
		if strings.Contains(e.Detail, detail) {
			return fmt.Sprintf("%s: %s: %s", e.Field, e.Type, e.Detail)
		}
	}
	// Both sides number types, the reference randomly.
	return selfTypes.ReplaceAllString(e.Error(), "selfType")
}

var selfTypes = regexp.MustCompile(`selfType\d+`)

// CompareCRD compares both sides and describes the difference, if any. It asks the reference
// again if they differ, because some of its answers depend on the order of a map.
func (j *CRDComparer) CompareCRD(c CRDCase) (ours Verdict, difference string) {
	ours = j.Ours(c)
	var theirs Verdict
	for range 60 {
		theirs = j.Reference(c)
		if theirs.Panicked {
			j.Panics.Add(1)
			return ours, j.checkAlone(c)
		}
		if ours.equal(theirs) || knownCRDDifference(theirs) {
			return ours, ""
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", c.Name)
	if ours.Undecodable != nil || theirs.Undecodable != nil {
		fmt.Fprintf(&b, "  ours cannot decode: %v\n  theirs cannot decode: %v\n", ours.Undecodable, theirs.Undecodable)
	}
	report := func(label string, a, b []string, out *strings.Builder) {
		rest := slices.Clone(b)
		for _, text := range a {
			if i := slices.Index(rest, text); i >= 0 {
				rest = slices.Delete(rest, i, i+1)
			} else {
				fmt.Fprintf(out, "  %s: %s\n", label, text)
			}
		}
	}
	report("only ours", ours.Errors, theirs.Errors, &b)
	report("only theirs", theirs.Errors, ours.Errors, &b)
	report("only ours warns", ours.Warnings, theirs.Warnings, &b)
	report("only theirs warns", theirs.Warnings, ours.Warnings, &b)
	return ours, b.String()
}

// knownCRDDifference reports whether the product may differ from an answer of the reference,
// which evaluates rules on a default whose value has no CEL type and reports the error at the
// default; the product reports it at the rules, if at all.
func knownCRDDifference(theirs Verdict) bool {
	return slices.ContainsFunc(theirs.Errors, func(e string) bool { return strings.Contains(e, "rule compiler initialization error") })
}

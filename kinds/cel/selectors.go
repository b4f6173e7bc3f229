package cel

import (
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/ext"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"
	apicel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"

	"espalier.dev/internal/lru"
	"espalier.dev/kinds/releases"
	"espalier.dev/schema/rules/bounds"
)

// deviceVariable is the variable of expressions that select devices.
const deviceVariable = "device"

// selectors compiles expressions that select devices.
type selectors struct {
	environments func() (*environment.EnvSet, error)
	device       *device
	results      *lru.Cache[selector, selected]
}

// selector is all that the result of an expression depends on.
type selector struct {
	text   string
	stored bool
}

// selected is the result of an expression: its error, or its cost.
type selected struct {
	err  *apicel.Error
	cost uint64
}

// newSelectors returns a compiler for a release of Kubernetes, whose environments set returns.
func newSelectors(set func() *environment.EnvSet, release releases.Release) *selectors {
	const overhead = 200
	d := newDevice(release)
	return &selectors{
		environments: sync.OnceValues(func() (*environment.EnvSet, error) { return set().Extend(d.options()...) }),
		device:       d,
		results: lru.New(maxResults, func(s selector, r selected) int64 {
			size := overhead + len(s.text)
			if r.err != nil {
				size += len(r.err.Detail)
			}
			return int64(size)
		}),
	}
}

// DeviceSelector returns the errors of an expression, which must not be too expensive.
func (s *selectors) DeviceSelector(path *field.Path, expression string, stored bool) field.ErrorList {
	key := selector{expression, stored}
	result, err := s.results.Get(key, func() (selected, error) { return s.compile(key) })
	switch {
	case err != nil:
		return field.ErrorList{field.InternalError(path, err)}
	case stored && bounds.IsTooComplex(result.err):
		return nil
	case result.err == nil && result.cost > resourcev1.CELSelectorExpressionMaxCost:
		return field.ErrorList{field.Forbidden(path, "too complex, exceeds cost limit")}
	}
	return errorsOf(path, expression, result.err)
}

// compile compiles an expression, and estimates its cost.
func (s *selectors) compile(key selector) (out selected, err error) {
	defer bounds.Recover(func(err error) { out = selected{err: bounds.Error(err)} })
	set, err := s.environments()
	if err != nil {
		return selected{}, err
	}
	kind := environment.NewExpressions
	if key.stored {
		kind = environment.StoredExpressions
	}
	env, err := set.Env(kind)
	if err != nil {
		return selected{}, fmt.Errorf("unexpected error loading CEL environment: %w", err)
	}
	invalid := func(format string, args ...any) (selected, error) {
		return selected{err: &apicel.Error{Type: apicel.ErrorTypeInvalid, Detail: fmt.Sprintf(format, args...)}}, nil
	}
	if err := bounds.Check(key.text, bounds.TypeSize{}); err != nil {
		return selected{err: bounds.Error(err)}, nil
	}
	ast, issues := env.Compile(key.text)
	if issues != nil {
		return invalid("compilation failed: %s", issues)
	}
	// The type of attributes is not known.
	if output := ast.OutputType(); output != cel.BoolType && output != cel.AnyType {
		return invalid("must evaluate to %v or the unknown type, not %v", cel.BoolType, output)
	}
	if _, err := env.Program(ast); err != nil {
		return selected{}, fmt.Errorf("program instantiation failed: %w", err)
	}
	cost, err := env.EstimateCost(ast, &library.CostEstimator{SizeEstimator: s.device})
	if err != nil {
		return selected{}, fmt.Errorf("cost estimation failed: %w", err)
	}
	return selected{cost: cost.Max}, nil
}

// device describes the variable device, and estimates the size of its parts.
type device struct {
	variable, attribute *apicel.DeclType
	// introduced is the release in which expressions can use all of it.
	introduced *version.Version
}

// releaseWithSharing is the release in which devices can say that they may be allocated more than once.
const releaseWithSharing releases.Release = 36

// newDevice returns the variable of a release.
func newDevice(release releases.Release) *device {
	domain := atMost(resourcev1.DeviceMaxDomainLength, apicel.StringType)
	name := atMost(resourcev1.DeviceMaxIDLength, apicel.StringType)
	byName := func(value *apicel.DeclType) *apicel.DeclType {
		const most = resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice
		return apicel.NewMapType(domain, apicel.NewMapType(name, value, most), most)
	}
	d := &device{attribute: atMost(resourcev1.DeviceAttributeMaxValueLength, apicel.AnyType), introduced: version.MajorMinor(1, 31)}
	types := map[string]*apicel.DeclType{
		"driver":     atMost(resourcev1.DriverNameMaxLength, apicel.StringType),
		"attributes": byName(d.attribute),
		"capacity":   byName(apicel.QuantityDeclType),
	}
	if release >= releaseWithSharing {
		// The version is that of the first release that knows the field.
		types["allowMultipleAllocations"], d.introduced = atMost(1, apicel.BoolType), version.MajorMinor(1, 34)
	}
	fields := map[string]*apicel.DeclField{}
	for name, t := range types {
		fields[name] = apicel.NewDeclField(name, t, true, nil, nil)
	}
	d.variable = apicel.NewObjectType("kubernetes.DRADevice", fields)
	return d
}

// atMost returns a type whose values have a limited size.
func atMost(size int64, of *apicel.DeclType) *apicel.DeclType {
	t := *of
	t.MaxElements = size
	return &t
}

// options returns what environments of selectors have beside those of all expressions.
func (d *device) options() []environment.VersionedOptions {
	return []environment.VersionedOptions{
		{IntroducedVersion: version.MajorMinor(1, 31), EnvOptions: []cel.EnvOption{ext.Bindings(ext.BindingsVersion(0))}},
		{IntroducedVersion: d.introduced, DeclTypes: []*apicel.DeclType{d.variable},
			EnvOptions: []cel.EnvOption{cel.Variable(deviceVariable, d.variable.CelType())}},
	}
}

// EstimateSize implements [checker.CostEstimator]: it returns the size of the part of the variable
// that a node names, or nil if it names something else.
func (d *device) EstimateSize(node checker.AstNode) *checker.SizeEstimate {
	path := node.Path()
	if len(path) == 0 || path[0] != deviceVariable {
		return nil
	}
	t := d.variable
	for _, step := range path[1:] {
		if t = d.below(t, step); t == nil {
			return nil
		}
	}
	return &checker.SizeEstimate{Max: uint64(t.MaxElements)}
}

// below returns the type of a part of a type, or nil.
func (d *device) below(t *apicel.DeclType, step string) *apicel.DeclType {
	switch step {
	case "@items", "@values":
		return t.ElemType
	case "@keys":
		return t.KeyType
	}
	switch f, ok := t.Fields[step]; {
	case ok:
		return f.Type
	case t.ElemType == d.attribute: // all attributes have the same type
		return d.attribute
	}
	return nil
}

// EstimateCallCost implements [checker.CostEstimator].
func (d *device) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

package oracle

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/conversion"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/spec3"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"espalier.dev/crd"
	engine "espalier.dev/schema"
	"espalier.dev/server/fields"
)

// endpoint is a version of a resource, or its status.
type endpoint struct{ version, subresource string }

func (e endpoint) kind() schema.GroupVersionKind {
	return testKind.GroupKind().WithVersion(e.version)
}

// fieldManagers are the field managers of a CRD on both sides.
type fieldManagers struct {
	definition *crd.Definition
	endpoints  []endpoint
	ours       map[endpoint]*fields.Manager
	ref        map[endpoint]*managedfields.FieldManager
}

// newFieldManagers returns the field managers of a CRD with the conversion strategy None.
func newFieldManagers(tree map[string]any) (*fieldManagers, error) {
	decoded, err := decodeOurs(tree)
	if err != nil {
		return nil, err
	}
	definition, err := crd.New(decoded, crd.Options{Semantics: engine.Kubernetes, IgnoreRules: true})
	if err != nil {
		return nil, err
	}
	theirs := &apiextensionsv1.CustomResourceDefinition{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(mustJSON(tree), theirs); err != nil {
		return nil, err
	}
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(theirs)
	var specs []*spec3.OpenAPI
	defaults := structuralDefaulter{}
	for _, v := range theirs.Spec.Versions {
		s, err := builder.BuildOpenAPIV3(theirs, v.Name, builder.Options{})
		if err != nil {
			return nil, err
		}
		specs = append(specs, s)
		props, err := ReferenceSchema(mustJSON(v.Schema.OpenAPIV3Schema))
		if err != nil {
			return nil, err
		}
		structural, errs, err := ReferenceStructural(props)
		if err != nil || len(errs) > 0 {
			return nil, fmt.Errorf("not structural: %v %v", errs, err)
		}
		structural = structural.DeepCopy()
		if err := defaulting.PruneDefaults(structural); err != nil {
			return nil, err
		}
		defaults[v.Name] = structural
	}
	merged, err := builder.MergeSpecsV3(specs...)
	if err != nil {
		return nil, err
	}
	types, err := managedfields.NewTypeConverter(merged.Components.Schemas, theirs.Spec.PreserveUnknownFields)
	if err != nil {
		return nil, err
	}
	factory, err := conversion.NewCRConverterFactory(nil, nil)
	if err != nil {
		return nil, err
	}
	safe, _, err := factory.NewConverter(theirs)
	if err != nil {
		return nil, err
	}

	m := &fieldManagers{definition: definition, ours: map[endpoint]*fields.Manager{}, ref: map[endpoint]*managedfields.FieldManager{}}
	ourTypes := fields.NewTypes(definition)
	for _, v := range definition.Versions() {
		program, err := v.Program()
		if err != nil {
			return nil, err
		}
		for subresource, reset := range map[string]*fieldpath.Set{
			"":       fieldpath.NewSet(fieldpath.MakePathOrDie("status")),
			"status": fieldpath.NewSet(fieldpath.MakePathOrDie("metadata"), fieldpath.MakePathOrDie("spec")),
		} {
			e := endpoint{v.Name(), subresource}
			m.endpoints = append(m.endpoints, e)
			if m.ours[e], err = fields.New(fields.Config{Types: ourTypes, Kind: e.kind(), Subresource: subresource, Reset: reset,
				Default: func(obj map[string]any) { program.Default(obj) }}); err != nil {
				return nil, err
			}
			filter := fieldpath.NewExcludeFilterSetMap(map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(e.kind().GroupVersion().String()): reset})
			if m.ref[e], err = managedfields.NewDefaultCRDFieldManager(types, safe, defaults, unstructuredCreator{}, e.kind(), e.kind().GroupVersion(), subresource, filter); err != nil {
				return nil, err
			}
		}
	}
	slices.SortFunc(m.endpoints, func(a, b endpoint) int {
		return strings.Compare(a.version+"/"+a.subresource, b.version+"/"+b.subresource)
	})
	return m, nil
}

// structuralDefaulter applies the defaults of the schemas of all versions.
type structuralDefaulter map[string]*structuralschema.Structural

func (d structuralDefaulter) Default(in runtime.Object) {
	u := in.(*unstructured.Unstructured)
	defaulting.Default(u.Object, d[u.GroupVersionKind().Version])
}

type unstructuredCreator struct{}

func (unstructuredCreator) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u, nil
}

// fieldStep is one write.
type fieldStep struct {
	endpoint endpoint
	manager  string
	apply    bool
	force    bool
	// live is the stored object in the version of the endpoint, without content for a create.
	// obj is the written object, or the applied configuration.
	live, obj map[string]any
}

func (s *fieldStep) String() string {
	verb := "update"
	if s.apply {
		verb = fmt.Sprintf("apply (force %v)", s.force)
	}
	return fmt.Sprintf("%s by %q at %v\nlive: %s\nobject: %s", verb, s.manager, s.endpoint, mustJSON(s.live), mustJSON(s.obj))
}

// fieldResult is the result of a write.
type fieldResult struct {
	obj map[string]any
	err error
}

func (r fieldResult) String() string {
	if r.err == nil {
		return string(mustJSON(r.obj))
	}
	var status apierrors.APIStatus
	if errors.As(r.err, &status) {
		s := status.Status()
		if s.Details != nil { // the order of the managers is that of a map
			slices.SortFunc(s.Details.Causes, func(a, b metav1.StatusCause) int {
				return strings.Compare(a.Message+a.Field, b.Message+b.Field)
			})
		}
		return "error " + string(mustJSON(s))
	}
	// The errors of a walk over maps have no order.
	lines := strings.Split(r.err.Error(), "\n")
	slices.Sort(lines)
	return "error " + strings.Join(lines, "\n")
}

// run performs a write on both sides and returns the results, with the times of the step set
// to now. It returns an error if ours changes its input.
func (m *fieldManagers) run(s fieldStep, now string) (ours, ref fieldResult, err error) {
	tree := func(obj map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: runtime.DeepCopyJSON(obj)}
	}
	live, obj := tree(s.live), tree(s.obj)
	if s.apply {
		var out *unstructured.Unstructured
		if out, ours.err = m.ours[s.endpoint].Apply(live, obj, s.manager, s.force); ours.err == nil {
			ours.obj = runtime.DeepCopyJSON(out.Object)
		}
		if !reflect.DeepEqual(obj.Object, s.obj) {
			err = errors.New("the applied configuration has changed")
		}
	} else {
		m.ours[s.endpoint].Update(live, obj, s.manager)
		ours.obj = runtime.DeepCopyJSON(obj.Object)
	}
	if !reflect.DeepEqual(live.Object, s.live) {
		err = errors.New("the live object has changed")
	}
	live, obj = tree(s.live), tree(s.obj)
	if s.apply {
		var out runtime.Object
		if out, ref.err = m.ref[s.endpoint].Apply(live, obj, s.manager, s.force); ref.err == nil {
			ref.obj = out.(*unstructured.Unstructured).Object
		}
	} else {
		ref.obj = m.ref[s.endpoint].UpdateNoErrors(live, obj, s.manager).(*unstructured.Unstructured).Object
	}
	known := map[any]bool{}
	eachEntry(s.live, func(entry map[string]any) { known[entry["time"]] = true })
	eachEntry(s.obj, func(entry map[string]any) { known[entry["time"]] = true })
	for _, obj := range []map[string]any{ours.obj, ref.obj} {
		eachEntry(obj, func(entry map[string]any) {
			if t, ok := entry["time"]; ok && !known[t] {
				entry["time"] = now
			}
		})
	}
	return ours, ref, err
}

// stepsPerCRD is the number of writes to the objects of one generated CRD.
const stepsPerCRD = 40

// fieldStats counts the writes of sequences.
type fieldStats struct{ writes, applies, failed, unchanged atomic.Uint64 }

func (s *fieldStats) String() string {
	return fmt.Sprintf("%d writes, %d of them applies; %d failed, %d changed nothing",
		s.writes.Load(), s.applies.Load(), s.failed.Load(), s.unchanged.Load())
}

// compareFields generates a CRD, performs stepsPerCRD writes on both sides, and returns the
// first difference.
func (g *gen) compareFields(stats *fieldStats) error {
	var err error
	for range 50 {
		tree := g.fieldsCRD()
		var managers *fieldManagers
		if managers, err = newFieldManagers(tree); err != nil {
			continue // not a CRD that the server accepts
		}
		s := g.fieldSequence(tree, managers)
		if err = s.compare(stats); err != nil {
			return fmt.Errorf("%w\nCRD: %s", err, mustJSON(s.crd))
		}
		return nil
	}
	return fmt.Errorf("no CRD was accepted: %w", err)
}

// compare performs stepsPerCRD writes on both sides, and returns the first difference.
func (s *fieldSequence) compare(stats *fieldStats) error {
	for i := range stepsPerCRD {
		step := s.next()
		now := time.Date(2026, 1, 1, 0, 0, i, 0, time.UTC).Format(time.RFC3339)
		ours, ref, err := s.managers.run(step, now)
		for again := 0; err == nil && ours.String() != ref.String(); again++ {
			if ref.err == nil || again == 300 {
				return fmt.Errorf("step %d: %v\nours: %v\nref:  %v", i, &step, ours, ref)
			}
			_, ref, err = s.managers.run(step, now) // which error is first depends on the order of maps
		}
		if err != nil {
			return fmt.Errorf("step %d: %w\n%v", i, err, &step)
		}
		stats.writes.Add(1)
		if step.apply {
			stats.applies.Add(1)
		}
		switch {
		case ref.err != nil:
			stats.failed.Add(1)
		case equal(ref.obj, step.live):
			stats.unchanged.Add(1)
		}
		if ref.err == nil {
			s.stored = ref.obj
			s.stored["metadata"].(map[string]any)["uid"] = "1"
			s.stored["kind"] = testKind.Kind // the server rejects others
		}
		if s.chance(2) {
			s.stored = nil
		}
		if s.chance(3) {
			s.redefine()
		}
	}
	return nil
}

// eachEntry calls f for the entries of managedFields.
func eachEntry(obj map[string]any, f func(entry map[string]any)) {
	metadata, _ := obj["metadata"].(map[string]any)
	list, _ := metadata["managedFields"].([]any)
	for _, item := range list {
		if entry, ok := item.(map[string]any); ok {
			f(entry)
		}
	}
}

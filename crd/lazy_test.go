package crd_test

import (
	"errors"
	"reflect"
	"runtime"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// storedText has the text of a CRD, and counts how often it is read.
type storedText struct {
	text  []byte
	loads int
}

func (s *storedText) load() (*api.CustomResourceDefinition, error) {
	s.loads++
	return codec.DecodeLenient(s.text)
}

// lazy returns a Definition whose schemas are read from its text.
func lazy(t *testing.T, c *api.CustomResourceDefinition, sem schema.Semantics) (*crd.Definition, *storedText) {
	t.Helper()
	text, err := codec.Encode(c, api.APIVersion)
	if err != nil {
		t.Fatal(err)
	}
	head, _, err := codec.DecodeHead(text)
	if err != nil {
		t.Fatal(err)
	}
	s := &storedText{text: text}
	return crd.Lazy(head, s.load, crd.Options{Semantics: sem}), s
}

func TestLazy(t *testing.T) {
	c := served(t, named(t, "things", "Thing"), nil).CRD()
	eager := compile(t, c, schema.Kubernetes)
	d, text := lazy(t, c, schema.Kubernetes)
	v := d.Version("v1")
	if d.Name() != eager.Name() || !reflect.DeepEqual(d.Names(), eager.Names()) || !d.Established() || d.Storage() != v || v.HasStatus() != eager.Storage().HasStatus() {
		t.Errorf("%+v", d.CRD())
	}
	if text.loads != 0 {
		t.Error("read without a need")
	}
	p, err := v.Program()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.StatusProgram(); err != nil {
		t.Fatal(err)
	}
	if again, _ := v.Program(); again != p || text.loads == 0 {
		t.Error("compiled twice, or without reading the schema")
	}
	if !reflect.DeepEqual(v.Structural(), eager.Storage().Structural()) || v.Structural() == nil {
		t.Errorf("structural: got %+v", v.Structural())
	}

	before := text.loads
	for range 3 {
		runtime.GC()
	}
	if props, err := v.Schema(); err != nil || !reflect.DeepEqual(props, c.Spec.Versions[0].Schema.OpenAPIV3Schema) {
		t.Errorf("schema: got %+v, %v", props, err)
	}
	if text.loads != before+1 {
		t.Errorf("read %d times, want %d: schemas that are not used are kept", text.loads, before+1)
	}

	t.Run("release", func(t *testing.T) {
		d.Release()
		again, err := v.Program()
		if err != nil || again == p {
			t.Errorf("the program is kept: %v", err)
		}
		for _, p := range []*schema.Program{p, again} {
			if obj, _, err := p.Decode([]byte(`{"unknown":1}`), schema.DecodeOptions{}); err != nil || len(obj) != 0 {
				t.Errorf("got %v, %v", obj, err)
			}
		}
		d := crd.Lazy(d.CRD(), text.load, crd.Options{})
		kept, err := d.Version("v1").Program()
		d.Keep()
		d.Renew(d.CRD().DeepCopy()).Release()
		if got, _ := d.Version("v1").Program(); got != kept || err != nil {
			t.Errorf("the program is not kept: %v", err)
		}
	})
	t.Run("renew", func(t *testing.T) {
		next := d.CRD().DeepCopy()
		next.ResourceVersion, next.Status.Conditions = "7", nil
		same := d.Renew(next)
		mine, _ := v.Program()
		if got, _ := same.Version("v1").Program(); got != mine || same.Established() || same.Version("v1").Definition() != same || !same.Equivalent(d) {
			t.Error("another status changes more than the status")
		}
		next = next.DeepCopy()
		next.Status.AcceptedNames.Kind = "Other"
		other := d.Renew(next)
		if got, _ := other.Version("v1").Program(); got == mine || other.Equivalent(d) {
			t.Error("another kind has the same programs")
		}
		stranger, _ := lazy(t, c, schema.Kubernetes)
		if stranger.Equivalent(d) {
			t.Error("definitions whose schemas cannot be compared are equivalent")
		}
		if stranger.Equivalent(eager) || eager.Equivalent(stranger) {
			t.Error("schemas that are not read are equivalent to others")
		}
		for name, edit := range map[string]func(*api.CustomResourceDefinition){
			"uid": func(c *api.CustomResourceDefinition) { c.UID = "other" }, "names": func(c *api.CustomResourceDefinition) { c.Status.AcceptedNames.ShortNames = []string{"x"} },
			"spec": func(c *api.CustomResourceDefinition) { c.Spec.Scope = api.ClusterScoped },
		} {
			changed := c.DeepCopy()
			if edit(changed); compile(t, changed, schema.Kubernetes).Equivalent(eager) {
				t.Errorf("another %s is equivalent", name)
			}
		}
		if !eager.Equivalent(eager) || !compile(t, c, schema.Kubernetes).Equivalent(eager) {
			t.Error("definitions of the same CRD are not equivalent")
		}
	})
}

// TestLazyStatus checks that the status of a CRD that has not changed needs no schemas.
func TestLazyStatus(t *testing.T) {
	c := served(t, named(t, "things", "Thing"), nil).CRD().DeepCopy()
	c.Generation, c.Status.ObservedGeneration = 2, 2
	c.Spec.Versions[0].Schema.OpenAPIV3Schema.Type = nil // not structural
	c.Status = crd.Status(c.Status, compile(t, c, schema.Kubernetes), nil, metav1.Now())
	condition(t, c.Status, api.NonStructuralSchema)
	d, text := lazy(t, c, schema.Kubernetes)
	if got := crd.Status(d.CRD().Status, d, nil, metav1.Now()); !reflect.DeepEqual(got, d.CRD().Status) || text.loads > 0 {
		t.Errorf("read %d times, got %+v", text.loads, got)
	}
	// A resource that is not served, or a CRD without a generation, may have a status of another.
	for name, edit := range map[string]func(*api.CustomResourceDefinition){
		"not served":    func(c *api.CustomResourceDefinition) { c.Status.Conditions = nil },
		"no generation": func(c *api.CustomResourceDefinition) { c.Generation, c.Status.ObservedGeneration = 0, 0 },
	} {
		other := c.DeepCopy()
		edit(other)
		d, text := lazy(t, other, schema.Kubernetes)
		if got := crd.Status(d.CRD().Status, d, nil, metav1.Now()); crd.Condition(&got, api.NonStructuralSchema) == nil || text.loads != 1 {
			t.Errorf("%s: read %d times, got %+v", name, text.loads, got)
		}
	}
	first := c.DeepCopy()
	first.Generation, first.Status.ObservedGeneration = 1, 1
	if d, text := lazy(t, first, schema.Kubernetes); len(crd.Status(d.CRD().Status, d, nil, metav1.Now()).Conditions) == 0 || text.loads > 0 {
		t.Errorf("the first generation: read %d times", text.loads)
	}
	c.Generation++
	d, text = lazy(t, c, schema.Kubernetes)
	if got := crd.Status(d.CRD().Status, d, nil, metav1.Now()); condition(t, got, api.NonStructuralSchema).ObservedGeneration != 3 || text.loads != 1 {
		t.Errorf("read %d times, got %+v", text.loads, got)
	}
}

// TestLazyFailure checks that schemas that cannot be read are no empty schemas.
func TestLazyFailure(t *testing.T) {
	why := errors.New("cannot be read")
	d := crd.Lazy(named(t, "things", "Thing"), func() (*api.CustomResourceDefinition, error) { return nil, why }, crd.Options{})
	v := d.Storage()
	_, program := v.Program()
	_, status := v.StatusProgram()
	_, read := v.Schema()
	_, valid := v.Validate(t.Context(), schema.Object{}, nil)
	_, validStatus := v.ValidateStatus(t.Context(), schema.Object{}, nil)
	_, skeleton := v.Skeleton()
	for _, err := range []error{d.Load(), program, status, read, valid, validStatus, skeleton} {
		if !errors.Is(err, why) {
			t.Errorf("got %v", err)
		}
	}
	if v.Structural() != nil {
		t.Errorf("got %v", v.Structural())
	}
	if _, err := d.With(crd.Options{}); !errors.Is(err, why) {
		t.Errorf("With: got %v", err)
	}
	// A schema that no Structural can represent, which validation rejects.
	odd := named(t, "things", "Thing")
	odd.Spec.Versions[0].Schema.OpenAPIV3Schema = props(t, `{type: object, id: x}`)
	bad := crd.Lazy(named(t, "things", "Thing"), func() (*api.CustomResourceDefinition, error) { return odd, nil }, crd.Options{})
	for range 2 {
		if err := bad.Load(); err == nil || !strings.Contains(err.Error(), "spec.versions[0].schema.openAPIV3Schema: ") {
			t.Errorf("got %v", err)
		}
	}
	if _, err := crd.New(odd, crd.Options{}); err == nil || !strings.Contains(err.Error(), "spec.versions[0].schema.openAPIV3Schema: ") {
		t.Errorf("New: got %v", err)
	}
	fewer := crd.Lazy(named(t, "things", "Thing"), func() (*api.CustomResourceDefinition, error) { return &api.CustomResourceDefinition{}, nil }, crd.Options{})
	if _, err := fewer.Storage().Program(); err == nil || !strings.Contains(err.Error(), "version v1 is missing") {
		t.Errorf("a version that is missing: got %v", err)
	}
}

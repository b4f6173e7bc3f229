package crd_test

import (
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// named returns a definition with other names.
func named(t testing.TB, plural, kind string, short ...string) *api.CustomResourceDefinition {
	return definition(t, plain, func(c *api.CustomResourceDefinition) {
		c.Name = plural + ".example.com"
		c.Spec.Names = api.CustomResourceDefinitionNames{Plural: plural, Kind: kind, ShortNames: short}
		c.Generation = 3
	})
}

// served gives a definition the status that it comes to.
func served(t testing.TB, c *api.CustomResourceDefinition, peers *crd.Catalog) *crd.Definition {
	t.Helper()
	c.Status = crd.Status(c.Status, compile(t, c, schema.KEP), peers, metav1.Unix(100, 0))
	return compile(t, c, schema.KEP)
}

func TestStatus(t *testing.T) {
	later := metav1.NewTime(time.Unix(200, 0))
	first := served(t, named(t, "things", "Thing", "th"), nil)
	status := first.CRD().Status
	if c := condition(t, status, api.NamesAccepted); c.Status != api.ConditionTrue || c.Reason != api.ReasonNoConflicts || c.Message != "no conflicts found" || c.ObservedGeneration != 3 {
		t.Errorf("%+v", c)
	}
	if c := condition(t, status, api.Established); c.Status != api.ConditionTrue || c.Reason != api.ReasonInitialNamesAccepted {
		t.Errorf("%+v", c)
	}
	if !reflect.DeepEqual(status.StoredVersions, []string{"v1"}) || status.ObservedGeneration != 3 || status.AcceptedNames.ListKind != "ThingList" {
		t.Errorf("%+v", status)
	}
	t.Run("stays", func(t *testing.T) {
		if again := crd.Status(status, first, crd.NewCatalog(first), later); !reflect.DeepEqual(again, status) {
			t.Errorf("%+v\nwas %+v", again, status)
		}
	})
	t.Run("conflicts", func(t *testing.T) {
		second := served(t, named(t, "others", "Thing", "th"), crd.NewCatalog(first))
		s := second.CRD().Status
		if c := condition(t, s, api.NamesAccepted); c.Status != api.ConditionFalse || c.Reason != api.ReasonListKindConflict || c.Message != `"ThingList" is already in use` {
			t.Errorf("%+v", c)
		}
		if c := condition(t, s, api.Established); c.Status != api.ConditionFalse || c.Reason != api.ReasonNotAccepted {
			t.Errorf("%+v", c)
		}
		if s.AcceptedNames.Plural != "others" || s.AcceptedNames.Kind != "" || len(s.AcceptedNames.ShortNames) > 0 {
			t.Errorf("%+v", s.AcceptedNames)
		}
		// When the first one is gone, the names are free.
		freed := crd.Status(s, second, crd.NewCatalog(second), later)
		if c := condition(t, freed, api.Established); c.Status != api.ConditionTrue || !c.LastTransitionTime.Equal(&later) {
			t.Errorf("%+v", c)
		}
	})
	t.Run("established stays", func(t *testing.T) {
		other := served(t, named(t, "others", "Other"), nil)
		c := first.CRD().DeepCopy()
		c.Spec.Names.Kind, c.Spec.Names.ListKind = "Other", "OtherList"
		s := crd.Status(c.Status, compile(t, c, schema.KEP), crd.NewCatalog(other), later)
		if condition(t, s, api.NamesAccepted).Status != api.ConditionFalse || condition(t, s, api.Established).Status != api.ConditionTrue || s.AcceptedNames.Kind != "Thing" {
			t.Errorf("%+v", s)
		}
	})
	t.Run("certificates", func(t *testing.T) {
		url := "https://example.com"
		c := named(t, "things", "Thing")
		c.Spec.Conversion = &api.CustomResourceConversion{Strategy: api.WebhookConverter, Webhook: &api.WebhookConversion{
			ClientConfig: &api.WebhookClientConfig{URL: &url, CABundle: []byte("none")}, ConversionReviewVersions: []string{"v1"},
		}}
		if got := condition(t, served(t, c, nil).CRD().Status, api.Established); got.Status != api.ConditionFalse || got.Reason != api.ReasonInvalidCABundle {
			t.Errorf("%+v", got)
		}
	})
	t.Run("deletion", func(t *testing.T) {
		c := first.CRD().DeepCopy()
		c.DeletionTimestamp = &later
		s := crd.Status(c.Status, compile(t, c, schema.KEP), nil, later)
		if got := condition(t, s, api.Terminating); got.Status != api.ConditionTrue || got.Reason != api.ReasonInstanceDeletionPending {
			t.Errorf("%+v", got)
		}
		for i := range s.Conditions {
			if s.Conditions[i].Type == api.Terminating {
				s.Conditions[i].Reason = api.ReasonInstanceDeletionInProgress
			}
		}
		if got := condition(t, crd.Status(s, compile(t, c, schema.KEP), nil, later), api.Terminating); got.Reason != api.ReasonInstanceDeletionInProgress {
			t.Errorf("progress is lost: %+v", got)
		}
	})
	t.Run("approval", func(t *testing.T) {
		for annotation, want := range map[string]string{
			"": api.ReasonMissingAnnotation, "unapproved": api.ReasonUnapprovedAnnotation,
			"https://github.com/x/y": api.ReasonApprovedAnnotation, "what": api.ReasonInvalidAnnotation,
		} {
			c := named(t, "things", "Thing")
			c.Spec.Group = "x.k8s.io"
			c.Annotations = map[string]string{api.KubeAPIApprovedAnnotation: annotation}
			got := condition(t, served(t, c, nil).CRD().Status, api.KubernetesAPIApprovalPolicyConformant)
			if got.Reason != want || (got.Status == api.ConditionTrue) != (want == api.ReasonApprovedAnnotation) {
				t.Errorf("%q: %+v", annotation, got)
			}
		}
	})
}

func TestCatalog(t *testing.T) {
	things := served(t, named(t, "things", "Thing"), nil)
	hidden := compile(t, named(t, "hidden", "Hidden"), schema.KEP) // never established
	c := crd.NewCatalog(things, hidden)
	gvr := func(resource, version string) runtimeschema.GroupVersionResource {
		return runtimeschema.GroupVersionResource{Group: "example.com", Version: version, Resource: resource}
	}
	gvk := func(kind string) runtimeschema.GroupVersionKind {
		return runtimeschema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: kind}
	}
	if v := c.Resource(gvr("things", "v1")); v == nil || v.Definition() != things || v.GroupVersionKind() != gvk("Thing") {
		t.Errorf("%v", v)
	}
	if c.Resource(gvr("things", "v2")) != nil || c.Resource(gvr("hidden", "v1")) != nil || c.Kind(gvk("Hidden")) != nil || c.Kind(gvk("Thing")) == nil {
		t.Error("lookups find what is not served, or not what is")
	}
	if got := c.All(); len(got) != 2 || got[0] != hidden || got[1] != things || len(c.Group("example.com")) != 2 || len(c.Groups()) != 1 {
		t.Errorf("%v", got)
	}
	fewer := c.Without(things.Name())
	if fewer.Len() != 1 || fewer.Get(things.Name()) != nil || fewer.Kind(gvk("Thing")) != nil {
		t.Error("it is still there")
	}
	if c.Len() != 2 || c.Kind(gvk("Thing")) == nil {
		t.Error("the old catalog has changed")
	}
	if more := fewer.With(things); more.Len() != 2 || more.Resource(gvr("things", "v1")) == nil {
		t.Error("it is not there again")
	}
	if again := c.With(things); again.Len() != 2 || len(again.Group("example.com")) != 2 {
		t.Error("it is there twice")
	}
	if empty := fewer.Without(hidden.Name()); empty.Len() != 0 || len(empty.Groups()) != 0 {
		t.Error("something is left")
	}
	if got := c.Waiting("example.com"); len(got) != 1 || got[0] != hidden || len(c.Waiting("other.example.com")) != 0 {
		t.Errorf("waiting for names: %v", got)
	}
	other := compile(t, definition(t, plain, func(c *api.CustomResourceDefinition) {
		c.Name, c.Spec.Group = "things.other.example.com", "other.example.com"
	}), schema.KEP)
	if wider := c.With(other); !wider.SameGroup(c, "example.com") || wider.SameGroup(c, "other.example.com") || wider.SameGroup(wider.Without(things.Name()), "example.com") {
		t.Error("the groups that changed are others")
	}
	var none *crd.Catalog
	if none.Len() != 0 || none.Resource(gvr("things", "v1")) != nil || none.With(things).Len() != 1 {
		t.Error("no catalog is not an empty one")
	}
}

func TestDefinition(t *testing.T) {
	text := "use v2"
	c := definition(t, plain, func(c *api.CustomResourceDefinition) {
		c.Spec.Versions = append(c.Spec.Versions, api.CustomResourceDefinitionVersion{Name: "v2", Deprecated: true, DeprecationWarning: &text})
		c.Spec.Versions[0].Deprecated = true
	})
	d := compile(t, c, schema.Kubernetes)
	c.Spec.Group = "changed.example.com"
	if d.Group() != "example.com" || d.Storage().Name() != "v1" || !d.Namespaced() || d.Semantics() != schema.Kubernetes || d.Version("v3") != nil || d.Established() {
		t.Errorf("%+v", d.CRD())
	}
	if got := d.Version("v1").DeprecationWarning(); got != "example.com/v1 Thing is deprecated" {
		t.Error(got)
	}
	if got := d.Version("v2").DeprecationWarning(); got != text {
		t.Error(got)
	}
	p, _ := d.Version("v1").Program()
	if again, _ := d.Version("v1").Program(); p == nil || again != p {
		t.Error("compiled twice")
	}
	// A schema with rules says what is missing.
	ruled := compile(t, definition(t, `{type: object, x-kubernetes-validations: [{rule: "true"}]}`), schema.KEP)
	if _, err := ruled.Versions()[0].Program(); err == nil {
		t.Error("rules are skipped without a word")
	}
}

func TestPrepare(t *testing.T) {
	old := served(t, named(t, "things", "Thing"), nil).CRD()
	c := old.DeepCopy()
	c.Status = api.CustomResourceDefinitionStatus{StoredVersions: []string{"forged"}}
	crd.PrepareUpdate(c, old)
	if c.Generation != old.Generation || !reflect.DeepEqual(c.Status, old.Status) {
		t.Errorf("%+v", c)
	}
	c.Spec.Versions[0].Name = "v2"
	crd.PrepareUpdate(c, old)
	if c.Generation != old.Generation+1 || !reflect.DeepEqual(c.Status.StoredVersions, []string{"v1", "v2"}) || len(old.Status.StoredVersions) != 1 {
		t.Errorf("%+v", c)
	}
	crd.PrepareCreate(c)
	if c.Generation != 1 || len(c.Status.Conditions) != 0 || !reflect.DeepEqual(c.Status.StoredVersions, []string{"v2"}) {
		t.Errorf("%+v", c)
	}
}

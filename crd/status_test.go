package crd_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
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

// TestAcceptedNames checks which names a CRD gets if it changes them, with the names of others in
// the way.
func TestAcceptedNames(t *testing.T) {
	names := func(plural, singular, kind, list string, short ...string) api.CustomResourceDefinitionNames {
		return api.CustomResourceDefinitionNames{Plural: plural, Singular: singular, Kind: kind, ListKind: list, ShortNames: short}
	}
	accepted := func(name string, names api.CustomResourceDefinitionNames) *crd.Definition {
		return compile(t, definition(t, plain, func(c *api.CustomResourceDefinition) {
			c.Name, c.Spec.Names, c.Status.AcceptedNames = name+".example.com", names, names
		}), schema.KEP)
	}
	other := accepted("others", names("others", "other", "Other", "OtherList", "o", "ot"))
	mine := names("things", "thing", "Thing", "ThingList", "t", "th")
	for name, tt := range map[string]struct {
		wanted, want api.CustomResourceDefinitionNames
		reason, text string
	}{
		"the same":                   {mine, mine, api.ReasonNoConflicts, "no conflicts found"},
		"new ones":                   {names("a", "b", "C", "D", "e"), names("a", "b", "C", "D", "e"), api.ReasonNoConflicts, "no conflicts found"},
		"a plural of another":        {names("others", "thing", "Thing", "ThingList", "t", "th"), mine, api.ReasonPluralConflict, `"others" is already in use`},
		"a singular of another":      {names("things", "other", "Thing", "ThingList", "t", "th"), mine, api.ReasonSingularConflict, `"other" is already in use`},
		"a short name as plural":     {names("o", "thing", "Thing", "ThingList", "t", "th"), mine, api.ReasonPluralConflict, `"o" is already in use`},
		"a kind of another":          {names("things", "thing", "Other", "ThingList", "t", "th"), mine, api.ReasonKindConflict, `"Other" is already in use`},
		"a list kind of another":     {names("things", "thing", "Thing", "OtherList", "t", "th"), mine, api.ReasonListKindConflict, `"OtherList" is already in use`},
		"a kind as list kind":        {names("things", "thing", "Thing", "Other", "t", "th"), mine, api.ReasonListKindConflict, `"Other" is already in use`},
		"a short name of another":    {names("things", "thing", "Thing", "ThingList", "t", "ot"), mine, api.ReasonShortNamesConflict, `"ot" is already in use`},
		"two short names of another": {names("things", "thing", "Thing", "ThingList", "o", "ot"), mine, api.ReasonShortNamesConflict, `["o" is already in use, "ot" is already in use]`},
		"fewer short names":          {names("things", "thing", "Thing", "ThingList", "th"), names("things", "thing", "Thing", "ThingList", "th"), api.ReasonNoConflicts, "no conflicts found"},
		"more short names":           {names("things", "thing", "Thing", "ThingList", "th", "t", "x"), names("things", "thing", "Thing", "ThingList", "th", "t", "x"), api.ReasonNoConflicts, "no conflicts found"},
		"a kind is no resource":      {names("Other", "thing", "Thing", "ThingList"), names("Other", "thing", "Thing", "ThingList"), api.ReasonNoConflicts, "no conflicts found"},
		// Names of its own in another place are taken until they are free.
		"its singular as plural":        {names("thing", "new", "Thing", "ThingList", "t", "th"), names("things", "new", "Thing", "ThingList", "t", "th"), api.ReasonPluralConflict, `"thing" is already in use`},
		"its short name as plural":      {names("t", "thing", "Thing", "ThingList"), names("things", "thing", "Thing", "ThingList"), api.ReasonPluralConflict, `"t" is already in use`},
		"its plural as singular":        {names("things", "things", "Thing", "ThingList", "t", "th"), mine, api.ReasonSingularConflict, `"things" is already in use`},
		"its plural as short name":      {names("things", "thing", "Thing", "ThingList", "things"), mine, api.ReasonShortNamesConflict, `"things" is already in use`},
		"its kind as list kind":         {names("things", "thing", "New", "Thing", "t", "th"), names("things", "thing", "New", "ThingList", "t", "th"), api.ReasonListKindConflict, `"Thing" is already in use`},
		"its list kind as kind":         {names("things", "thing", "ThingList", "New", "t", "th"), names("things", "thing", "Thing", "New", "t", "th"), api.ReasonKindConflict, `"ThingList" is already in use`},
		"its kind as plural":            {names("Thing", "thing", "Thing", "ThingList", "t", "th"), names("Thing", "thing", "Thing", "ThingList", "t", "th"), api.ReasonNoConflicts, "no conflicts found"},
		"the last conflict is reported": {names("others", "other", "Other", "OtherList", "o"), mine, api.ReasonListKindConflict, `"OtherList" is already in use`},
	} {
		t.Run(name, func(t *testing.T) {
			own := accepted("things", mine)
			c := own.CRD().DeepCopy()
			c.Spec.Names = tt.wanted
			c.Spec.Names.Categories = []string{"all"}
			status := crd.Status(c.Status, compile(t, c, schema.KEP), crd.NewCatalog(other, own), metav1.Unix(100, 0))
			tt.want.Categories = []string{"all"}
			if !reflect.DeepEqual(status.AcceptedNames, tt.want) {
				t.Errorf("got %+v, want %+v", status.AcceptedNames, tt.want)
			}
			if got := condition(t, status, api.NamesAccepted); got.Reason != tt.reason || got.Message != tt.text {
				t.Errorf("got %s: %s, want %s: %s", got.Reason, got.Message, tt.reason, tt.text)
			}
		})
	}
	// The accepted names are used, if all that is needed is accepted.
	for _, tt := range []struct{ plural, kind, want string }{{"a", "B", "a"}, {"", "B", "things"}, {"a", "", "things"}, {"", "", "things"}} {
		d := compile(t, definition(t, plain, func(c *api.CustomResourceDefinition) {
			c.Status.AcceptedNames = names(tt.plural, "", tt.kind, "")
		}), schema.KEP)
		if got := d.Names().Plural; got != tt.want {
			t.Errorf("%q, %q: got %s, want %s", tt.plural, tt.kind, got, tt.want)
		}
		if got := d.GroupResource().String(); got != "things.example.com" {
			t.Errorf("got %s", got)
		}
	}
}

// TestConditions checks how conditions change.
func TestConditions(t *testing.T) {
	later := metav1.NewTime(time.Unix(200, 0))
	d := served(t, named(t, "things", "Thing"), nil)
	if got := crd.Status(d.CRD().Status, d, nil, later); crd.Condition(&got, api.Terminating) != nil || crd.Condition(&got, api.KubernetesAPIApprovalPolicyConformant) != nil {
		t.Errorf("got %+v", got.Conditions)
	}
	// A condition without a time gets one, and one whose status is the same keeps its time.
	old := d.CRD().Status
	old.Conditions = slices.Clone(old.Conditions)
	for i := range old.Conditions {
		if old.Conditions[i].Type == api.NamesAccepted {
			old.Conditions[i].LastTransitionTime = metav1.Time{}
		}
	}
	if got := condition(t, crd.Status(old, d, nil, later), api.NamesAccepted); !got.LastTransitionTime.Equal(&later) {
		t.Errorf("got %v", got.LastTransitionTime)
	}
	c := api.CustomResourceDefinitionCondition{Type: "Mine", Status: api.ConditionTrue, Reason: "Why", Message: "text"}
	with := crd.WithCondition(d.CRD().Status, c, 7, later)
	if got := condition(t, with, "Mine"); got.Reason != "Why" || got.ObservedGeneration != 7 || !got.LastTransitionTime.Equal(&later) || len(with.Conditions) != len(d.CRD().Status.Conditions)+1 {
		t.Errorf("got %+v", with.Conditions)
	}
	if crd.Condition(&d.CRD().Status, "Mine") != nil {
		t.Error("the old status has changed")
	}
	// A CRD whose names are not accepted keeps its condition.
	waiting := named(t, "others", "Thing")
	waiting.Status.Conditions = []api.CustomResourceDefinitionCondition{{Type: api.Established, Status: api.ConditionFalse, Reason: "Other", Message: "before"}}
	if got := condition(t, served(t, waiting, crd.NewCatalog(d)).CRD().Status, api.Established); got.Reason != "Other" || got.Message != "before" {
		t.Errorf("got %+v", got)
	}
	// An established one keeps its reason.
	established := named(t, "things", "Thing")
	established.Status.Conditions = []api.CustomResourceDefinitionCondition{{Type: api.Established, Status: api.ConditionTrue, Reason: "Other", Message: "before"}}
	if got := condition(t, served(t, established, nil).CRD().Status, api.Established); got.Reason != "Other" || got.Message != "before" {
		t.Errorf("got %+v", got)
	}
	// The stored versions get the storage version, once.
	moved := d.CRD().DeepCopy()
	moved.Spec.Versions[0].Name = "v2"
	if got := crd.Status(moved.Status, compile(t, moved, schema.KEP), nil, later); !slices.Equal(got.StoredVersions, []string{"v1", "v2"}) {
		t.Errorf("got %q", got.StoredVersions)
	}
	none := d.CRD().DeepCopy()
	none.Spec.Versions[0].Storage, none.Status.StoredVersions = false, nil
	if got := crd.Status(none.Status, compile(t, none, schema.KEP), nil, later); len(got.StoredVersions) > 0 {
		t.Errorf("got %q", got.StoredVersions)
	}
	fresh := compile(t, named(t, "things", "Thing"), schema.KEP)
	if fresh.Terminating() {
		t.Error("a CRD is terminating")
	}
	for name, edit := range map[string]func(*api.CustomResourceDefinition){
		"timestamp": func(c *api.CustomResourceDefinition) { c.DeletionTimestamp = &later },
		"condition": func(c *api.CustomResourceDefinition) {
			c.Status.Conditions = []api.CustomResourceDefinitionCondition{{Type: api.Terminating, Status: api.ConditionTrue}}
		},
	} {
		c := named(t, "things", "Thing")
		if edit(c); !compile(t, c, schema.KEP).Terminating() {
			t.Errorf("%s: the CRD is not terminating", name)
		}
	}
	webhook := named(t, "things", "Thing")
	webhook.Spec.Conversion = &api.CustomResourceConversion{Strategy: api.WebhookConverter, Webhook: &api.WebhookConversion{}}
	if got := condition(t, served(t, webhook, nil).CRD().Status, api.Established); got.Status != api.ConditionTrue {
		t.Errorf("a webhook without a client: got %+v", got)
	}
	webhook.Spec.Conversion = nil
	if got := condition(t, served(t, webhook, nil).CRD().Status, api.Established); got.Status != api.ConditionTrue {
		t.Errorf("no conversion: got %+v", got)
	}
}

// TestNonStructuralCondition checks the reasons why the schemas of a CRD are not structural.
func TestNonStructuralCondition(t *testing.T) {
	const untyped = `{properties: {a: {}}}`
	versions := func(schemas ...string) *api.CustomResourceDefinition {
		return definition(t, schemas[0], preservingV1, func(c *api.CustomResourceDefinition) {
			for i, text := range schemas[1:] {
				c.Spec.Versions = append(c.Spec.Versions, api.CustomResourceDefinitionVersion{Name: fmt.Sprint("v", i+2), Schema: &api.CustomResourceValidation{OpenAPIV3Schema: props(t, text)}})
			}
		})
	}
	const preserve = "spec.preserveUnknownFields: Invalid value: true: must be false"
	for name, tt := range map[string]struct {
		crd             *api.CustomResourceDefinition
		kep, kubernetes string
	}{
		"structural": {versions(plain), "", preserve},
		"untyped": {versions(plain, untyped), "[spec.versions[1].schema.openAPIV3Schema.properties[a].type: Required value: .properties[a].type must be non-empty, spec.versions[1].schema.openAPIV3Schema.type: Required value: .type must be non-empty]",
			"[spec.preserveUnknownFields: Invalid value: true: must be false, spec.versions[1].schema.openAPIV3Schema.properties[a].type: Required value: must not be empty for specified object fields, spec.versions[1].schema.openAPIV3Schema.type: Required value: must not be empty at the root]"},
		"a jsonSchema": {stored(t, jsonSchemaCRD(t, `{properties: {a: {type: string}}}`, preserving(true), func(c *v1beta1.CustomResourceDefinition) {
			c.Spec.Versions = []v1beta1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true}, {Name: "v2", Served: true}}
		})), "spec.validation.jsonSchema: Invalid value: \"\": is not structural: use openAPIV3Schema", preserve},
		"$schema": {versions(`{type: object, $schema: x, properties: {a: {type: string, allOf: [{$schema: x}], not: {$schema: x, enum: [b]}}, l: {type: array, items: {type: string, $schema: x}}, m: {type: object, additionalProperties: {type: string, $schema: x}}}}`),
			"spec.versions[0].schema.openAPIV3Schema: Invalid value: \"\": .$schema is not supported in a structural schema; .properties[a].allOf[0].$schema is not supported in a structural schema; .properties[a].not.$schema is not supported in a structural schema; .properties[l].items.$schema is not supported in a structural schema; .properties[m].additionalProperties.$schema is not supported in a structural schema", "failed to check validation schema for version v1: OpenAPIV3Schema 'schema' is not supported"},
	} {
		for sem, want := range map[schema.Semantics]string{schema.KEP: tt.kep, schema.Kubernetes: tt.kubernetes} {
			status := crd.Status(api.CustomResourceDefinitionStatus{}, compile(t, tt.crd, sem), nil, metav1.Now())
			got := crd.Condition(&status, api.NonStructuralSchema)
			if want == "" && got != nil || want != "" && (got == nil || got.Message != want) {
				t.Errorf("%v: %s: got %+v, want %s", sem, name, got, want)
			}
		}
	}
	why := errors.New("cannot be read")
	lazy := crd.Lazy(named(t, "things", "Thing"), func() (*api.CustomResourceDefinition, error) { return nil, why }, crd.Options{})
	status := crd.Status(api.CustomResourceDefinitionStatus{}, lazy, nil, metav1.Now())
	if got := condition(t, status, api.NonStructuralSchema); got.Message != `spec.versions[0].schema.openAPIV3Schema: Invalid value: "": cannot be read` {
		t.Errorf("got %+v", got)
	}
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
	second := compile(t, named(t, "seconds", "Second"), schema.KEP)
	if got := c.With(second).Waiting("example.com"); !slices.Contains(got, hidden) || !slices.Contains(got, second) || len(got) != 2 {
		t.Errorf("two are waiting for names: %v", got)
	}
	other := compile(t, definition(t, plain, func(c *api.CustomResourceDefinition) {
		c.Name, c.Spec.Group = "things.other.example.com", "other.example.com"
	}), schema.KEP)
	if wider := c.With(other); !wider.SameGroup(c, "example.com") || wider.SameGroup(c, "other.example.com") || wider.SameGroup(wider.Without(things.Name()), "example.com") {
		t.Error("the groups that changed are others")
	}
	// A CRD of another group and the same name replaces the first one.
	elsewhere := compile(t, definition(t, plain, func(c *api.CustomResourceDefinition) { c.Spec.Group = "moved.example.com" }), schema.KEP)
	if moved := c.With(elsewhere); moved.Len() != 2 || len(moved.Group("example.com")) != 1 || len(moved.Group("moved.example.com")) != 1 || moved.Kind(gvk("Thing")) != nil {
		t.Errorf("got groups %q", moved.Groups())
	}
	var none *crd.Catalog
	if none.Len() != 0 || none.Resource(gvr("things", "v1")) != nil || none.With(things).Len() != 1 || none.All() != nil || none.Groups() != nil {
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

package lookup_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/analysis"
	"espalier.dev/analysis/lookup"
	"espalier.dev/kinds/releases"
)

// located is an object in a file.
type located struct {
	object
	path string
}

func (l located) Path() string { return l.path }

// TestChoice finds the CRD of an object among several of an extension, by their places and versions.
func TestChoice(t *testing.T) {
	for _, c := range []struct {
		object string
		crds   string // places, with the versions that they serve
		want   string
	}{
		{"a/object.yaml", "crd.yaml=v1 a/crd.yaml=v1", "a/crd.yaml"},
		{"a/object.yaml", "a/crd.yaml=v1 crd.yaml=v1", "a/crd.yaml"},
		{"a/b/object.yaml", "a/crd.yaml=v1 a/b/c/crd.yaml=v1", "a/b/c/crd.yaml"},
		{"a/b/object.yaml", "a/c/crd.yaml=v1,v9 c/b/crd.yaml=v1", "a/c/crd.yaml"},
		{"object.yaml", "a/crd.yaml=v1 b/crd.yaml=v1", "a/crd.yaml"},
		{"object.yaml", "a/crd.yaml=v1,v1beta1 b/crd.yaml=v2,v1 c/crd.yaml=v1,v2", "b/crd.yaml"},
		{"object.yaml", "a/crd.yaml=v1 b/crd.yaml=v1,v2beta1 c/crd.yaml=v1,v2", "c/crd.yaml"},
		{"a/object.yaml", "a/examples/crd.yaml=v1,v2 b/crd.yaml=v1", "b/crd.yaml"},
		{"a/object.yaml", "b/crd.yaml=v1 a/examples/crd.yaml=v1,v2", "b/crd.yaml"},
		{"a/object.yaml", "test/crd.yaml=v1 b/crd.yaml=v1", "b/crd.yaml"},
		{"a/examples/object.yaml", "a/examples/crd.yaml=v1 b/crd.yaml=v1,v2", "a/examples/crd.yaml"},
		{"object.yaml", "docs/crd.yaml=v1 test/crd.yaml=v1,v2", "test/crd.yaml"},
		{"test/object.yaml", "docs/crd.yaml=v1,v2 test/crd.yaml=v1", "test/crd.yaml"},
		{"./a/object.yaml", `crd.yaml=v1 a\crd.yaml=v1`, `a\crd.yaml`},
		{"git:main:a/object.yaml", "git:a/b:crd.yaml=v1 git:other:a/crd.yaml=v1", "git:other:a/crd.yaml"},
		{"", "a/crd.yaml=v1 crd.yaml=v1,v2", "crd.yaml"},
		{"a/object.yaml", "a/crd.yaml broken.yaml", "a/crd.yaml"},
		{"object.yaml", "broken.yaml crd.yaml=v1", "crd.yaml"},
	} {
		var crds []*definition
		for _, text := range strings.Fields(c.crds) {
			place, versions, ok := strings.Cut(text, "=")
			if !ok {
				crds = append(crds, broken(place, "example.com", "Thing"))
				continue
			}
			crds = append(crds, in(place, define(t, minimal("example.com", "Thing", strings.Split(versions, ",")...))))
		}
		x := newIndex()
		x.Extend(func() ([]*definition, error) { return crds, nil })
		var o lookup.Object = located{object{"example.com/v1", "Thing"}, c.object}
		if c.object == "" {
			o = object{"example.com/v1", "Thing"}
		}
		d, err := x.Find(o)
		if err != nil || d.file != c.want {
			t.Errorf("%s with %s: got %v, %v, want %s", c.object, c.crds, d, err, c.want)
		}
		first := newIndex(crds...) // without an extension, the first CRD is used
		if d, err := first.Find(o); err != nil || d != crds[0] || !slices.Equal(first.All(), crds) || !slices.Equal(first.Of(crds[0].kind), crds) {
			t.Errorf("%s with %s: got %v, %v without an extension", c.object, c.crds, d, err)
		}
	}
}

// TestExtension checks when the CRDs of an extension are read and used.
func TestExtension(t *testing.T) {
	failed := errors.New("cannot read")
	x := newIndex(in("given.yaml", define(t, things)))
	x.Extend(func() ([]*definition, error) { return nil, failed })
	var missing *lookup.Missing
	if _, err := x.Find(object{"example.com/v9", "Thing"}); !errors.As(err, &missing) {
		t.Errorf("a version of a known kind: %v", err)
	}
	if _, err := x.Find(object{"example.com/v1", ""}); !errors.As(err, &missing) {
		t.Errorf("an object without a kind: %v", err)
	}
	if d, err := x.Find(object{"other.com/v1", "Other"}); err != failed || d != nil {
		t.Errorf("an unknown kind: %v, %v", d, err)
	}
	if got := x.Others(broken("b.yaml", "other.com", "Other")); len(got) != 0 {
		t.Errorf("others are %v", got)
	}

	asked := 0
	first, second := in("a.yaml", define(t, minimal("other.com", "Other", "v1"))), broken("b.yaml", "other.com", "Other")
	given := in("given.yaml", define(t, things))
	x = newIndex(given)
	x.Extend(func() ([]*definition, error) {
		asked++
		return []*definition{first, second, in("more.yaml", define(t, things))}, nil
	})
	if got := x.Others(given); len(got) != 0 || asked != 0 {
		t.Errorf("others are %v, after %d extensions", got, asked)
	}
	if got := x.Others(first); !slices.Equal(got, []*definition{second}) || asked != 1 {
		t.Errorf("others are %v, after %d extensions", got, asked)
	}
	if _, err := x.Find(object{"exmaple.com/v1", "Thing"}); err == nil || err.Error() != `no CRD found for exmaple.com/v1 Thing: did you mean "example.com/v1"?` {
		t.Errorf("the extended index does not have the CRDs of the index: %v", err)
	}
	if got := newIndex(first).Others(second); !slices.Equal(got, []*definition{first}) {
		t.Errorf("others are %v", got)
	}
	if got := newIndex().Others(second); len(got) != 0 {
		t.Errorf("others are %v", got)
	}
}

// TestWasBuiltin checks which objects are of kinds that a release of Kubernetes has.
func TestWasBuiltin(t *testing.T) {
	x := newIndex(in("jobs.yaml", define(t, minimal("batch", "Job", "v1"))))
	for o, want := range map[object]bool{
		{"v1", "Pod"}: true, {"batch/v1beta1", "CronJob"}: true, {"batch/v1", "Job"}: false, {"batch/v1", "Jobb"}: false, {"example.com/v1", "Pod"}: false,
	} {
		if x.WasBuiltin(o) != want {
			t.Errorf("%s: want %t", o, want)
		}
	}
}

// TestDefined reads the group and kind of CRDs, also of parts of CRDs and of what is no CRD.
func TestDefined(t *testing.T) {
	for text, want := range map[string]runtimeschema.GroupKind{
		`{"spec":{"group":"g","names":{"kind":"K"}}}`: {Group: "g", Kind: "K"},
		`{"a":{"group":"x"},"spec":{"x":[1],"group":"g","scope":{},"names":{"plural":["p"],"kind":"K","listKind":"KL"},"y":2},"z":1}`: {Group: "g", Kind: "K"},
		`{"spec":{"names":{"kind":"K"},"group":"\u0067"}}`:                   {Group: "g", Kind: "K"},
		`{"group":"g","names":{"kind":"K"}}`:                                 {},
		`{"spec":{"group":7,"names":{"kind":["K"],"singular":"k"}}}`:         {},
		`{"spec":{"group":{"group":"x"},"names":[{"kind":"x"}],"kind":"x"}}`: {},
		`{"spec":{"group":null,"names":{"kind":"K"}}}`:                       {Kind: "K"},
		`{"spec":["group"]}`: {},
		`["spec"]`:           {},
		`{"spec":{"group":"g","names":{"kind":"K`:               {Group: "g"},
		`{"spec":{"group":"\x","names":{"kind":"K"}}}`:          {},
		`{"spec":{"group":"a"},"spec":{"names":{"kind":"K"}}}`:  {Group: "a", Kind: "K"},
		`{"spec":{"group":"g","names":7},"x":{"names":{"a":1}}`: {Group: "g"},
	} {
		if got := lookup.Defined([]byte(text)); got != want {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
}

// TestAtRelease checks what is said about versions of kinds in releases of Kubernetes.
func TestAtRelease(t *testing.T) {
	for _, c := range []struct {
		release          releases.Release
		apiVersion, kind string
		want             string
	}{
		{20, "example.com/v1", "Thing", "true"},
		{20, "v1", "Pod", "true"},
		{36, "admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy", "true"},
		{20, "admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "false error kubernetes-version apiVersion/apiVersion: Kubernetes 1.20 does not serve admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy, which was added in 1.30"},
		{30, "certificates.k8s.io/v1", "ClusterTrustBundle", "false error kubernetes-version apiVersion/apiVersion: Kubernetes 1.30 does not serve certificates.k8s.io/v1 ClusterTrustBundle, which was added in 1.37: use certificates.k8s.io/v1alpha1, which is not served by default"},
		{37, "batch/v2alpha1", "CronJob", "false error kubernetes-version apiVersion/apiVersion: Kubernetes 1.37 does not serve batch/v2alpha1 CronJob, which was removed in 1.21: use batch/v1"},
		{25, "policy/v1beta1", "PodSecurityPolicy", "false error kubernetes-version apiVersion/apiVersion: Kubernetes 1.25 does not serve policy/v1beta1 PodSecurityPolicy, which was removed in 1.25"},
		{30, "admissionregistration.k8s.io/v1beta1", "ValidatingAdmissionPolicy", "true warning kubernetes-version apiVersion/apiVersion: Kubernetes 1.30 does not serve admissionregistration.k8s.io/v1beta1 ValidatingAdmissionPolicy by default: enable it with --runtime-config=admissionregistration.k8s.io/v1beta1=true, or use admissionregistration.k8s.io/v1"},
		// No other version is served by default, so that none is better.
		{36, "certificates.k8s.io/v1alpha1", "ClusterTrustBundle", "true warning kubernetes-version apiVersion/apiVersion: Kubernetes 1.36 does not serve certificates.k8s.io/v1alpha1 ClusterTrustBundle by default: enable it with --runtime-config=certificates.k8s.io/v1alpha1=true"},
		{37, "v1", "Endpoints", "true warning server-warning apiVersion/apiVersion: v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"},
		{32, "v1", "Endpoints", "true"},
	} {
		findings, served := lookup.AtRelease(c.apiVersion, c.kind, c.release)
		got := fmt.Sprint(served)
		for _, f := range findings {
			got += fmt.Sprintf(" %s %s %s: %s", f.Severity, f.Rule, f.Path+string(f.Pointer), f.Message)
		}
		if got != c.want {
			t.Errorf("%s %s in %s: got %s, want %s", c.apiVersion, c.kind, c.release, got, c.want)
		}
	}
	if rules := lookup.ReleaseRules(); len(rules) != 1 || rules[0].ID != lookup.RuleRelease || rules[0].Severity != analysis.Error {
		t.Errorf("the rules are %v", rules)
	}
}

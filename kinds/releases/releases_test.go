package releases_test

import (
	"os"
	"strings"
	"testing"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/kinds"
	"espalier.dev/kinds/releases"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]releases.Release{
		"1.20": 20, "1.31": 31, "v1.31": 31, "1.31.4": 31, "v1.37.0-rc.1": 37, "1.31.4+k3s1": 31,
	} {
		if got, err := releases.Parse(text); err != nil || got != want {
			t.Errorf("%s: got %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "1", "1.", "1.x", "2.31", "1.19", "1.38", "v", "1.31.", "1.31.x", "1.-1", "1.99999999999999999999", "vv1.31", "01.31"} {
		if got, err := releases.Parse(text); err == nil {
			t.Errorf("%q: got %s, want an error", text, got)
		}
	}
}

// TestOpenAPI compares the table with the kinds in the OpenAPI documents of the releases, in which
// all versions are on. Of these, stable versions are on by default, alpha versions are not, and beta
// versions are if they are older than 1.24.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/openapi.txt")
	if err != nil {
		t.Fatal(err)
	}
	described := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if words[0] == "#" {
			continue
		}
		described[words[0]+" "+words[1]] = true
		k := releases.Find(runtimeschema.FromAPIVersionAndKind(words[0], words[1]))
		if k == nil {
			t.Errorf("the table has no %s %s", words[0], words[1])
			continue
		}
		from, to, _ := strings.Cut(words[2], "-")
		for r := releases.First; r <= releases.Last; r++ {
			want := releases.Optional
			switch {
			case words[0]+words[1]+r.String() == "storage.k8s.io/v1alpha1CSIStorageCapacity1.20":
				// The document has no kinds whose feature gates are off.
			case r.String() < "1."+from:
				want = releases.Future
			case r.String() > "1."+to:
				want = releases.Removed
			case !strings.Contains(words[0], "alpha") && (!strings.Contains(words[0], "beta") || from < "24"),
				words[0] == "flowcontrol.apiserver.k8s.io/v1beta3": // its group was always on
				want = releases.Served
			}
			if got := k.In(r); got != want {
				t.Errorf("%s %s in %s: got state %d, want %d", words[0], words[1], r, got, want)
			}
		}
	}
	if len(described) < 180 {
		t.Errorf("the documents have only %d kinds", len(described))
	}
	for _, k := range releases.All() {
		if !described[k.GroupVersion().String()+" "+k.Kind] {
			t.Errorf("the documents have no %s", k.GroupVersionKind)
		}
	}
}

// TestBuiltinKinds compares the built-in kinds with the table of the last release.
func TestBuiltinKinds(t *testing.T) {
	t.Parallel()
	missing := map[string]bool{ // which no package of kinds implements
		"ClusterTrustBundle": true, "PodCertificateRequest": true, "DeviceTaintRule": true, "StorageVersionMigration": true,
	}
	for _, k := range releases.All() {
		builtin := kinds.ByKind(k.GroupVersionKind)
		served := k.In(releases.Last) == releases.Served && k.Kind != "CustomResourceDefinition" && !missing[k.Kind]
		if served != (builtin != nil) {
			t.Errorf("%s: served %v, built in %v", k.GroupVersionKind, served, builtin != nil)
		}
		if builtin != nil && builtin.Deprecated != k.Warning(releases.Last) {
			t.Errorf("%s: got the warning %q, want %q", k.GroupVersionKind, builtin.Deprecated, k.Warning(releases.Last))
		}
	}
	for _, r := range kinds.Resources() {
		if releases.Find(r.GroupVersionKind()) == nil {
			t.Errorf("the table has no %s", r.GroupVersionKind())
		}
	}
}

func TestInstead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		apiVersion, kind string
		in               releases.Release
		want             string
	}{
		{"policy/v1beta1", "PodDisruptionBudget", 25, "policy/v1"},
		{"policy/v1", "PodDisruptionBudget", 20, "policy/v1beta1"},
		{"extensions/v1beta1", "Ingress", 22, "networking.k8s.io/v1"},
		{"networking.k8s.io/v1", "Ingress", 20, "networking.k8s.io/v1beta1"},
		{"autoscaling/v2", "HorizontalPodAutoscaler", 22, "autoscaling/v2beta2"},
		{"autoscaling/v2beta1", "HorizontalPodAutoscaler", 30, "autoscaling/v2"},
		{"autoscaling/v2beta1", "HorizontalPodAutoscaler", 25, "autoscaling/v2"},
		{"flowcontrol.apiserver.k8s.io/v1", "FlowSchema", 28, "flowcontrol.apiserver.k8s.io/v1beta3"},
		{"resource.k8s.io/v1", "ResourceClaim", 33, "resource.k8s.io/v1beta2"},
		{"policy/v1beta1", "PodSecurityPolicy", 25, ""},
	} {
		got := ""
		if other := releases.Find(runtimeschema.FromAPIVersionAndKind(c.apiVersion, c.kind)).Instead(c.in); other != nil {
			got = other.GroupVersion().String()
		}
		if got != c.want {
			t.Errorf("%s %s in %s: got %s, want %s", c.apiVersion, c.kind, c.in, got, c.want)
		}
	}
}

// TestFields checks some fields, whose history is known from the release notes.
func TestFields(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		typ, field     string
		added, enabled releases.Release
	}{
		{"PodSpec", "schedulingGates", 26, 27},
		{"PodSpec", "hostUsers", 25, 33},
		{"PodSpec", "os", 23, 24},
		{"Container", "restartPolicy", 28, 29},
		{"Container", "resizePolicy", 27, 33},
		{"ServiceSpec", "trafficDistribution", 30, 31},
		{"Probe", "grpc", 23, 24},
		{"Volume", "image", 31, 35},
		{"SecurityContext", "appArmorProfile", 30, 0},
		{"LifecycleHandler", "sleep", 29, 30},
		{"TopologySpreadConstraint", "minDomains", 24, 27}, // 1.25 and 1.26 have it as beta, which is off
	} {
		f := releases.Fields("k8s.io/api/core/v1", c.typ)[c.field]
		if f == nil || f.Added != c.added || f.Enabled != c.enabled {
			t.Errorf("%s.%s: got %+v, want %s and %s", c.typ, c.field, f, c.added, c.enabled)
		}
	}
	if f := releases.Fields("k8s.io/api/core/v1", "PodSpec")["containers"]; f != nil || !f.In(releases.First) {
		t.Errorf("containers: got %+v", f)
	}
}

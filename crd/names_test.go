package crd_test

import (
	"fmt"
	"strings"
	"testing"

	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// TestGroupsAndNames checks the group, the scope and the names of a CRD.
func TestGroupsAndNames(t *testing.T) {
	for name, tt := range map[string]struct {
		edit func(*api.CustomResourceDefinition)
		want []string
	}{
		"fine":          {func(*api.CustomResourceDefinition) {}, nil},
		"no group":      {func(c *api.CustomResourceDefinition) { c.Name, c.Spec.Group = "things.", "" }, []string{"metadata.name", "spec.group: Required value"}},
		"no dot":        {func(c *api.CustomResourceDefinition) { c.Name, c.Spec.Group = "things.example", "example" }, []string{`spec.group: Invalid value: "example": should be a domain with at least one dot`}},
		"upper case":    {func(c *api.CustomResourceDefinition) { c.Spec.Group = "Example.com" }, []string{"metadata.name: Invalid value", `spec.group: Invalid value: "Example.com": a lowercase RFC 1123 subdomain`}},
		"a wrong name":  {func(c *api.CustomResourceDefinition) { c.Name = "other.example.com" }, []string{`metadata.name: Invalid value: "other.example.com": must be spec.names.plural+"."+spec.group`}},
		"no scope":      {func(c *api.CustomResourceDefinition) { c.Spec.Scope = "" }, []string{"spec.scope: Required value"}},
		"another scope": {func(c *api.CustomResourceDefinition) { c.Spec.Scope = "Galaxy" }, []string{`spec.scope: Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced"`}},
		"no plural":     {func(c *api.CustomResourceDefinition) { c.Name, c.Spec.Names.Plural = ".example.com", "" }, []string{"metadata.name", "spec.names.plural: Required value"}},
		"no kind":       {func(c *api.CustomResourceDefinition) { c.Spec.Names.Kind, c.Spec.Names.ListKind = "", "X" }, []string{"spec.names.kind: Required value"}},
		"short names":   {func(c *api.CustomResourceDefinition) { c.Spec.Names.ShortNames = []string{"a", "B"} }, []string{`spec.names.shortNames[1]: Invalid value: "B": a DNS-1035 label`}},
		"categories":    {func(c *api.CustomResourceDefinition) { c.Spec.Names.Categories = []string{"A", "b"} }, []string{`spec.names.categories[0]: Invalid value: "A": a DNS-1035 label`}},
		"the same kind": {func(c *api.CustomResourceDefinition) { c.Spec.Names.ListKind = "Thing" }, []string{`spec.names.listKind: Invalid value: "Thing": kind and listKind may not be the same`}},
		"kind":          {func(c *api.CustomResourceDefinition) { c.Spec.Names.Kind = "A b" }, []string{`spec.names.kind: Invalid value: "A b": may have mixed case, but should otherwise match: `}},
		"singular":      {func(c *api.CustomResourceDefinition) { c.Spec.Names.Singular = "A" }, []string{`spec.names.singular: Invalid value: "A": a DNS-1035 label`}},
	} {
		c := definition(t, plain)
		tt.edit(c)
		crd.PrepareCreate(c)
		for _, sem := range both {
			t.Run(fmt.Sprint(sem, " ", name), func(t *testing.T) { expect(t, create(c, sem).Errors, tt.want...) })
		}
	}
	// Defaults set these names.
	c := definition(t, plain)
	c.Spec.Names.Singular, c.Spec.Names.ListKind = "", ""
	expect(t, create(c, schema.Kubernetes).Errors, "spec.names.singular: Required value", "spec.names.listKind: Required value")
}

// TestStatusNames checks that the accepted names are validated, too.
func TestStatusNames(t *testing.T) {
	old := served(t, named(t, "things", "Thing"), nil).CRD()
	expect(t, crd.ValidateStatusUpdate(t.Context(), old.DeepCopy(), old))
	c := old.DeepCopy()
	c.Status.AcceptedNames.Plural, c.Status.AcceptedNames.Kind = "A", "A b"
	expect(t, crd.ValidateStatusUpdate(t.Context(), c, old), `status.acceptedNames.plural: Invalid value: "A"`, `status.acceptedNames.kind: Invalid value: "A b"`)
	c = old.DeepCopy()
	c.UID = "other"
	expect(t, crd.ValidateStatusUpdate(t.Context(), c, old), `metadata.uid: Invalid value: "other": field is immutable`)
}

// TestApprovals checks what counts as an approval of a CRD in a group of Kubernetes.
func TestApprovals(t *testing.T) {
	const missing, at = "protected groups must have approval annotation", "metadata.annotations[api-approved.kubernetes.io]: "
	for text, want := range map[string]string{
		"https://github.com/x": "approved in https://github.com/x", "http://x": "approved in http://x", "unapproved, a test": `not approved: "unapproved, a test"`, "unapproved": `not approved: "unapproved"`,
		"": missing + ` "api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111`, "yes": missing + ` "api-approved.kubernetes.io" with either a URL or a reason`, "//host/path": missing + ` "api-approved.kubernetes.io" with either`, "/path": missing + ` "api-approved.kubernetes.io" with either`,
		"https:///path": missing + ` "api-approved.kubernetes.io" with either`, "mailto:x": missing + ` "api-approved.kubernetes.io" with either`,
	} {
		c := definition(t, plain, func(c *api.CustomResourceDefinition) {
			c.Spec.Group, c.Name, c.Annotations = "x.k8s.io", "things.x.k8s.io", map[string]string{api.KubeAPIApprovedAnnotation: text}
		})
		var errs []string
		switch {
		case text == "":
			errs = []string{at + "Required value: " + want}
		case strings.HasPrefix(want, missing):
			errs = []string{at + fmt.Sprintf("Invalid value: %q: ", text) + want}
		}
		t.Run(text, func(t *testing.T) { expect(t, create(c, schema.Kubernetes).Errors, errs...) })
		if got := condition(t, served(t, c, nil).CRD().Status, api.KubernetesAPIApprovalPolicyConformant); !strings.HasPrefix(got.Message, want) {
			t.Errorf("%q: got %q, want %q", text, got.Message, want)
		}
	}
	for group, protected := range map[string]bool{"k8s.io": true, "a.k8s.io": true, "kubernetes.io": true, "a.b.kubernetes.io": true, "myk8s.io": false, "k8s.io.example.com": false, "x-k8s.io": false} {
		c := definition(t, plain, func(c *api.CustomResourceDefinition) { c.Spec.Group, c.Name = group, "things."+group })
		if errs := create(c, schema.Kubernetes).Errors; (len(errs) > 0) != protected {
			t.Errorf("%s: got %v", group, errs)
		}
	}
}

// TestDeprecationWarnings checks the texts for clients of deprecated versions.
func TestDeprecationWarnings(t *testing.T) {
	for text, want := range map[string]string{
		"use v2": "", "": "must not be an empty string", "a\x00": "non-printable character found at index 1", "tab\t": "non-printable character found at index 3",
		"bad\xff": "must only contain printable UTF-8 characters", strings.Repeat("x", 256): "", strings.Repeat("x", 257): "must be <= 256 characters long",
	} {
		c := definition(t, plain, func(c *api.CustomResourceDefinition) {
			c.Spec.Versions[0].Deprecated, c.Spec.Versions[0].DeprecationWarning = true, &text
		})
		errs := create(c, schema.Kubernetes).Errors
		if want == "" && len(errs) > 0 || want != "" && !containsError(errs, "spec.versions[0].deprecationWarning: Invalid value: ") || !containsError(errs, want) && want != "" {
			t.Errorf("%q: got %v, want %q", text, errs, want)
		}
		if invalid := containsError(errs, "printable UTF-8 characters") && !containsError(errs, "index"); text == "bad\xff" && len(errs) != 2 && !invalid {
			t.Errorf("%q: got %v", text, errs)
		}
		c.Spec.Versions[0].Deprecated = false
		expect(t, create(c, schema.Kubernetes).Errors, "can only be set for deprecated versions")
	}
}

// TestVersionsWithoutList checks v1beta1 CRDs with one version, and what happens without any.
func TestVersionsWithoutList(t *testing.T) {
	for _, sem := range both {
		c := betaDefinition(t, "", preserving(true))
		c.Spec.Versions = nil
		expect(t, createBeta(c, sem).Errors, "spec.versions: Invalid value: null: must have exactly one version marked as storage version", "status.storedVersions")
		one := betaDefinition(t, "", preserving(true), func(c *v1beta1.CustomResourceDefinition) {
			c.Spec.Versions = []v1beta1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &api.CustomResourceValidation{OpenAPIV3Schema: props(t, plain)}}}
		})
		expect(t, createBeta(one, sem).Errors, "per-version schemas may not all be set to identical values (top-level validation should be used instead)")
		// Only a version that is served needs a schema to prune.
		for served, want := range map[bool]string{true: "spec.versions[0].schema.openAPIV3Schema: Required value: because otherwise all fields are pruned", false: ""} {
			c := betaDefinition(t, "", preserving(false), func(c *v1beta1.CustomResourceDefinition) {
				c.Spec.Versions = []v1beta1.CustomResourceDefinitionVersion{{Name: "v1", Served: served, Storage: true}}
			})
			var wanted []string
			if want != "" && sem == schema.Kubernetes {
				wanted = []string{want}
			}
			expect(t, createBeta(c, sem).Errors, wanted...)
		}
	}
}

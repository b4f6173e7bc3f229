package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"espalier.dev/analysis/lookup"
	"espalier.dev/kinds/releases"
)

// describedKind is a kind in the OpenAPI documents of releases, which list all versions that can be
// on.
type describedKind struct {
	apiVersion, kind string
	from, to         int
}

func describedKinds(t *testing.T) (all []describedKind) {
	t.Helper()
	text, err := os.ReadFile("../../kinds/releases/testdata/openapi.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var k describedKind
		if _, err := fmt.Sscanf(line, "%s %s %d-%d", &k.apiVersion, &k.kind, &k.from, &k.to); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		all = append(all, k)
	}
	return all
}

// verdict returns what validate has to say about the version of an object in a release.
func (k describedKind) verdict(minor int) string {
	alpha, beta := strings.Contains(k.apiVersion, "alpha"), strings.Contains(k.apiVersion, "beta")
	switch {
	case k.kind == "CSIStorageCapacity" && alpha && minor == 20:
		return "optional" // the document leaves out kinds whose feature gates are off
	case minor < k.from:
		return fmt.Sprintf("added in 1.%d", k.from)
	case minor > k.to:
		return fmt.Sprintf("removed in 1.%d", k.to+1)
	case alpha, beta && k.from >= 24 && !strings.HasPrefix(k.apiVersion, "flowcontrol."):
		return "optional"
	}
	return "served"
}

// TestReleases validates an object of each version of each kind for each release.
func TestReleases(t *testing.T) {
	t.Parallel()
	all := describedKinds(t)
	p := newPlace(t)
	var text strings.Builder
	for _, k := range all {
		fmt.Fprintf(&text, "---\napiVersion: %s\nkind: %s\nmetadata: {name: a}\n", k.apiVersion, k.kind)
	}
	writeFile(t, p.path("all.yaml"), []byte(text.String()))
	for r := releases.First; r <= releases.Last; r++ {
		out, code := p.run("validate", "--kubernetes-version", r.String(), "-o", "json", "all.yaml")
		if code != 1 {
			t.Fatalf("%s: exits with %d: %.1000s", r, code, out)
		}
		var found struct {
			Findings []struct {
				Rule, Severity, Path, Message string
				Line                          int
			}
		}
		if err := json.Unmarshal([]byte(out), &found); err != nil {
			t.Fatalf("%s: %v: %.1000s", r, err, out)
		}
		got := map[int]string{}
		for _, f := range found.Findings {
			switch {
			case f.Rule == lookup.RuleMissing:
				t.Errorf("%s: %s", r, f.Message)
			case f.Rule != lookup.RuleRelease || f.Path != "apiVersion":
			case f.Severity == "warning":
				got[f.Line] = "optional"
			default:
				_, after, _ := strings.Cut(f.Message, "which was ")
				got[f.Line], _, _ = strings.Cut(after, ":")
			}
		}
		for i, k := range all {
			verdict := got[4*i+2]
			if verdict == "" {
				verdict = "served"
			}
			if want := k.verdict(int(r)); verdict != want {
				t.Errorf("%s: %s %s: got %s, want %s", r, k.apiVersion, k.kind, verdict, want)
			}
		}
	}
}

// TestReleaseCEL checks with which release functions, macros and features of CEL begin, in CRDs and
// in policies.
func TestReleaseCEL(t *testing.T) {
	t.Parallel()
	const crd = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: as.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: as, kind: A, listKind: AList, singular: a}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          s:
            type: object
            x-kubernetes-validations:
            - rule: %s
            properties:
              s: {type: string, maxLength: 10}
              i: {type: integer}
              l: {type: array, maxItems: 10, items: {type: integer}}
              m: {type: object, maxProperties: 10, additionalProperties: {type: string, maxLength: 10}}
`
	const policy = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: a}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations:
  - expression: %s
`
	p := newPlace(t)
	for _, c := range []struct {
		rule  string
		since releases.Release
		// policy is the expression in a policy, if it has the same meaning there.
		policy string
	}{
		{"has(self.s) && self.s.startsWith('a')", 25, "object.metadata.name.startsWith('a')"},
		{"!has(self.l) || self.l.isSorted()", 25, "[1].isSorted()"},
		{"!has(self.l) || self.l.sum() > 1", 25, "[1].sum() > 1"},
		{"!has(self.s) || self.s.find('[0-9]') == ''", 25, "'a'.find('[0-9]') == ''"},
		{"!has(self.s) || isURL(self.s)", 25, "isURL('a')"},
		{"!has(self.s) || self.s.lowerAscii() == self.s", 25, "'a'.lowerAscii() == 'a'"},
		{"!has(self.s) || isQuantity(self.s)", 29, "isQuantity('1')"},
		{"!has(self.s) || quantity(self.s).isInteger()", 29, "quantity('1').isInteger()"},
		{"self.?s.hasValue()", 29, "optional.of(1).hasValue()"},
		{"!has(self.i) || self.i < 1.5", 29, "1 < 1.5"},
		{"!has(self.l) || sets.contains(self.l, [1])", 30, "sets.contains([1], [1])"},
		{"!has(self.s) || strings.quote(self.s) == self.s", 30, "strings.quote('a') == 'a'"},
		{"!has(self.s) || isIP(self.s)", 31, "isIP('a')"},
		{"!has(self.s) || cidr(self.s).containsIP('::1')", 31, "cidr('a').containsIP('::1')"},
		{"!has(self.s) || !format.dns1123Label().validate(self.s).hasValue()", 32, "!format.dns1123Label().validate('a').hasValue()"},
		{"!has(self.m) || self.m.all(k, v, k == v)", 33, "[1].all(i, v, i == v)"},
		{"!has(self.s) || isSemver(self.s)", 34, "isSemver('1.0.0')"},
		{"!has(self.l) || self.l.distinct() == self.l", 35, "[1].distinct() == [1]"},
	} {
		writeFile(t, p.path("crd.yaml"), fmt.Appendf(nil, crd, ruleText(c.rule)))
		writeFile(t, p.path("policy.yaml"), fmt.Appendf(nil, policy, ruleText(c.policy)))
		for r := releases.Release(25); r <= releases.Last; r++ {
			if testing.Short() && r != c.since-1 && r != c.since {
				continue
			}
			for _, command := range []string{"validate", "lint"} {
				out, code := p.run(command, "--kubernetes-version", r.String(), "crd.yaml")
				want := fmt.Sprintf("Kubernetes %s rejects the expression, which %s accepts: compilation failed: ", r, c.since)
				if rejected := r < c.since; rejected != (code == 1) || rejected != strings.Contains(out, want) {
					t.Errorf("%s: %s with %s: exits with %d: %.500s", c.rule, command, r, code, out)
				}
			}
			if r < 30 {
				continue // it has no policies
			}
			out, code := p.run("validate", "--kubernetes-version", r.String(), "policy.yaml")
			want := fmt.Sprintf("policy.yaml:7:17: error: spec.validations[0].expression: Kubernetes %s rejects the expression, which %s accepts: compilation failed: ",
				r, c.since)
			if rejected := r < c.since; rejected != (code == 1) || rejected != strings.Contains(out, want) {
				t.Errorf("%s: with %s: exits with %d: %.500s", c.policy, r, code, out)
			}
		}
	}
}

// ruleText returns a text as a JSON string, which is YAML, too.
func ruleText(s string) string {
	text, _ := json.Marshal(s)
	return string(text)
}

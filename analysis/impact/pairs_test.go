package impact_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"espalier.dev/analysis/impact"
	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/crd/cel"
	"espalier.dev/internal/testcase"
	"espalier.dev/schema"
)

var update = flag.Bool("update", false, "rewrite the expected results in testdata")

// pair is a case of testdata/pairs.txt: two CRDs, and objects.
type pair struct {
	old, new *api.CustomResourceDefinition
	objects  []string
	// ignoresRules is set if rules are not evaluated.
	ignoresRules bool
}

// defined returns a CRD of the kind Thing whose spec has the field x, with the schema x, and with
// further fields of its own spec.
func defined(t *testing.T, x, spec string) *api.CustomResourceDefinition {
	t.Helper()
	tree := map[string]any{}
	if err := yaml.Unmarshal(fmt.Appendf(nil, `{group: example.com, scope: Namespaced, names: {plural: things, kind: Thing}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema:
{type: object, properties: {spec: {type: object, properties: {x: %s}}}}}}]}`, cmp.Or(x, "{type: string}")), &tree); err != nil {
		t.Fatalf("%v in %s", err, x)
	}
	more := map[string]any{}
	if err := yaml.Unmarshal([]byte(spec), &more); err != nil {
		t.Fatalf("%v in %s", err, spec)
	}
	metadata, _ := more["metadata"].(map[string]any)
	status := more["status"]
	delete(more, "metadata")
	delete(more, "status")
	if metadata == nil {
		metadata = map[string]any{}
	}
	if metadata["name"] == nil {
		metadata["name"] = "things.example.com"
	}
	maps.Copy(tree, more)
	source, err := json.Marshal(map[string]any{"apiVersion": api.APIVersion, "kind": api.Kind, "metadata": metadata, "spec": tree, "status": status})
	if err != nil {
		t.Fatal(err)
	}
	c, err := codec.DecodeLenient(source)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// findings returns what a comparison and the objects lead to, in full.
func (p *pair) findings(t *testing.T, sem schema.Semantics) string {
	t.Helper()
	o := impact.Options{Semantics: sem, Rules: cel.Checker{}}
	if p.ignoresRules {
		o.Rules = nil
	}
	c, err := impact.Compare(t.Context(), p.old, p.new, o)
	if err != nil {
		return "> error: " + err.Error() + "\n"
	}
	var b strings.Builder
	var findings []impact.Finding
	add := func(all ...impact.Finding) {
		findings = append(findings, all...)
		for _, f := range all {
			fmt.Fprintf(&b, "> %s %s %s: %s\n", f.Severity, f.Rule, f.Path, strings.ReplaceAll(f.Message, "\n", "\n> "))
			pointers := f.Pointer
			if f.OldPointer != f.Pointer {
				pointers += " was " + f.OldPointer
			}
			if pointers != "" {
				fmt.Fprintf(&b, ">     at %s\n", strings.ReplaceAll(pointers, "/schema/openAPIV3Schema", "…"))
			}
			for _, d := range f.Detail {
				fmt.Fprintf(&b, ">     %s\n", strings.ReplaceAll(d, "\n", "\n>     "))
			}
		}
	}
	objects := c.Objects(2)
	for i, x := range p.objects {
		if err := objects.Add(t.Context(), fmt.Sprintf("object %d", i+1), object(t, x)); err != nil {
			fmt.Fprintf(&b, "> object %d: %v\n", i+1, err)
		}
	}
	add(c.Names()...)
	add(c.Rejections()...)
	for i := range c.Changes {
		if affected, ok := objects.AffectedFinding(i); ok && affected.Class != c.Changes[i].Class() {
			fmt.Fprintf(&b, "> on the objects: %s\n", affected.Message)
		}
		add(objects.ChangeFinding(i))
		if change := &c.Changes[i]; change.IsTransition() || change.BreaksRules() {
			fmt.Fprintf(&b, ">     transition rule: %t, breaks rules: %t\n", change.IsTransition(), change.BreaksRules())
		}
	}
	add(objects.OtherFindings()...)
	add(objects.Unevaluated()...)
	for _, class := range impact.Classes() {
		if n := objects.Classes[class]; n > 0 {
			fmt.Fprintf(&b, "> %d of %d objects: %s\n", n, objects.Tried, class.Observed())
		}
	}
	for _, group := range impact.Group(findings) {
		if len(group) == 1 {
			continue
		}
		f := impact.Merge(group)
		fmt.Fprintf(&b, "> together: %s %s %s: %s\n", f.Severity, f.Rule, f.Path, f.Message)
		for _, p := range impact.Places(group) {
			fmt.Fprintf(&b, ">     %s, first at %s\n", p.String(), p.First.Path)
		}
		for _, d := range f.Detail {
			fmt.Fprintf(&b, ">     %s\n", d)
		}
	}
	for _, f := range c.OtherSemantics(t.Context()) {
		fmt.Fprintf(&b, "> %s %s %s: %s %q\n", f.Severity, f.Rule, f.Path, f.Message, f.Equal)
	}
	return b.String()
}

// object returns an object: the value of its field spec.x in YAML, or all of it.
func object(t *testing.T, x string) []byte {
	t.Helper()
	if !strings.Contains(x, "apiVersion: example") {
		x = "{apiVersion: example.com/v1, kind: Thing, metadata: {name: a}, spec: {x: " + x + "}}"
	}
	src, err := yaml.YAMLToJSON([]byte(x))
	if err != nil {
		t.Fatalf("%v in %s", err, x)
	}
	return src
}

// TestPairs compares the pairs of CRDs in testdata/pairs.txt, and expects the findings there, after >.
// A case starts with a line "# name". The lines old and new have the schema of spec.x, old-spec and
// new-spec fields of the spec of the CRD (and metadata, status), both stands for the same in both CRDs,
// and each line object is a value of spec.x. With "rules: none", rules are compared, but not evaluated. The findings in the kubernetes semantics follow if they
// differ.
func TestPairs(t *testing.T) {
	const file = "testdata/pairs.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for block := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		var inputs strings.Builder
		fields := map[string]string{}
		var p pair
		for line := range strings.Lines(block + "\n") {
			if strings.HasPrefix(line, ">") {
				continue
			}
			inputs.WriteString(line)
			name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			if name == "object" {
				p.objects = append(p.objects, value)
			}
			fields[name] = value
			p.ignoresRules = p.ignoresRules || name == "rules"
		}
		for _, suffix := range []string{"", "-spec"} {
			for _, name := range []string{"old", "new"} {
				fields[name+suffix] = cmp.Or(fields[name+suffix], fields["both"+suffix])
			}
		}
		p.old, p.new = defined(t, fields["old"], fields["old-spec"]), defined(t, fields["new"], fields["new-spec"])
		kep, kubernetes := p.findings(t, schema.KEP), p.findings(t, schema.Kubernetes)
		got.WriteString(inputs.String() + kep)
		if kubernetes != kep {
			got.WriteString("> in kubernetes:\n" + kubernetes)
		}
		got.WriteString("\n")
	}
	testcase.Golden(t, file, got.String(), *update)
}

package impact_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"espalier.dev/analysis"
	"espalier.dev/analysis/impact"
	"espalier.dev/api"
	"espalier.dev/crd/cel"
	"espalier.dev/schema"
)

// unevaluated returns the finding about an object on which a new rule is not evaluated.
func unevaluated(t *testing.T, config impact.Config) []impact.Finding {
	t.Helper()
	c, err := impact.Compare(t.Context(), crdOf(t, `{type: integer}`), crdOf(t, `{type: integer, x-kubernetes-validations: [{rule: self > 1}]}`),
		impact.Options{Semantics: schema.KEP, Rules: cel.Checker{}, Config: config})
	if err != nil {
		t.Fatal(err)
	}
	o := c.Objects(0)
	if got := o.Unevaluated(); got != nil {
		t.Errorf("without objects: %q", findingLines(got...))
	}
	if err := o.Add(t.Context(), "a", []byte(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a","namespace":"b"},"spec":{"x":"text"}}`)); err != nil {
		t.Fatal(err)
	}
	return o.Unevaluated()
}

// allFindings returns the findings about all changes.
func allFindings(c *impact.Comparison) (all []impact.Finding) {
	o := c.Objects(0)
	for i := range c.Changes {
		all = append(all, o.ChangeFinding(i))
	}
	return all
}

// mergedLines returns the groups of findings that are not safe.
func mergedLines(findings []impact.Finding) (lines []string) {
	for _, group := range impact.Group(findings) {
		if f := impact.Merge(group); f.Class != impact.Safe {
			lines = append(lines, fmt.Sprintf("%d %s: %s", len(group), f.Path, f.Message))
		}
	}
	return lines
}

func TestGroup(t *testing.T) {
	long := strings.Repeat("a", 100)
	for name, tt := range map[string]struct {
		old, new string
		want     []string
	}{
		"equal changes of several fields": {
			`{type: object, properties: {a: {type: string}, b: {type: array, items: {type: string}}, c: {type: string}}}`,
			`{type: object, properties: {a: {type: string, maxLength: 5}, b: {type: array, items: {type: string, maxLength: 5}}, c: {type: string, maxLength: 6}}}`,
			[]string{
				"2 : stored objects may become invalid: maxLength none → 5, in 2 fields",
				"1 v1: spec.x.c: stored objects may become invalid: maxLength none → 6",
			},
		},
		"values that differ only where the message is shortened": {
			`{type: object, properties: {a: {type: string}, b: {type: string}, c: {type: string}}}`,
			fmt.Sprintf(`{type: object, properties: {a: {type: string, pattern: %[1]sb}, b: {type: string, pattern: %[1]sc}, c: {type: string, pattern: %[1]sc}}}`, long),
			[]string{
				"1 v1: spec.x.a: stored objects may become invalid: pattern none → " + long[:79] + "…",
				"2 : stored objects may become invalid: pattern none → " + long[:79] + "…, in 2 fields",
			},
		},
		"conditions that the message does not show": {
			`{type: object, properties: {a: {type: string}, b: {type: string}}}`,
			`{type: object, properties: {a: {type: string, not: {enum: [x]}}, b: {type: string, not: {enum: [y]}}}}`,
			[]string{
				"1 v1: spec.x.a: stored objects may become invalid: not changed: values that were accepted may be rejected",
				"1 v1: spec.x.b: stored objects may become invalid: not changed: values that were accepted may be rejected",
			},
		},
		"lists with different keys": {
			`{type: object, properties: {a: {type: array, items: {type: object, properties: {k: {type: string}, l: {type: string}}}}, b: {type: array, items: {type: object, properties: {k: {type: string}, l: {type: string}}}}}}`,
			`{type: object, properties: {a: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, properties: {k: {type: string}, l: {type: string}}}}, b: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k, l], items: {type: object, properties: {k: {type: string}, l: {type: string}}}}}}`,
			[]string{
				"1 v1: spec.x.a: stored objects may become invalid: list type atomic → map with the key k",
				"1 v1: spec.x.b: stored objects may become invalid: list type atomic → map with the keys k, l",
			},
		},
		"properties by name": {
			`{type: object, properties: {a: {type: object, properties: {p: {type: string}, q: {type: string}}}, b: {type: object, properties: {p: {type: integer}}}}}`,
			`{type: object, properties: {a: {type: object}, b: {type: object}}}`,
			[]string{
				"2 : stored objects lose data: p removed: stored values are pruned, in 2 fields",
				"1 v1: spec.x.a.q: stored objects lose data: removed: stored values are pruned",
			},
		},
		"the worst first": {
			`{type: object, properties: {a: {type: string}, b: {type: string}, c: {type: string}, d: {type: string, enum: [x]}}}`,
			`{type: object, properties: {a: {type: string, default: x}, b: {type: string, minLength: 1}, d: {type: string, enum: [x, z]}}}`,
			[]string{
				"1 v1: spec.x.c: stored objects lose data: removed: stored values are pruned",
				"1 v1: spec.x.b: stored objects may become invalid: minLength none → 1",
				"1 v1: spec.x.a: newly defaulted: default x added",
				`1 v1: spec.x.d: clients may break: enum ["x"] → ["x","z"]`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := compare(t, crdOf(t, tt.old), crdOf(t, tt.new), schema.KEP)
			expectLines(t, mergedLines(allFindings(c)), tt.want...)
		})
	}
}

// versions returns a CRD with versions that have the given schemas below spec. The last one is the
// storage version.
func versions(t *testing.T, schemas ...[2]string) string {
	t.Helper()
	var list []string
	for i, s := range schemas {
		list = append(list, fmt.Sprintf(`{name: %s, served: true, storage: %t, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {x: %s}}}}}}`,
			s[0], i == len(schemas)-1, s[1]))
	}
	return `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.example.com}, spec: {
group: example.com, scope: Namespaced, names: {plural: things, kind: Thing}, versions: [` + strings.Join(list, ", ") + `]}}`
}

// TestGroupVersions checks that a change of several versions is one finding, with the versions.
func TestGroupVersions(t *testing.T) {
	const free, short = `{type: string}`, `{type: string, maxLength: 5}`
	for name, tt := range map[string]struct {
		old, new string
		want     []string
	}{
		"both": {
			versions(t, [2]string{"v1", free}, [2]string{"v2", free}), versions(t, [2]string{"v1", short}, [2]string{"v2", short}),
			[]string{"2 v1, v2: spec.x: stored objects may become invalid: maxLength none → 5"},
		},
		"a new storage version": {
			versions(t, [2]string{"v1", free}), versions(t, [2]string{"v1", short}, [2]string{"v2", short}),
			[]string{"2 v1, v1 → v2: spec.x: stored objects may become invalid: maxLength none → 5"},
		},
		"a new version that is not stored": {
			versions(t, [2]string{"v2", free}), versions(t, [2]string{"v1", `{type: string, maxLength: 5, minLength: 1}`}, [2]string{"v2", `{type: string, minLength: 1}`}),
			[]string{
				"1 v2 → v1: spec.x: stored objects may become invalid: read as v1: maxLength none → 5",
				"1 v2: spec.x: stored objects may become invalid: minLength none → 1",
			},
		},
		"different changes": {
			versions(t, [2]string{"v1", free}, [2]string{"v2", free}), versions(t, [2]string{"v1", short}, [2]string{"v2", `{type: string, maxLength: 6}`}),
			[]string{
				"1 v1: spec.x: stored objects may become invalid: maxLength none → 5",
				"1 v2: spec.x: stored objects may become invalid: maxLength none → 6",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := compare(t, parse(t, tt.old), parse(t, tt.new), schema.KEP)
			expectLines(t, mergedLines(allFindings(c)), tt.want...)
		})
	}
}

// TestGroupCRDs checks that equal changes of several CRDs are one finding, unless they may affect
// the objects of a CRD as a whole.
func TestGroupCRDs(t *testing.T) {
	var findings []impact.Finding
	for _, name := range []string{"things", "others"} {
		old, new := crdOf(t, `{type: object, properties: {a: {type: string}}}`), crdOf(t, `{type: object, properties: {a: {type: string, maxLength: 5}}}`)
		old.Name, new.Name = name+".example.com", name+".example.com"
		old.Spec.Names.Categories = []string{"all"}
		new.Spec.Scope = "Cluster"
		c := compare(t, old, new, schema.KEP)
		findings = append(findings, allFindings(c)...)
		findings = append(findings, c.Rejections()...)
		findings = append(findings, allFindings(impact.Removed(old, impact.Options{}))...)
	}
	expectLines(t, mergedLines(slices.DeleteFunc(slices.Clone(findings), func(f impact.Finding) bool { return f.Rule == impact.RuleRefused })),
		"1 : stored objects lose data: scope Namespaced → Cluster",
		"1 : stored objects lose data: CRD removed: deleting it deletes all its objects",
		"1 : stored objects lose data: scope Namespaced → Cluster",
		"1 : stored objects lose data: CRD removed: deleting it deletes all its objects",
		"2 v1: spec.x.a: stored objects may become invalid: maxLength none → 5, in 2 CRDs",
		"2 : clients may break: category all removed, in 2 CRDs",
	)
	first := impact.Merge(impact.Group(findings)[0])
	expectLines(t, []string{first.Path, first.Message}, "spec.scope",
		`the API server would reject the update: Invalid value: "Cluster": field is immutable, in 2 CRDs`)
}

// TestGroupAffected checks that changes that affect objects come first and are grouped only in
// several versions of a field, and that their verdict can be the effect on the objects.
func TestGroupAffected(t *testing.T) {
	fields := func(length, others string) string {
		return fmt.Sprintf(`{type: object, properties: {a: {type: string%[1]s}, b: {type: string%[1]s}, c: {type: string%[1]s}, d: {type: object, properties: {e: {type: string%[2]s}}}}}`, length, others)
	}
	old := parse(t, versions(t, [2]string{"v1", fields("", "")}))
	new := parse(t, versions(t, [2]string{"v1", fields(", maxLength: 5", ", default: x, maxLength: 2")}, [2]string{"v2", fields(", maxLength: 5", ", default: x, maxLength: 2")}))
	o := compare(t, old, new, schema.KEP).Objects(0)
	for name, spec := range map[string]string{"p": `{"a": "too long", "c": "too long", "d": {}}`, "q": `{"a": "short"}`} {
		src := fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":%q,"namespace":"n"},"spec":{"x":%s}}`, name, spec)
		if err := o.Add(t.Context(), name, []byte(src)); err != nil {
			t.Fatal(err)
		}
	}
	var all, affected []impact.Finding
	for i := range o.Changes {
		all = append(all, o.ChangeFinding(i))
		if f, ok := o.AffectedFinding(i); ok {
			affected = append(affected, f)
		}
	}
	expectLines(t, mergedLines(all),
		"2 v1, v1 → v2: spec.x.a: stored objects may become invalid: maxLength none → 5",
		"2 v1, v1 → v2: spec.x.c: stored objects may become invalid: maxLength none → 5",
		"2 v1, v1 → v2: spec.x.b: stored objects may become invalid: maxLength none → 5",
		"2 v1, v1 → v2: spec.x.d.e: stored objects may become invalid: maxLength none → 2",
		"2 v1, v1 → v2: spec.x.d.e: newly defaulted: default x added",
	)
	expectLines(t, mergedLines(affected),
		"2 v1, v1 → v2: spec.x.a: stored objects may become invalid: maxLength none → 5",
		"2 v1, v1 → v2: spec.x.c: stored objects may become invalid: maxLength none → 5",
		"2 v1, v1 → v2: spec.x.d.e: newly defaulted: default x added",
	)
	if got := impact.Merge(impact.Group(all)[0]).Detail; slices.Contains(got, "affects none of 2 objects") || !slices.Contains(got, "affects 1 of 2 objects:") {
		t.Errorf("got %q", got)
	}
}

// TestAffectedFinding checks that a change that may do worse gets the verdict of what it does.
func TestAffectedFinding(t *testing.T) {
	crd := func(b string) *api.CustomResourceDefinition {
		return crdOf(t, `{type: object, properties: {b: `+b+`, c: {type: string}}, x-kubernetes-validations: [{rule: "!has(self.b) || self.b != 'x' || has(self.c)"}]}`)
	}
	o := compare(t, crd(`{type: string}`), crd(`{type: string, default: x}`), schema.KEP).Objects(0)
	add := func(name, x string) {
		src := fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":%q,"namespace":"n"},"spec":{"x":%s}}`, name, x)
		if err := o.Add(t.Context(), name, []byte(src)); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(class impact.Class, severity analysis.Severity, details ...string) {
		t.Helper()
		if f := o.ChangeFinding(0); f.Class != impact.Invalid || f.Severity != analysis.Error {
			t.Errorf("the verdict is %s", f.Class)
		}
		f, ok := o.AffectedFinding(0)
		if ok != (class != impact.Safe) || f.Class != class || f.Severity != severity || ok && f.Rule != class.ID() {
			t.Errorf("got %t, %+v", ok, f)
		}
		expectLines(t, f.Detail, details...)
	}
	expect(impact.Safe, "")
	add("unaffected", `{"b": "y"}`)
	expect(impact.Safe, "")
	add("p", `{"c": "y"}`)
	expect(impact.Defaulted, analysis.Warning, "affects 1 of 2 objects:", "  p: spec.x.b is defaulted")
	add("q", `{}`)
	const reason = "stored objects may become invalid: rule !has(self.b) || self.b != 'x' || has(self.c) of spec.x may no longer hold"
	expect(impact.Invalid, analysis.Error, reason, "newly defaulted",
		"stored objects can still be read and deleted; updates are accepted unless they change spec.x",
		"affects 1 of 3 objects:", "  q: spec.x: Invalid value: failed rule: !has(self.b) || self.b != 'x' || has(self.c); spec.x.b is defaulted",
		"newly defaulted: 1 of 3 objects:", "  p: spec.x.b is defaulted")
}

// TestMergeDetails checks that a group has the details that all findings have in common, and what
// is said about updates without the field.
func TestMergeDetails(t *testing.T) {
	c := compare(t, crdOf(t, `{type: object, properties: {a: {type: string}, b: {type: string}}}`),
		crdOf(t, `{type: object, properties: {a: {type: string, maxLength: 5}, b: {type: string, maxLength: 5}}}`), schema.KEP)
	expectLines(t, impact.Merge(allFindings(c)).Detail,
		"clients may break: writes of such values are rejected",
		"stored objects can still be read and deleted; updates are accepted unless they change the field, or a list that it is in",
	)
}

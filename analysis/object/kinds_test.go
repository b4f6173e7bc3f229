package object

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"espalier.dev/analysis"
	"espalier.dev/kinds"
	"espalier.dev/kinds/cel"
)

// TestDecodingAsDecoder compares the fields that are reported with those that the decoder names.
func TestDecodingAsDecoder(t *testing.T) {
	checker := ForKinds(cel.New())
	rules, err := checker.rules()
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range []string{
		`{"apiVersion":"v1","kind":"Pod","metadata":{"nam":"a","labels":{"a":"b","a":"c"},"managedFields":[{"fieldsV1":{"f:x":{}},"x":1}]},"spec":{"x":{"y":1,"y":2},"containers":[{"name":"a"},{"Name":"b","env":[{"valueFrom":{"fieldRef":{"path":"x"}}}]}],"containers":[]},"spec":{"y":null}}`,
		`{"apiVersion":"v1","kind":"Pod","spec":{"volumes":[{"name":"a","emptyDir":{"medium":"","sizeLimit":"1Gi","z":1},"ephemeral":{"volumeClaimTemplate":{"spec":{"resources":{"requests":{"storage":1},"claims":[]}}}}}],"overhead":{"cpu":1,"cpu":2}}}`,
		`{"apiVersion":"apps/v1","kind":"ControllerRevision","data":{"any":{"thing":1,"thing":2}},"revision":1,"Revision":2}`,
		`{"apiVersion":"autoscaling/v1","kind":"HorizontalPodAutoscaler","spec":{"metrics":[],"maxReplicas":1}}`,
		`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","webhooks":[{"clientConfig":{"caBundle":"eA==","caBundel":"eA=="},"rules":[{"operations":["*"],"scope":"*","x":[]}]}]}`,
		`{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","spec":{"service":{"nme":"a"}},"metadata":null}`,
	} {
		r, err := rules.Request([]byte(source))
		if err != nil || r.Undecodable != nil {
			t.Fatalf("%s: %v, %v", source, err, r.Undecodable)
		}
		var want, got []string
		for _, err := range r.Strict {
			want = append(want, err.Error())
		}
		for _, f := range checker.Check(t.Context(), []byte(source), nil, Warn) {
			if f.Rule == RuleUnknownField || f.Rule == RuleDuplicateField {
				got = append(got, strings.ReplaceAll(f.Rule, "-", " ")+fmt.Sprintf(" %q", f.Path))
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(slices.Compact(got), slices.Compact(want)) || len(want) == 0 {
			t.Errorf("%s\ngot  %q\nwant %q", source, got, want)
		}
	}
}

// TestWrongTypes puts a value of every type at every field of every kind. A value that cannot be
// decoded is reported with its position.
func TestWrongTypes(t *testing.T) {
	checker := ForKinds(cel.New())
	rules, err := checker.rules()
	if err != nil {
		t.Fatal(err)
	}
	values := []string{`"x"`, `1`, `1.5`, `1e400`, `99999999999999999999`, `true`, `null`, `{}`, `[]`, `{"a":"b"}`, `["x"]`, `[null]`, `[[]]`, `""`}
	tried, seen := 0, map[reflect.Type]bool{}
	for _, r := range kinds.Resources() {
		gvk := r.GroupVersionKind()
		empty, err := rules.New(gvk)
		if err != nil {
			t.Fatal(err)
		}
		head := fmt.Sprintf(`{"apiVersion":%q,"kind":%q`, gvk.GroupVersion(), gvk.Kind)
		fields(reflect.TypeOf(empty).Elem(), seen, func(before, after string) {
			for _, value := range values {
				if strings.HasSuffix(gvk.Kind, "AdmissionPolicy") && value == `{}` {
					break // expressions take long to compile
				}
				tried++
				source := []byte(head + "," + before + value + after + "}")
				_, _, err := rules.Decode(gvk, source)
				found := checker.Check(t.Context(), source, nil, Warn)
				at := slices.IndexFunc(found, func(f analysis.Finding) bool { return f.Rule == RuleDecode })
				if (err != nil) != (at >= 0) {
					t.Fatalf("%s\n%v: got %v", source, err, found)
				}
				if err != nil && found[at].Path == "" {
					t.Fatalf("%s\n%v: no path in %v", source, err, found[at])
				}
			}
		})
	}
	if tried < 10_000 {
		t.Errorf("tried only %d values", tried)
	}
}

// fields calls visit for each field of a type, with the JSON before and after its value. It skips
// types that it has seen.
func fields(t reflect.Type, seen map[reflect.Type]bool, visit func(before, after string)) {
	var walk func(t reflect.Type, before, after string, depth int)
	walk = func(t reflect.Type, before, after string, depth int) {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
			return
		}
		switch t.Kind() {
		case reflect.Slice:
			walk(t.Elem(), before+"[", "]"+after, depth)
		case reflect.Map:
			walk(t.Elem(), before+`{"key":`, "}"+after, depth)
		case reflect.Struct:
			if seen[t] {
				return
			}
			seen[t] = true
			for _, field := range reflect.VisibleFields(t) {
				name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
				if name == "" || name == "-" || name == "apiVersion" || name == "kind" {
					continue
				}
				f := field.Type
				inside := fmt.Sprintf("%s{%q:", before, name)
				if depth == 0 {
					inside = fmt.Sprintf("%q:", name)
					visit(inside, "")
					walk(f, inside, "", 1)
					continue
				}
				visit(inside, "}"+after)
				walk(f, inside, "}"+after, depth+1)
			}
		}
	}
	walk(t, "", "", 0)
}

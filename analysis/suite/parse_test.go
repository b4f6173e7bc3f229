package suite_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev"
	"espalier.dev/analysis/suite"
	"espalier.dev/crd/cel"
	"espalier.dev/schema"
)

// TestParse compares all findings about suites, and the number of cases without errors.
func TestParse(t *testing.T) {
	const begin = `{"apiVersion":"espalier.dev/v1","kind":"TestSuite",`
	const rejected = "a rejected object is not stored: expect either errors, or stored, pruned and defaulted"
	for _, c := range []struct {
		text  string
		cases int
		want  string // pointers and messages, separated by |
	}{
		{`{`, 0, ` invalid JSON at byte 1: unexpected end of input where the name of a member is expected`},
		{`7`, 0, ` must be an object with the keys apiVersion, as, base, crd, invalid, kind, name, policies, semantics, updates, valid|/apiVersion must be espalier.dev/v1`},
		{begin + `"base":{},"name":7,"valid":[{"name":"a"}]}`, 1, `/name must be a string`},
		{begin + `"base":{},"valid":null}`, 0, ` there are no cases: list some under valid, invalid or updates`},
		{begin + `"base":{},"valid":[7,{"name":"a"}]}`, 1, `/valid/0 must be an object with the keys changed, defaulted, name, object, pruned, stored, warnings, with`},
		{begin + `"base":{},"updates":[7]}`, 0, `/updates/0 must be an object with the keys changed, defaulted, errors, name, new, old, pruned, stored, subresource, warnings, with`},
		{begin + `"updates":[{"name":"a","with":{}}]}`, 0, `/updates/0 no old object: set old, or a base for the suite`},
		{begin + `"base":{},"updates":[{"name":"a"}]}`, 0, `/updates/0 no new object: set new, or a patch in with`},
		{begin + `"base":{},"invalid":[{"name":"a","errors":7}]}`, 0, `/invalid/0/errors must be a list`},
		{begin + `"base":{},"updates":[{"name":"a","with":{},"errors":["x"],"pruned":[]},{"name":"b","with":{},"errors":["x"],"defaulted":[]},{"name":"c","with":{},"errors":["x"]}]}`, 1,
			`/updates/0/errors ` + rejected + `|/updates/1/errors ` + rejected},
		{`{"crdName":"x","tests":{"onCreate":[7,{"name":"a","inital":"x"},{"name":"b","initial":"x"}]}}`, 1,
			`/tests/onCreate/0 must be an object with the keys expected, expectedError, initial, name|/tests/onCreate/1/inital unknown key "inital": did you mean "initial"?`},
	} {
		s, wrong := suite.Parse([]byte(c.text), noFiles)
		var got []string
		for _, f := range wrong {
			got = append(got, f.Pointer+" "+f.Message)
		}
		if strings.Join(got, "|") != c.want || len(s.Cases) != c.cases {
			t.Errorf("%s: got %d cases, %s, want %s", c.text, len(s.Cases), strings.Join(got, "|"), c.want)
		}
	}
	for text, want := range map[string]bool{
		`{`: false, `{"apiVersion":"espalier.dev/v1","kind":"Other"}`: false, `{"apiVersion":"espalier.dev/v1","kind":"TestSuite"}`: true,
		`{"crdName":"x"}`: false, `{"crdName":"x","tests":{}}`: true, `{"tests":{"onCreate":[]}}`: true, `{"tests":{"onUpdate":[]}}`: true, `{"tests":{}}`: false,
	} {
		if suite.Recognize([]byte(text)) != want {
			t.Errorf("%s: want %t", text, want)
		}
	}
	s, _ := suite.Parse([]byte(`{"crdName":"x","tests":{}}`), noFiles)
	if _, ok := s.NeedsNoCRD(func(string, string) bool { return true }); ok {
		t.Error("a suite that names its CRD needs none")
	}
}

// TestBrokenDefinitions checks the errors about CRDs that cannot be decoded, and what suites of
// OpenShift tolerate.
func TestBrokenDefinitions(t *testing.T) {
	own, _ := suite.Parse(toJSON(t, head+"valid: [{name: a}]"), noFiles)
	openshift, _ := suite.Parse(toJSON(t, "crdName: x\ntests: {}"), noFiles)
	gated := strings.Replace(crontab, "metadata: {", "metadata: {annotations: {feature-gate.release.openshift.io/A=B: x}, ", 1)
	odd := strings.Replace(crontab, "metadata: {", "metadata: {annotations: {other.release.openshift.io/A=B: x}, ", 1)
	for _, c := range []struct {
		suite *suite.Suite
		text  []byte
		want  string // a part of the error
	}{
		{own, []byte("{"), "invalid JSON"},
		{own, []byte(`{"apiVersion":"apiextensions.k8s.io/v1","spec":7}`), "spec: expected an object, got 7"},
		{own, []byte(`{"apiVersion":"apiextensions.k8s.io/v1beta1","spec":7}`), "spec: expected an object, got 7"},
		{own, toJSON(t, gated), "annotations"},
		{openshift, toJSON(t, gated), ""},
		{openshift, toJSON(t, odd), "annotations"},
	} {
		r, err := suite.NewRunner(t.Context(), c.suite, c.text, suite.Options{Rules: cel.Checker{}})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || err == nil && r == nil {
			t.Errorf("%.60s: got %v, want %q", c.text, err, c.want)
		}
	}
}

// rejecting answers all requests with an error.
type rejecting struct{ err error }

func (r rejecting) Create(context.Context, schema.Object) (*espalier.Result, error) {
	return nil, r.err
}
func (r rejecting) Update(context.Context, schema.Object, schema.Object) (*espalier.Result, error) {
	return nil, r.err
}
func (r rejecting) UpdateStatus(context.Context, schema.Object, schema.Object) (*espalier.Result, error) {
	return nil, r.err
}

// TestCauses checks how errors of an API server are compared: by their causes, if they have any.
func TestCauses(t *testing.T) {
	invalid := apierrors.NewInvalid(runtimeschema.GroupKind{Kind: "A"}, "a", field.ErrorList{
		field.Required(field.NewPath("spec", "x"), "needed"), field.NotSupported(field.NewPath("spec", "y"), "b", []string{"c"})})
	unnamed := apierrors.NewInvalid(runtimeschema.GroupKind{Kind: "A"}, "a", nil)
	unnamed.ErrStatus.Details.Causes = []metav1.StatusCause{{Message: "something is wrong"}}
	for _, c := range []struct {
		err          error
		errors, want string
	}{
		{invalid, `[{path: spec.x, rule: required, message: "spec.x: Required value: needed"}, {path: spec.y, rule: enum}]`, ""},
		{invalid, `[{path: spec.x, rule: FieldValueRequired}, {path: spec.y}]`, ""},
		{invalid, `[{path: spec.x}]`, "rejected for other reasons as well|spec.y: Unsupported value: \"b\": supported values: \"c\""},
		{unnamed, `[something]`, ""},
		{unnamed, `[other]`, `rejected, but not for this reason|- message "other"|+ something is wrong`},
		{apierrors.NewInvalid(runtimeschema.GroupKind{Kind: "A"}, "a", nil), `[other]`, `rejected, but not for this reason|- message "other"|+ A "a" is invalid`},
		{apierrors.NewBadRequest("no JSON"), `[other]`, `rejected, but not for this reason|- message "other"|+ no JSON`},
		{errors.New("plain"), `[plain]`, ""},
	} {
		s, wrong := suite.Parse(toJSON(t, head+"invalid: [{name: a, errors: "+c.errors+"}]"), noFiles)
		if len(wrong) > 0 {
			t.Fatal(wrong)
		}
		r := suite.NewRunnerFor(s, rejecting{c.err}, metav1.TypeMeta{}, suite.Options{})
		got := ""
		for _, f := range r.Run(t.Context(), s.Cases[0]) {
			got += strings.Join(append([]string{f.Message}, f.Detail...), "|")
		}
		if got != c.want {
			t.Errorf("%v with %s: got %s, want %s", fmt.Sprint(c.err), c.errors, got, c.want)
		}
	}
}

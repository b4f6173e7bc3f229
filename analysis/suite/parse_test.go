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
	"espalier.dev/analysis/internal/analysistest"
	"espalier.dev/analysis/suite"
	"espalier.dev/crd/cel"
	"espalier.dev/schema"
)

// TestBrokenDefinitions checks the errors about CRDs that cannot be decoded, and what suites of
// OpenShift tolerate.
func TestBrokenDefinitions(t *testing.T) {
	own, _ := suite.Parse(analysistest.JSON(t, head+"valid: [{name: a}]"), noFiles)
	openshift, _ := suite.Parse(analysistest.JSON(t, "crdName: x\ntests: {}"), noFiles)
	gated := strings.Replace(crontab(t), "metadata: {", "metadata: {annotations: {feature-gate.release.openshift.io/A=B: x}, ", 1)
	odd := strings.Replace(crontab(t), "metadata: {", "metadata: {annotations: {other.release.openshift.io/A=B: x}, ", 1)
	for _, c := range []struct {
		suite *suite.Suite
		text  []byte
		want  string // a part of the error
	}{
		{own, []byte("{"), "invalid JSON"},
		{own, []byte(`{"apiVersion":"apiextensions.k8s.io/v1","spec":7}`), "spec: expected an object, got 7"},
		{own, []byte(`{"apiVersion":"apiextensions.k8s.io/v1beta1","spec":7}`), "spec: expected an object, got 7"},
		{own, analysistest.JSON(t, gated), "annotations"},
		{openshift, analysistest.JSON(t, gated), ""},
		{openshift, analysistest.JSON(t, odd), "annotations"},
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
		s, wrong := suite.Parse(analysistest.JSON(t, head+"invalid: [{name: a, errors: "+c.errors+"}]"), noFiles)
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

// TestOpenShiftVersion checks that a suite tests the version that it names, and no other.
func TestOpenShiftVersion(t *testing.T) {
	two := strings.Replace(crontab(t), "  versions:\n", "  versions:\n  - {name: v2, served: false, storage: false, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {image: {type: string}}}}}}}\n", 1)
	for version, want := range map[string]string{"v1": "", "v2": "", "v3": `crontabs.stable.example.com has no version "v3"`} {
		s, _ := suite.Parse(analysistest.JSON(t, "crdName: x\nversion: "+version+"\ntests: {onCreate: [{name: a, initial: '{apiVersion: stable.example.com/"+version+", kind: CronTab, spec: {image: a}}',"+
			"expected: '{apiVersion: stable.example.com/"+version+", kind: CronTab, spec: {image: a}}'}]}"), noFiles)
		r, err := suite.NewRunner(t.Context(), s, analysistest.JSON(t, two), suite.Options{Rules: cel.Checker{}})
		if err != nil || want != "" {
			if fmt.Sprint(err) != want {
				t.Errorf("%s: %v", version, err)
			}
			continue
		}
		found := r.Run(t.Context(), s.Cases[0])
		if differs := len(found) == 1 && found[0].Message == "the stored object differs"; differs != (version == "v1") {
			t.Errorf("%s: %v", version, found) // only v1 has a default
		}
	}
}

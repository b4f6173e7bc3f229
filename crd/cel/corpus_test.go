package cel_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/internal/testcase"
	"espalier.dev/schema"
)

// TestCorpus validates CRDs that are in use, with their rules. What Kubernetes accepts, kep
// accepts too: no CRD of the corpus has a schema that a design document shows being rejected.
func TestCorpus(t *testing.T) {
	t.Run("M-03", func(t *testing.T) {
		dir := testcase.Corpus(t)
		files, err := filepath.Glob(filepath.Join(dir, "v1*", "*", "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if len(files) < 1000 {
			t.Fatalf("only %d CRDs in %s", len(files), dir)
		}
		accepted, rules := 0, 0
		for _, file := range files {
			validate := create(t, file)
			if validate == nil {
				continue
			}
			checker := &counter{}
			if len(validate(crd.Options{Semantics: schema.Kubernetes, Rules: checker})) > 0 {
				continue
			}
			accepted++
			rules += checker.rules
			if errs := validate(crd.Options{Semantics: schema.KEP, Rules: cel.Checker{}}); len(errs) > 0 {
				t.Errorf("%s: accepted in kubernetes semantics, rejected in kep: %v", file, errs)
			}
		}
		t.Logf("%d CRDs, %d accepted, with %d rules", len(files), accepted, rules)
		if accepted < len(files)/2 || rules < 500 {
			t.Errorf("only %d of %d CRDs are accepted, with %d rules: the test proves little", accepted, len(files), rules)
		}
	})
}

// create returns a function that validates the creation of a CRD, or nil if it cannot be
// read.
func create(t *testing.T, file string) func(crd.Options) field.ErrorList {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	data, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	var meta metav1.TypeMeta
	if err := api.Unmarshal(data, &meta); err != nil {
		t.Fatal(err)
	}
	if meta.APIVersion == v1beta1.APIVersion {
		c := &v1beta1.CustomResourceDefinition{}
		if api.Unmarshal(data, c) != nil {
			return nil
		}
		c.Status = api.CustomResourceDefinitionStatus{}
		v1beta1.SetDefaults(c)
		return func(o crd.Options) field.ErrorList {
			return crd.ValidateCreateV1beta1(context.Background(), c, o).Errors
		}
	}
	c := &api.CustomResourceDefinition{}
	if api.Unmarshal(data, c) != nil {
		return nil
	}
	api.SetDefaults(c)
	crd.PrepareCreate(c)
	return func(o crd.Options) field.ErrorList { return crd.ValidateCreate(context.Background(), c, o).Errors }
}

// counter is a Checker that counts the rules.
type counter struct {
	cel.Checker
	rules int
}

func (c *counter) CheckRules(ctx context.Context, check crd.RuleCheck) *schema.RuleReport {
	for _, s := range check.Root.All() {
		c.rules += len(s.XValidations)
	}
	return c.Checker.CheckRules(ctx, check)
}

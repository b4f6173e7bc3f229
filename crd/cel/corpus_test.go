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
// What is accepted can be compiled. The short run takes a part of the corpus.
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
		least := 500
		if testing.Short() {
			files, least = testcase.Part(files), 50
		}
		accepted, rules := 0, 0
		for _, file := range files {
			hub, validate := create(t, file)
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
			for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
				d, err := crd.New(hub, crd.Options{Semantics: sem, IgnoreRules: true})
				if err != nil {
					t.Errorf("%s: %v", file, err)
					continue
				}
				for _, v := range d.Versions() {
					if _, err := v.Program(); err != nil {
						t.Errorf("%s: %v", file, err)
					}
				}
			}
		}
		t.Logf("%d CRDs, %d accepted, with %d rules", len(files), accepted, rules)
		if accepted < len(files)/2 || rules < least {
			t.Errorf("only %d of %d CRDs are accepted, with %d rules: the test proves little", accepted, len(files), rules)
		}
	})
}

// create returns a CRD, and a function that validates its creation, or nil if it cannot be read.
func create(t *testing.T, file string) (*api.CustomResourceDefinition, func(crd.Options) field.ErrorList) {
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
			return nil, nil
		}
		c.Status = api.CustomResourceDefinitionStatus{}
		v1beta1.SetDefaults(c)
		hub, err := v1beta1.ToV1(c)
		if err != nil {
			t.Fatal(err)
		}
		return hub, func(o crd.Options) field.ErrorList {
			return crd.ValidateCreateV1beta1(context.Background(), c, o).Errors
		}
	}
	c := &api.CustomResourceDefinition{}
	if api.Unmarshal(data, c) != nil {
		return nil, nil
	}
	api.SetDefaults(c)
	crd.PrepareCreate(c)
	return c, func(o crd.Options) field.ErrorList { return crd.ValidateCreate(context.Background(), c, o).Errors }
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

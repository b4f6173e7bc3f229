package crd_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
	"espalier.dev/crd"
	"espalier.dev/internal/testcase"
	"espalier.dev/schema"
)

// judged is a definition of the corpus with what both semantics say of it.
type judged struct {
	hub     *api.CustomResourceDefinition
	results map[schema.Semantics]crd.Result
}

// judge reads a definition and judges it as one to create. It returns nil if it
// cannot be read.
func judge(t *testing.T, file string) *judged {
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
	out := &judged{results: map[schema.Semantics]crd.Result{}}
	if meta.APIVersion == v1beta1.APIVersion {
		c := &v1beta1.CustomResourceDefinition{}
		if api.Unmarshal(data, c) != nil {
			return nil
		}
		c.Status = api.CustomResourceDefinitionStatus{}
		v1beta1.SetDefaults(c)
		for _, sem := range both {
			out.results[sem] = crd.ValidateCreateV1beta1(context.Background(), c, crd.Options{Semantics: sem, IgnoreRules: true})
		}
		out.hub = stored(t, c)
		return out
	}
	c := &api.CustomResourceDefinition{}
	if api.Unmarshal(data, c) != nil {
		return nil
	}
	api.SetDefaults(c)
	crd.PrepareCreate(c)
	for _, sem := range both {
		out.results[sem] = crd.ValidateCreate(context.Background(), c, crd.Options{Semantics: sem, IgnoreRules: true})
	}
	out.hub = c
	return out
}

// TestCorpus judges definitions that are in use. What Kubernetes accepts is accepted,
// and what is accepted compiles.
func TestCorpus(t *testing.T) {
	dir := testcase.Corpus(t)
	for _, version := range []string{"v1", "v1beta1"} {
		files, err := filepath.Glob(filepath.Join(dir, version, "*", "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if len(files) == 0 {
			t.Skipf("no corpus at %s; set ESPALIER_CORPUS to where it is", dir)
		}
		files = testcase.Part(files)
		accepted, kep, unreadable := 0, 0, 0
		for _, file := range files {
			j := judge(t, file)
			if j == nil {
				unreadable++
				continue
			}
			ok := len(j.results[schema.Kubernetes].Errors) == 0
			if ok {
				accepted++
			}
			if errs := j.results[schema.KEP].Errors; len(errs) == 0 {
				kep++
			} else if ok {
				t.Errorf("%s: accepted by Kubernetes, rejected by the documents: %v", file, errs)
			}
			for _, sem := range both {
				if len(j.results[sem].Errors) > 0 {
					continue
				}
				d, err := crd.New(j.hub, crd.Options{Semantics: sem, IgnoreRules: true})
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
		t.Logf("%s: %d definitions, %d unreadable, %d accepted by Kubernetes, %d by the documents", version, len(files), unreadable, accepted, kep)
	}
}

package impact_test

import (
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"espalier.dev/analysis/impact"
	"espalier.dev/analysis/internal/analysistest"
	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/internal/testcase"
	"espalier.dev/schema"

	"sigs.k8s.io/yaml"
)

// TestCorpus compares each real CRD with itself and with the previous one of the same name,
// which often is from another release. To save time, it compares each name under only one of
// the semantics, and of a part of the corpus some names.
func TestCorpus(t *testing.T) {
	dir := testcase.Corpus(t)
	var files []string
	for _, version := range []string{"v1beta1", "v1"} {
		found, err := filepath.Glob(filepath.Join(dir, version, "*", "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		t.Skip("there is no corpus: see ESPALIER_CORPUS")
	}
	last := map[string]*api.CustomResourceDefinition{}
	verdicts := map[impact.Class]int{}
	compared := 0
	for _, file := range files {
		// The files of a CRD have its name, in every release.
		sum := crc32.ChecksumIEEE([]byte(filepath.Base(file)))
		if sum%16 >= 2 && !testcase.WholeCorpus() || testing.Short() && sum%64 >= 2 {
			continue
		}
		o := impact.Options{Semantics: schema.KEP}
		if sum%2 == 0 {
			o.Semantics = schema.Kubernetes
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		json, err := yaml.YAMLToJSON(text)
		if err != nil {
			continue
		}
		d, err := codec.DecodeLenient(json)
		if err != nil {
			continue
		}
		compared++
		same, err := impact.Compare(t.Context(), d, d.DeepCopy(), o)
		if err != nil {
			t.Errorf("%s: %v", filepath.Base(file), err)
			continue
		}
		if len(same.Changes) > 0 {
			t.Errorf("%s differs from itself: %s %s", filepath.Base(file), same.Changes[0].Place(), same.Changes[0].Message)
		}
		if old := last[d.Name]; old != nil {
			c, err := impact.Compare(t.Context(), old, d, o)
			if err != nil {
				t.Errorf("%s: %v", filepath.Base(file), err)
				continue
			}
			for i := range c.Changes {
				verdicts[c.Changes[i].Class()]++
			}
		}
		last[d.Name] = d
	}
	t.Logf("%d definitions; verdicts on changes between releases: %v", compared, verdicts)
	if verdicts[impact.Safe] == 0 || verdicts[impact.Loses] == 0 {
		t.Error("releases without a change: the corpus proves nothing")
	}
}

// TestCorpusPreserves compares releases whose CRDs are in v1beta1 and do not prune: no change
// of their schemas loses data.
func TestCorpusPreserves(t *testing.T) {
	dir := testcase.Corpus(t)
	read := func(release string) map[string]*api.CustomResourceDefinition {
		files, err := filepath.Glob(filepath.Join(dir, "v1beta1", release, "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]*api.CustomResourceDefinition{}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			d := analysistest.CRD(t, string(text))
			all[d.Name] = d
		}
		return all
	}
	old, new := read("strimzi@0.9.0"), read("strimzi@0.11.0")
	if len(old) == 0 {
		t.Skip("there is no corpus: see ESPALIER_CORPUS")
	}
	changes := 0
	for name, n := range new {
		if old[name] == nil {
			continue
		}
		for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
			c, err := impact.Compare(t.Context(), old[name], n, impact.Options{Semantics: sem})
			if err != nil {
				t.Fatal(err)
			}
			for i := range c.Changes {
				changes++
				if ch := &c.Changes[i]; ch.Class() == impact.Loses {
					t.Errorf("%s, %s: %s: %s: %s", name, sem, ch.Place(), ch.Class(), ch.Message)
				}
			}
		}
	}
	if changes < 20 {
		t.Errorf("only %d changes: the corpus proves nothing", changes)
	}
}

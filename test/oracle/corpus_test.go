package oracle

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"espalier.dev/internal/testcase"
)

// corpus is the directory of the corpus, with the objects of each CRD.
type corpus struct {
	dir     string
	objects map[string][]corpusObject
}

// readCorpus reads the index of the corpus, or skips the test.
func readCorpus(t testing.TB) *corpus {
	t.Helper()
	dir := testcase.Corpus(t)
	objects, err := readIndex(filepath.Join(dir, "CR_INDEX.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	return &corpus{dir, objects}
}

// files returns the CRDs of a version, relative to the corpus.
func (c *corpus) files(t testing.TB, version string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(c.dir, version, "*", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range files {
		files[i], _ = filepath.Rel(c.dir, files[i])
	}
	return files
}

// read reads a CRD as a tree.
func (c *corpus) read(t testing.TB, file string) map[string]any {
	t.Helper()
	tree, err := readYAML(filepath.Join(c.dir, file))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return tree
}

// readYAML reads the single document of a file as a tree.
func readYAML(path string) (map[string]any, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if b, err = yaml.YAMLToJSON(b); err != nil {
		return nil, err
	}
	var m map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(b, &m); err != nil {
		return nil, err
	}
	return m, nil
}

// corpusVersion is one version of a CRD.
type corpusVersion struct {
	base   Case
	schema bool
}

// versions lists the versions of a CRD of either API version.
func versions(file string, crd map[string]any) []corpusVersion {
	spec, _ := crd["spec"].(map[string]any)
	if spec == nil {
		return nil
	}
	beta := strings.HasSuffix(str(crd["apiVersion"]), "/v1beta1")
	names, _ := spec["names"].(map[string]any)
	top := schemaOf(spec["validation"])
	preserve, set := spec["preserveUnknownFields"].(bool)
	if !set {
		preserve = beta
	}
	var list []map[string]any
	if vs, ok := spec["versions"].([]any); ok {
		for _, v := range vs {
			if v, ok := v.(map[string]any); ok {
				list = append(list, v)
			}
		}
	}
	if len(list) == 0 && beta {
		list = append(list, map[string]any{"name": spec["version"]})
	}
	var out []corpusVersion
	for _, v := range list {
		s := schemaOf(v["schema"])
		if s == nil {
			s = top
		}
		out = append(out, corpusVersion{
			schema: s != nil,
			base: Case{
				Name:       file + " " + str(v["name"]),
				Schema:     s,
				Kind:       schema.GroupVersionKind{Group: str(spec["group"]), Version: str(v["name"]), Kind: str(names["kind"])},
				Namespaced: spec["scope"] != "Cluster",
				Preserve:   preserve,
			},
		})
	}
	return out
}

func str(v any) string {
	s, _ := v.(string)
	return s
}

// corpusCount counts the comparisons.
type corpusCount struct {
	crds, versions, structural, withoutForm, objects, mutated, updates, valid, skipped int
	retries                                                                            int
	known                                                                              map[string]int
}

func TestCorpus(t *testing.T) {
	mutations := int(setting(t, "ORACLE_MUTATIONS", 3))
	c := readCorpus(t)
	crds := testcase.Part(append(c.files(t, "v1"), c.files(t, "v1beta1")...))
	var (
		found collector
		mu    sync.Mutex
		total = corpusCount{crds: len(crds), known: map[string]int{}}
	)
	parallel(uint64(len(crds)), func(i uint64) bool {
		crd, count := crds[i], corpusCount{}
		differences, err := compareCRD(c.dir, crd, c.objects[crd], mutations, &count)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			t.Errorf("%s: %v", crd, err)
		}
		for _, d := range differences {
			if d.Known != "" {
				total.known[d.Known]++
			} else {
				found.add(d)
			}
		}
		total.versions += count.versions
		total.structural += count.structural
		total.withoutForm += count.withoutForm
		total.objects += count.objects
		total.mutated += count.mutated
		total.updates += count.updates
		total.valid += count.valid
		total.skipped += count.skipped
		total.retries += count.retries
		return true
	})
	t.Logf("compared %d CRDs with %d versions (%d structural, %d without a structural form), %d objects (%d valid), %d changed copies, %d updates; %d objects skipped: their CRD does not have their version, or has no schema; reference asked again %d times; known differences: %v",
		total.crds, total.versions, total.structural, total.withoutForm, total.objects, total.valid, total.mutated, total.updates, total.skipped, total.retries, total.known)
	found.report(t)
	if total.crds < 100 || total.objects < 100 || testcase.WholeCorpus() && (total.crds < 1000 || total.objects < 1500) {
		t.Errorf("the corpus has 1,114 CRDs and 1,784 objects; only %d and %d were compared", total.crds, total.objects)
	}
}

// corpusObject is a line of the index.
type corpusObject struct{ file, apiVersion, kind string }

// readIndex returns the objects of each CRD.
func readIndex(path string) (map[string][]corpusObject, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := map[string][]corpusObject{}
	for s := bufio.NewScanner(f); s.Scan(); {
		if c := strings.Split(s.Text(), "\t"); len(c) == 4 && c[0] != "cr_file" {
			out[c[1]] = append(out[c[1]], corpusObject{c[0], c[2], c[3]})
		}
	}
	return out, nil
}

// compareCRD compares all versions of a CRD, and its objects.
func compareCRD(dir, file string, objects []corpusObject, mutations int, count *corpusCount) ([]*Difference, error) {
	crd, err := readYAML(filepath.Join(dir, file))
	if err != nil {
		return nil, err
	}
	var out []*Difference
	pairs := map[string]*pair{}
	for _, v := range versions(file, crd) {
		count.versions++
		if v.schema {
			out = append(out, compareStructural(v.base)...)
			props, err := ReferenceSchema(encode(v.base.Schema))
			if err != nil {
				return out, err
			}
			_, errs, err := ReferenceStructural(props)
			switch {
			case err != nil:
				count.withoutForm++
				continue
			case len(errs) == 0:
				count.structural++
			}
		}
		p, more := newPair(v.base)
		out = append(out, more...)
		if p != nil {
			pairs[v.base.Kind.GroupVersion().String()] = p
		}
	}
	for i, o := range objects {
		p := pairs[o.apiVersion]
		if p == nil {
			count.skipped++
			continue
		}
		obj, err := readYAML(filepath.Join(dir, o.file))
		if err != nil {
			return out, fmt.Errorf("%s: %w", o.file, err)
		}
		g := &gen{r: rand.New(rand.NewPCG(uint64(len(file)), uint64(i)))}
		doc := encode(obj)
		decoded, more := p.check(Case{Name: o.file, Doc: doc})
		out = append(out, more...)
		count.objects++
		if decoded != nil && len(p.ref.Validate(decoded, nil)) == 0 {
			count.valid++
		}
		previous := doc
		for range mutations {
			var v any = parse(previous)
			if g.chance(50) {
				v = clone(obj)
			}
			g.mutate(&v, 1+g.r.IntN(3))
			c := Case{Name: o.file + " changed", Doc: encode(v)}
			switch {
			case g.chance(30):
				c.Old = previous
				count.updates++
			case g.chance(15):
				c.Mode = FromStorage
			}
			_, more := p.check(c)
			out = append(out, more...)
			previous = c.Doc
			count.mutated++
		}
	}
	for _, p := range pairs {
		count.retries += p.retries
	}
	slices.SortStableFunc(out, func(a, b *Difference) int { return strings.Compare(a.Case.Name, b.Case.Name) })
	return out, nil
}

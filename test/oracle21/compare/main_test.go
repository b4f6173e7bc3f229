package compare

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/yaml"

	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
	"espalier.dev/internal/testcase"
	"espalier.dev/schema"
)

// referenceProgram is the path of the reference, built once for all tests.
var referenceProgram string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "oracle21")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if referenceProgram, err = Build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// corpusDir returns the directory of the corpus, or skips the test.
func corpusDir(t testing.TB) string {
	t.Helper()
	return testcase.Corpus(t)
}

// setting reads a number from the environment.
func setting(t testing.TB, name string, unset int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return unset
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// inParallel runs n tasks on several goroutines, each with its own reference process, and
// reports the differences.
func inParallel(t *testing.T, n int, do func(p *pair, i int) error) Count {
	var (
		mu    sync.Mutex
		wg    sync.WaitGroup
		next  int
		total Count
		found []*Difference
	)
	for range min(n, runtime.GOMAXPROCS(0)) {
		ref, err := Start(referenceProgram)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			defer func() {
				if err := ref.Close(); err != nil {
					t.Errorf("the reference: %v", err)
				}
			}()
			p := &pair{ref: ref}
			for {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= n {
					break
				}
				if err := do(p, i); err != nil {
					t.Error(err)
					break
				}
			}
			mu.Lock()
			defer mu.Unlock()
			total.add(p.count)
			found = append(found, p.found...)
		})
	}
	wg.Wait()
	report(t, found)
	return total
}

// report fails the test if there are differences that no drift explains, and counts the
// others.
func report(t *testing.T, found []*Difference) {
	t.Helper()
	drifts, unexplained := map[string]int{}, 0
	slices.SortStableFunc(found, func(a, b *Difference) int { return strings.Compare(a.Case+a.What, b.Case+b.What) })
	limit := setting(t, "ORACLE21_REPORT", 20)
	for _, d := range found {
		if d.Drift != "" {
			drifts[d.Drift]++
			continue
		}
		if unexplained++; unexplained <= limit {
			t.Error(d)
		}
	}
	if unexplained > limit {
		t.Errorf("%d more differences; set ORACLE21_REPORT to the number to print", unexplained-limit)
	}
	t.Logf("drifts: %v", drifts)
}

// corpusFile is a v1beta1 CRD of the corpus with its objects.
type corpusFile struct {
	name    string
	data    []byte
	objects [][]byte
}

// readCorpus reads a part of the corpus.
func readCorpus(t *testing.T) []corpusFile {
	t.Helper()
	dir := corpusDir(t)
	names, err := filepath.Glob(filepath.Join(dir, "v1beta1", "*", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	names = testcase.Part(names)
	index, err := os.Open(filepath.Join(dir, "CR_INDEX.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	defer index.Close()
	read := func(file string) []byte {
		data, err := os.ReadFile(file)
		if err == nil {
			data, err = yaml.YAMLToJSON(data)
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		return data
	}
	objects := map[string][][]byte{}
	for s := bufio.NewScanner(index); s.Scan(); {
		if c := strings.Split(s.Text(), "\t"); len(c) == 4 && slices.Contains(names, filepath.Join(dir, c[1])) {
			objects[c[1]] = append(objects[c[1]], read(filepath.Join(dir, c[0])))
		}
	}
	var out []corpusFile
	for _, file := range names {
		rel, err := filepath.Rel(dir, file)
		if err != nil {
			t.Fatal(err)
		}
		rel = filepath.ToSlash(rel)
		out = append(out, corpusFile{rel, read(file), objects[rel]})
	}
	return out
}

// TestCorpus compares v1beta1 CRDs of the corpus: reading, defaults, conversion,
// creation, its schemas, and its objects.
func TestCorpus(t *testing.T) {
	files := readCorpus(t)
	changes := setting(t, "ORACLE21_MUTATIONS", 3)
	count := inParallel(t, len(files), func(p *pair, i int) error {
		return compareFile(p, files[i], changes)
	})
	t.Logf("compared %+v", count)
	if count.Definitions < 60 || count.Objects < 50 || testcase.WholeCorpus() && (count.Definitions < 590 || count.Objects < 1000) {
		t.Errorf("the corpus has 592 v1beta1 CRDs and 520 objects for them; only %d and %d were compared", count.Definitions, count.Objects)
	}
}

func compareFile(p *pair, f corpusFile, changes int) error {
	def, _, err := p.definition(f.name, f.data, "")
	if err != nil || def == nil {
		return err
	}
	if _, err := p.create(f.name, f.data, ""); err != nil {
		return err
	}
	hub, err := v1beta1.ToV1(def)
	if err != nil {
		return err
	}
	for _, v := range hub.Spec.Versions {
		var props *api.JSONSchemaProps
		if v.Schema != nil {
			props = v.Schema.OpenAPIV3Schema
		}
		name := f.name + " " + v.Name
		isStructural, hasForm := true, true
		if props != nil {
			if isStructural, hasForm, err = p.schema(name, props); err != nil {
				return err
			}
		}
		if !hasForm {
			continue
		}
		id := schema.Identity{APIVersion: hub.Spec.Group + "/" + v.Name, Kind: hub.Spec.Names.Kind, Namespaced: hub.Spec.Scope == api.NamespaceScoped}
		var objs []ObjectRequest
		for i, data := range f.objects {
			if object(data)["apiVersion"] == id.APIVersion {
				objs = append(objs, changed(data, uint64(len(f.name)), uint64(i), changes)...)
			}
		}
		if len(objs) == 0 {
			continue
		}
		if err := p.objects(name, props, id, hub.Spec.PreserveUnknownFields, objs); err != nil {
			return err
		}
		if hub.Spec.PreserveUnknownFields && isStructural {
			if err := p.objects(name, props, id, false, objs); err != nil {
				return err
			}
		}
	}
	return nil
}

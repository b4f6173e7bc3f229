package custom

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"espalier.dev/api/codec"
	"espalier.dev/crd"
	"espalier.dev/internal/jsonx"
	"espalier.dev/internal/testcase"
	"espalier.dev/schema"
)

// testKind returns a function that returns the Kinds of a CRD without a webhook.
func testKind(t testing.TB, d *crd.Definition) func(version string) *customKind {
	t.Helper()
	made := map[string]Kind{}
	var kinds *customKinds
	kind := func(version string) (Kind, error) {
		if k, ok := made[version]; ok {
			return k, nil
		}
		v := d.Version(version)
		if v == nil {
			return nil, errors.New("no such version")
		}
		k, err := kinds.Kind(v)
		made[version] = k
		return k, err
	}
	kinds = &customKinds{definition: d, converter: relabel{}, kind: kind}
	return func(version string) *customKind {
		k, err := kind(version)
		if err != nil {
			t.Fatal(err)
		}
		return k.(*customKind)
	}
}

// slowView is the definition of a view: decode, set the resourceVersion, encode.
func slowView(k *customKind, value []byte) ([]byte, error) {
	obj, err := k.DecodeStored(value)
	if err != nil {
		return nil, err
	}
	obj.(*unstructured.Unstructured).SetResourceVersion("7")
	return json.Marshal(obj)
}

// compareView compares the view of a value with its definition, in all versions.
func compareView(t *testing.T, d *crd.Definition, kind func(string) *customKind, value []byte) {
	t.Helper()
	for _, version := range d.Versions() {
		k := kind(version.Name())
		want, wantErr := slowView(k, value)
		v, err := k.view(value)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%s %s: %v instead of %v: %.3000s", d.Name(), version.Name(), err, wantErr, value)
		}
		if err != nil {
			continue
		}
		got := v.append(nil, 7)
		if !bytes.Equal(append(got, '\n'), want) && !bytes.Equal(got, want) {
			t.Fatalf("%s %s:\n%.3000s\nis\n%.3000s\ninstead of\n%.3000s", d.Name(), version.Name(), value, got, want)
		}
		if len(got) != v.size(7) {
			t.Fatalf("%s: %d bytes, not %d", d.Name(), len(got), v.size(7))
		}
	}
}

// TestViewsOfCorpus compares the views of all objects of the corpus, as they are stored and
// after random changes, with what decoding and encoding them gives.
func TestViewsOfCorpus(t *testing.T) {
	root := testcase.Corpus(t)
	index, err := os.ReadFile(filepath.Join(root, "CR_INDEX.tsv"))
	if err != nil {
		t.Skipf("SKIPPED: there is no corpus in %s (ESPALIER_CORPUS names another place)", root)
	}
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err == nil {
			data, err = yaml.YAMLToJSON(data)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return data
	}
	step := 8
	if testing.Short() {
		step = 20
	}
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	definitions := map[string]*crd.Definition{}
	stored, unchanged := 0, 0
	for i, line := range strings.Split(strings.TrimSpace(string(index)), "\n")[1:] {
		if i%step != int(seed%uint64(step)) {
			continue
		}
		columns := strings.Split(line, "\t")
		d := definitions[columns[1]]
		if d == nil {
			c, err := codec.DecodeLenient(read(columns[1]))
			if err != nil {
				t.Fatalf("%s: %v", columns[1], err)
			}
			c.Status.AcceptedNames = c.Spec.Names
			if d, err = crd.New(c, crd.Options{Semantics: schema.Kubernetes, IgnoreRules: true}); err != nil {
				t.Fatalf("%s: %v", columns[1], err)
			}
			definitions[columns[1]] = d
		}
		kind := testKind(t, d)
		var id struct{ APIVersion string }
		source := read(columns[0])
		if json.Unmarshal(source, &id) != nil {
			continue
		}
		_, version, _ := strings.Cut(id.APIVersion, "/")
		if d.Version(version) == nil || d.Storage() == nil {
			continue
		}
		obj, _, err := kind(version).Decode(source, schema.DecodeOptions{})
		if err != nil {
			continue
		}
		meta := obj.(*unstructured.Unstructured)
		meta.SetUID("1")
		meta.SetGeneration(1)
		var b bytes.Buffer
		if err := kind(version).EncodeStored(obj, nil, &b); err != nil {
			continue
		}
		stored++
		if v := kind(d.Storage().Name()).unchanged(b.Bytes()); v != nil {
			unchanged++
		}
		compareView(t, d, kind, b.Bytes())
		for range 8 {
			tree, err := jsonx.Parse(b.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			for range 1 + random.IntN(3) {
				change(random, tree.(map[string]any))
			}
			text, err := json.Marshal(tree)
			if err != nil {
				t.Fatal(err)
			}
			compareView(t, d, kind, text)
		}
		for range 3 {
			text := bytes.Clone(b.Bytes())
			at := random.IntN(len(text))
			text[at] = " \"{}[],:01ax\\\n<\xc3"[random.IntN(15)]
			compareView(t, d, kind, text)
		}
	}
	t.Logf("%d objects, %d are returned as they are stored", stored, unchanged)
	if stored < 20 || unchanged < stored*9/10 {
		t.Error("too few are returned as they are stored")
	}
}

// change changes a random value in a tree.
func change(random *rand.Rand, tree map[string]any) {
	at := tree
	for {
		var keys []string
		for k := range tree {
			keys = append(keys, k)
		}
		if len(keys) == 0 {
			at["added"] = map[string]any{"x": int64(1)}
			return
		}
		key := keys[random.IntN(len(keys))]
		below, ok := tree[key].(map[string]any)
		if list, isList := tree[key].([]any); isList && len(list) > 0 {
			below, ok = list[random.IntN(len(list))].(map[string]any)
		}
		if ok && random.IntN(4) > 0 {
			at, tree = below, below
			continue
		}
		values := []any{nil, true, int64(3), 1.5, "text", "<&>", []any{}, []any{nil}, map[string]any{}, map[string]any{"unknown": "x"}}
		switch random.IntN(3) {
		case 0:
			delete(tree, key)
		case 1:
			tree[key] = values[random.IntN(len(values))]
		default:
			tree[[]string{"unknown", "labels", "generation", "resourceVersion", "metadata"}[random.IntN(5)]] = values[random.IntN(len(values))]
		}
		return
	}
}

// TestLateProgram checks that a schema is compiled for the first object, not to list an empty collection.
func TestLateProgram(t *testing.T) {
	t.Parallel()
	s := newWidgetServer(t, widgetCRD, schema.KEP)
	compiled := func() bool {
		return s.handler.servings["widgets.example.com"].made["v1"].(*customKind).compiled.Load() != nil
	}
	if w := sendTo(s, http.MethodGet, widgetPath, "", ""); w.Code != http.StatusOK || compiled() {
		t.Errorf("%d %s, compiled %v", w.Code, w.Body, compiled())
	}
	body := `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"}}`
	if w := sendTo(s, http.MethodPost, widgetPath, "application/json", body); w.Code != http.StatusCreated || !compiled() {
		t.Errorf("%d %s, compiled %v", w.Code, w.Body, compiled())
	}
}

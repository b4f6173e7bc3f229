package api_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
	"espalier.dev/internal/testcase"
)

// corpus calls f with the definitions of a version in a part of the corpus, as JSON.
func corpus(t *testing.T, version string, f func(t *testing.T, file string, data []byte)) {
	root := testcase.Corpus(t)
	files, err := filepath.Glob(filepath.Join(root, version, "*", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	files = testcase.Part(files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		data, err := yaml.YAMLToJSON(text)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		f(t, strings.TrimPrefix(file, root), data)
	}
	if len(files) == 0 {
		t.Skipf("no corpus of definitions in %s; ESPALIER_CORPUS says where it is", root)
	}
	t.Logf("%d definitions", len(files))
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// roundTrip checks that data means the same after it was a T, save for fields that
// T does not have, and returns the T.
func roundTrip[T any](t *testing.T, file string, data []byte, unknown map[string]int) *T {
	crd := new(T)
	if err := api.Unmarshal(data, crd); err != nil {
		t.Errorf("%s: %v", file, err)
		return nil
	}
	want, dropped := meaning[T](t, data)
	got, invented := meaning[T](t, encode(t, crd))
	if diff := differences(got, want, ""); diff != nil {
		t.Errorf("%s:\n%s", file, strings.Join(diff, "\n"))
	}
	if invented != nil {
		t.Errorf("%s: new fields: %v", file, invented)
	}
	for _, path := range dropped {
		unknown[path[strings.LastIndexByte(path, '.')+1:]]++
	}
	return crd
}

func TestCorpus(t *testing.T) {
	if testing.Short() {
		t.Skip("uses the corpus")
	}
	t.Run("v1", func(t *testing.T) {
		unknown := map[string]int{}
		corpus(t, "v1", func(t *testing.T, file string, data []byte) {
			hub := roundTrip[api.CustomResourceDefinition](t, file, data, unknown)
			if hub == nil {
				return
			}
			api.SetDefaults(hub)
			back, err := v1beta1.ToV1(v1beta1.FromV1(hub))
			if err != nil {
				t.Errorf("%s: %v", file, err)
				return
			}
			if diff := differences(generic(t, encode(t, back)), generic(t, encode(t, hub)), ""); diff != nil {
				t.Errorf("%s, by way of v1beta1:\n%s", file, strings.Join(diff, "\n"))
			}
			if !reflect.DeepEqual(hub, hub.DeepCopy()) {
				t.Errorf("%s: the copy is not equal", file)
			}
		})
		t.Logf("fields that the types do not have: %v", unknown)
	})
	t.Run("v1beta1", func(t *testing.T) {
		unknown, malformed := map[string]int{}, 0
		corpus(t, "v1beta1", func(t *testing.T, file string, data []byte) {
			crd := roundTrip[v1beta1.CustomResourceDefinition](t, file, data, unknown)
			if crd == nil {
				return
			}
			v1beta1.SetDefaults(crd)
			hub, err := v1beta1.ToV1(crd)
			if err != nil {
				t.Errorf("%s: %v", file, err)
				return
			}
			// By way of JSON, as a client does who reads it as v1 and writes it.
			read := &api.CustomResourceDefinition{}
			if err := api.Unmarshal(encode(t, hub), read); err != nil {
				t.Errorf("%s: %v", file, err)
				return
			}
			back := v1beta1.FromV1(read)
			if v1beta1.CheckForm(crd) != nil {
				malformed++ // and so comes back in another form
				return
			}
			if diff := differences(generic(t, encode(t, back)), generic(t, encode(t, crd)), ""); diff != nil {
				t.Errorf("%s, by way of v1:\n%s", file, strings.Join(diff, "\n"))
			}
		})
		t.Logf("fields that the types do not have: %v; %d in a form that v1beta1 forbids", unknown, malformed)
	})
}

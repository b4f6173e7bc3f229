package manifest_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"espalier.dev/api/manifest"
)

const things = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"things.example.com"}}`

func TestParse(t *testing.T) {
	nested := func(depth int) string {
		return strings.Repeat(`{"kind":"List","items":[`, depth) + things + strings.Repeat("]}", depth)
	}
	var kinds []string
	for i := range 8 {
		kinds = append(kinds, fmt.Sprintf("{apiVersion: v1, kind: Kind%d}\n", i%7))
	}
	c, err := manifest.Parse("a.yaml", []byte("# first\n"+strings.Join(kinds, "---\n")+"---\n"+nested(16)))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.CRDs) != 1 || c.CRDs[0].String() != "things.example.com in a.yaml:17" || string(c.CRDs[0].JSON) != things || len(c.Others) != 8 {
		t.Errorf("got %v and %v", c.CRDs, c.Others)
	}
	c.CRDs = nil
	if err := c.Check(); !errors.Is(err, manifest.ErrNoCRD) || !strings.HasSuffix(err.Error(), "only v1 Kind0, v1 Kind1, v1 Kind2, v1 Kind3, v1 Kind4, 2 more kinds") {
		t.Errorf("got %v", err)
	}
	for text, want := range map[string]string{
		nested(18):                    "a.yaml:1: lists are nested more than 16 levels deep",
		`{"kind":"List","items":7}`:   "a.yaml:1: items",
		`{"kind":"List","items":null`: "a.yaml:1:",
		`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinitionList","items":[null]}`:    "an item of a list is null",
		`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":7}}`: "a.yaml:1: metadata.name",
	} {
		if _, err := manifest.Parse("a.yaml", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) && !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%.60s: got %v, want %q", text, err, want)
		}
	}
}

func TestReadFS(t *testing.T) {
	_, err := manifest.ReadFS(fstest.MapFS{"a.json": {Data: []byte(things)}, "b/c.yml": {Data: []byte("a: [")}})
	if err == nil || !strings.HasPrefix(err.Error(), "b/c.yml:1:") {
		t.Errorf("got %v", err)
	}
}

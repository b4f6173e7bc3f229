package yamlx

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"espalier.dev/internal/yamlx/yamltest"
)

// same compares two JSON texts by value.
func same(t testing.TB, a, b []byte) bool {
	t.Helper()
	return reflect.DeepEqual(value(t, a), value(t, b))
}

func value(t testing.TB, text []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %.200s", err, text)
	}
	return v
}

// TestCorpus compares the value of every document of the corpus with that of sigs.k8s.io/yaml.
func TestCorpus(t *testing.T) {
	n := 0
	yamltest.Corpus(t, func(path string, src []byte) {
		var whole []byte
		for _, d := range documents(t, src) {
			whole = append(whole, d.Source()...)
			n++
			want, wantErr := yaml.YAMLToJSON(d.Source())
			got, err := d.JSON()
			if (err != nil) != (wantErr != nil) {
				t.Errorf("%s:%d: error %v, want %v", path, d.Line(), err, wantErr)
				continue
			}
			if err == nil && !same(t, got, want) {
				t.Errorf("%s:%d: got %.300s, want %.300s", path, d.Line(), got, want)
			}
		}
		if string(whole) != string(src) {
			t.Errorf("%s: the documents do not add up to the file", path)
		}
	})
	t.Logf("%d documents", n)
}

// TestFast checks that nearly the whole corpus is read in one pass.
func TestFast(t *testing.T) {
	fast, all := 0, 0
	why := map[string]int{}
	yamltest.Corpus(t, func(path string, src []byte) {
		for _, d := range documents(t, src) {
			all++
			var p parser
			p.reset(d.Source(), false)
			if _, ok := p.document(); ok {
				fast++
			} else {
				why[p.failed.problem]++
			}
		}
	})
	t.Logf("%d of %d documents, others because of %v", fast, all, why)
	if fast*100 < all*95 {
		t.Errorf("%d of %d documents are read in one pass, want 95%%", fast, all)
	}
}

// documents reads all documents of src.
func documents(t testing.TB, src []byte) []*Document {
	t.Helper()
	r := NewReader(strings.NewReader(string(src)), Options{})
	var ds []*Document
	for {
		d, err := r.Next()
		if isEOF(err) {
			return ds
		}
		if err != nil {
			t.Fatal(err)
		}
		ds = append(ds, d)
	}
}

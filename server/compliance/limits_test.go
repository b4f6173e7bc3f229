package compliance

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/crd/compliance"
	"espalier.dev/store"
)

// TestConditionOfOthers checks that a condition is written again that another server has
// replaced with a newer one, when the counts are again what they were.
func TestConditionOfOthers(t *testing.T) {
	t.Parallel()
	const name = "as.example.com"
	w := newWorld(t)
	w.define("as", `"a":{"type":"string"}`)
	w.put("as", "one", `{"b":1}`)
	s := w.scanner(store.Config{}, Config{})
	says := func(failing int64, start string) {
		t.Helper()
		w.eventually(s, func() string {
			r := s.result(name)
			if text := w.condition(name).Message; r == nil || r.counts.Failing != failing || !strings.HasPrefix(text, start) {
				return fmt.Sprintf("the condition is %q, want %q", text, start)
			}
			return ""
		})
	}
	says(1, "1 of 1 stored object does not comply")

	// The other server is the first to know about the second object.
	d := w.catalog.Load().Get(name)
	next := &result{definition: d, complete: true}
	next.counts.AddKinds(1<<compliance.Unspecified, 2)
	if err := w.write(t.Context(), d, *condition(next, false)); err != nil {
		t.Fatal(err)
	}
	w.put("as", "two", `{"b":1}`)
	says(2, "2 of 2 stored objects do not comply")
	// The other server has ended.
	w.remove("as", "two")
	says(1, "1 of 1 stored object does not comply")
}

// TestManyProblems checks that an object with very many problems is listed with some of them.
func TestManyProblems(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.define("as", `"a":{"type":"array","items":{"type":"integer","maximum":0}}`)
	w.put("as", "o", `{"a":[1`+strings.Repeat(",1", 499)+`]}`)
	s := w.scanner(store.Config{}, Config{})
	w.eventually(s, func() string { return w.check(s, "as") })
	list, err := s.list(t.Context(), &metainternalversion.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatal(err, list)
	}
	item := list.Items[0].Object
	if n := len(item["problems"].([]any)); n != maxListed || item["problemCount"] != int64(500) || item["truncated"] != true {
		t.Errorf("%d problems of %v, truncated: %v", n, item["problemCount"], item["truncated"])
	}
}

// TestManyConditions checks that the scanner can take in events while it has many conditions to
// write.
func TestManyConditions(t *testing.T) {
	t.Parallel()
	const crds = 3
	writes := 0
	s := New(Config{Write: func(context.Context, *crd.Definition, api.CustomResourceDefinitionCondition) error {
		writes++
		time.Sleep(writesTime + time.Millisecond)
		return nil
	}})
	defer s.forgetAll()
	for i := range crds {
		d, err := crd.New(&api.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("many%d.example.com", i)}}, options())
		if err != nil {
			t.Fatal(err)
		}
		c := &scan{result: result{definition: d, complete: true}}
		c.counts.AddKinds(1<<compliance.Unspecified, 1)
		s.scans[d.Name()], s.unpublished[c] = c, true
	}
	for calls := 0; writes < crds && calls < 100; calls++ {
		before := writes
		if next := s.publish(t.Context()); writes > before+1 || next.IsZero() != (writes == crds) {
			t.Fatalf("%d conditions were written, then %d, and the next one is due at %v", before, writes, next)
		}
	}
	if writes != crds {
		t.Errorf("%d conditions were written", writes)
	}
}

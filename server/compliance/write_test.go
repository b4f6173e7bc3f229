package compliance

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/crd/compliance"
)

// TestWriteCondition checks when the condition of a CRD is written, and when the scanner tries again.
func TestWriteCondition(t *testing.T) {
	t.Parallel()
	const interval = totals / 2
	counts := func(all, failing int64) (c compliance.Counts) {
		c.AddKinds(0, all-failing)
		c.AddKinds(1<<compliance.Unspecified, failing)
		return c
	}
	failing := func() *scan {
		return &scan{result: result{complete: true, counts: counts(3, 1)}}
	}
	wrote := func(c *scan, all, bad int64) *scan {
		before := result{definition: c.definition, complete: true, counts: counts(all, bad)}
		c.written, c.writtenCounts, c.writtenAt, c.stands = condition(&before, false), before.counts, time.Now(), true
		return c
	}
	// another is the condition of a CRD with another spec.
	another := func(c *scan) *api.CustomResourceDefinitionCondition {
		is := condition(&result{definition: c.definition, complete: true, counts: counts(3, 2)}, false)
		is.ObservedGeneration--
		return is
	}
	conflict := apierrors.NewConflict(runtimeschema.GroupResource{}, "a", errors.New("changed"))
	const never, soon, later, muchLater = 0, 1, 2, 3
	for name, test := range map[string]struct {
		scan    func(d *crd.Definition) *scan
		stored  func(c *scan) *api.CustomResourceDefinitionCondition
		deleted bool
		ended   bool // whether the scanner was stopped meanwhile
		err     error
		writes  int
		again   int
	}{
		"failing objects":    {writes: 1},
		"a deleted CRD":      {deleted: true},
		"a CRD that is gone": {scan: func(*crd.Definition) *scan { c := failing(); c.gone = true; return c }},
		"the same condition": {stored: func(c *scan) *api.CustomResourceDefinitionCondition { return condition(&c.result, false) }},
		"another number": {stored: func(c *scan) *api.CustomResourceDefinitionCondition {
			return condition(&result{definition: c.definition, complete: true, counts: counts(3, 2)}, false)
		}, writes: 1},
		"no objects yet": {scan: func(*crd.Definition) *scan { return &scan{result: result{complete: true}} }},
		"no objects left": {scan: func(*crd.Definition) *scan { return &scan{result: result{complete: true}} }, stored: func(c *scan) *api.CustomResourceDefinitionCondition {
			return condition(&result{definition: c.definition, complete: true, counts: counts(3, 2)}, false)
		}, writes: 1},
		"a scan that begins":     {scan: func(*crd.Definition) *scan { return &scan{began: time.Now()} }, again: soon},
		"a scan that takes long": {scan: func(*crd.Definition) *scan { return &scan{began: time.Now().Add(-2 * patience)} }, writes: 1},
		"a scan of the same spec": {scan: func(*crd.Definition) *scan { return &scan{began: time.Now().Add(-2 * patience)} }, stored: func(c *scan) *api.CustomResourceDefinitionCondition {
			return condition(&result{definition: c.definition, complete: true, counts: counts(3, 2)}, false)
		}},
		"a scan that begins, of the same spec": {scan: func(*crd.Definition) *scan { return &scan{began: time.Now()} }, stored: func(c *scan) *api.CustomResourceDefinitionCondition {
			return condition(&result{definition: c.definition, complete: true, counts: counts(3, 2)}, false)
		}},
		"a scan that begins, of another spec": {scan: func(*crd.Definition) *scan { return &scan{began: time.Now()} }, stored: another, again: soon},
		"a scan of another spec":              {scan: func(*crd.Definition) *scan { return &scan{began: time.Now().Add(-2 * patience)} }, stored: another, writes: 1},
		"objects that cannot be inspected":    {scan: func(*crd.Definition) *scan { return &scan{result: result{err: errors.New("broken")}} }, writes: 1},
		"a condition that was removed":        {scan: func(d *crd.Definition) *scan { c := failing(); c.definition = d; return wrote(c, 3, 1) }, again: later},
		"stopped":                             {ended: true, err: errors.New("broken"), writes: 1, again: soon},
		"written a moment ago":                {scan: func(d *crd.Definition) *scan { c := failing(); c.definition = d; return wrote(c, 3, 2) }, again: later},
		"only more objects":                   {scan: func(d *crd.Definition) *scan { c := failing(); c.definition = d; return wrote(c, 2, 1) }, again: muchLater},
		"another reason":                      {scan: func(d *crd.Definition) *scan { c := failing(); c.definition = d; return wrote(c, 2, 0) }, again: later},
		"another server disagrees": {scan: func(d *crd.Definition) *scan { c := failing(); c.definition = d; return wrote(c, 3, 1) },
			stored: func(c *scan) *api.CustomResourceDefinitionCondition {
				return condition(&result{definition: c.definition, complete: true}, false)
			}},
		"not found":  {err: apierrors.NewNotFound(runtimeschema.GroupResource{}, "a"), writes: 1},
		"a conflict": {err: conflict, writes: 1, again: soon},
		"an error":   {err: errors.New("broken"), writes: 1, again: later},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &api.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "as.example.com", Generation: 4}}
			if test.deleted {
				c.DeletionTimestamp = new(metav1.Now())
			}
			d, err := crd.New(c, options())
			if err != nil {
				t.Fatal(err)
			}
			scan := failing()
			if test.scan != nil {
				scan = test.scan(d)
			}
			scan.definition = d
			if test.stored != nil {
				is := *test.stored(scan)
				c.Status = crd.WithCondition(c.Status, is, is.ObservedGeneration, metav1.Now())
				if scan.definition, err = crd.New(c, options()); err != nil {
					t.Fatal(err)
				}
			}
			writes := 0
			s := New(Config{Interval: interval, Write: func(context.Context, *crd.Definition, api.CustomResourceDefinitionCondition) error {
				writes++
				return test.err
			}})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if test.ended {
				cancel()
			}
			next := s.write(ctx, scan)
			again := never
			switch wait := time.Until(next); {
			case next.IsZero():
			case wait <= patience:
				again = soon
			case wait <= interval:
				again = later
			default:
				again = muchLater
			}
			if writes != test.writes || again != test.again {
				t.Errorf("%d writes, next after %v: %d", writes, time.Until(next), again)
			}
			if stands := test.writes > 0 && test.err == nil; stands && (!scan.stands || scan.written == nil || scan.writtenAt.IsZero() || scan.writtenCounts != scan.counts) {
				t.Error("what was written is not remembered")
			}
		})
	}
}

// TestRevealedText checks the warning about data that would be served again.
func TestRevealedText(t *testing.T) {
	t.Parallel()
	const end = ", which this schema newly specifies: it is served again with this change; to remove it, run espalier migrate before the change"
	for want, r := range map[string]revealed{
		"1 stored object (a) holds data at .b" + end:                            {objects: 1, examples: []string{"a"}, at: map[string]int64{".b": 1}},
		"at least 1 stored object (a) holds data at .b" + end:                   {objects: 1, examples: []string{"a"}, at: map[string]int64{".b": 1}, partial: true},
		"3 stored objects (a, b, c) hold data at .b, .a (2)" + end:              {objects: 3, examples: []string{"a", "b", "c"}, at: map[string]int64{".a": 2, ".b": 3}},
		"4 stored objects (a, b, c, …) hold data at .a, .b" + end:               {objects: 4, examples: []string{"a", "b", "c"}, at: map[string]int64{".b": 4, ".a": 4}},
		"1 stored object (a) holds data at .1, .2, .3, .4, .5" + end:            {objects: 1, examples: []string{"a"}, at: map[string]int64{".1": 1, ".2": 1, ".3": 1, ".4": 1, ".5": 1}},
		"1 stored object (a) holds data at .1, .2, .3, .4, .5 and 1 more" + end: {objects: 1, examples: []string{"a"}, at: map[string]int64{".1": 1, ".2": 1, ".3": 1, ".4": 1, ".5": 1, ".6": 1}},
	} {
		if got := r.text(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

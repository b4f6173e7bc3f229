package compliance

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/crd/compliance"
)

const (
	// warningTime limits how long objects are read for a warning.
	warningTime = time.Second
	// maxPaths and maxExamples are the maximum numbers of paths and objects in a warning.
	maxPaths, maxExamples = 5, 3
)

// Warnings returns a warning if stored objects hold data at fields that next specifies and old
// does not: the data is not served, and would be served again.
//
// The objects are counted before the CRD is written, because afterwards the data is served. If
// the scan of old is complete, only the objects with unspecified fields are read again, and the
// number is exact; otherwise as many as possible in a limited time, and the warning says so.
// Objects that are written between the count and the write of the CRD cannot add to it: the
// server prunes them with old, and if old itself is replaced meanwhile, the write conflicts and
// the objects are counted again. They can only be fewer.
func (s *Scanner) Warnings(ctx context.Context, old, next *api.CustomResourceDefinition) []string {
	if old.DeletionTimestamp != nil || reflect.DeepEqual(old.Spec, next.Spec) && reflect.DeepEqual(old.Annotations, next.Annotations) {
		return nil
	}
	snapshot, current := s.snapshot(ctx)
	ctx, cancel := context.WithTimeout(ctx, warningTime)
	defer cancel()
	before, err := crd.New(old, s.config.Options)
	if err != nil || !s.hasObjects(snapshot, before) {
		return nil
	}
	after, err := crd.New(next, s.config.Options)
	if err != nil {
		return nil
	}
	from, to := compliance.New(before), compliance.New(after)
	found := revealed{at: map[string]int64{}, partial: !current}
	for e := range s.candidates(snapshot, before, "", "", problems.mayHide) {
		if ctx.Err() != nil {
			found.partial = true
			break
		}
		if e.Err != nil {
			continue
		}
		paths, err := from.Revealed(to, e.Value)
		if err != nil {
			return nil // the CRD cannot be compiled
		}
		patterns := map[string]bool{}
		for _, p := range paths {
			patterns[p.Pattern()] = true
		}
		if len(patterns) > 0 {
			if found.objects++; len(found.examples) < maxExamples {
				found.examples = append(found.examples, strings.TrimPrefix(e.Key, string(s.prefix(before))))
			}
		}
		for p := range patterns {
			found.at[p]++
		}
	}
	if found.objects == 0 {
		return nil
	}
	return []string{found.text()}
}

// revealed counts the objects that hold data that would be served again.
type revealed struct {
	objects int64
	// examples has the names of some of them.
	examples []string
	// at has the number of objects for each path.
	at map[string]int64
	// partial is set if not all objects were read.
	partial bool
}

// text returns the warning.
func (r *revealed) text() string {
	type count struct {
		path string
		n    int64
	}
	var counts []count
	for path, n := range r.at {
		counts = append(counts, count{path, n})
	}
	slices.SortFunc(counts, func(a, b count) int { return cmp.Or(cmp.Compare(b.n, a.n), strings.Compare(a.path, b.path)) })
	more := ""
	if len(counts) > maxPaths {
		more = fmt.Sprintf(" and %d more", len(counts)-maxPaths)
		counts = counts[:maxPaths]
	}
	paths := make([]string, len(counts))
	for i, c := range counts {
		paths[i] = c.path
		if c.n != r.objects {
			paths[i] += fmt.Sprintf(" (%d)", c.n)
		}
	}
	verb, some := "hold", ""
	if r.objects == 1 {
		verb = "holds"
	}
	if r.partial {
		some = "at least "
	}
	examples := strings.Join(r.examples, ", ")
	if r.objects > int64(len(r.examples)) {
		examples += ", …"
	}
	return fmt.Sprintf("%s%s (%s) %s data at %s%s, which this schema newly specifies: it is served again with this change; to remove it, run espalier migrate before the change",
		some, objects(r.objects, "stored"), examples, verb, strings.Join(paths, ", "), more)
}

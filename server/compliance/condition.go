package compliance

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/crd/compliance"
)

// The reasons of the condition Compliant.
const (
	reasonComply     = "AllObjectsComply"
	reasonNot        = "NoncompliantObjects"
	reasonInspecting = "InspectingObjects"
	reasonCannot     = "CannotInspect"
)

// Initial returns the condition of a CRD without objects, and nil for others. Objects that are
// written meanwhile comply with the CRD, or the scan finds them.
func (s *Scanner) Initial(d *crd.Definition) *api.CustomResourceDefinitionCondition {
	if s.hasObjects(s.config.Store.Snapshot(), d) {
		return nil
	}
	return condition(&result{definition: d, complete: true}, false)
}

// condition returns the condition for a result, or nil if the scan is not complete. If it is
// late, the condition is Unknown. There is no number of objects while all comply: it would
// make every creation of an object a write of the CRD.
func condition(r *result, late bool) *api.CustomResourceDefinitionCondition {
	c := &api.CustomResourceDefinitionCondition{Type: api.Compliant, ObservedGeneration: r.definition.CRD().Generation}
	switch {
	case r.err != nil:
		c.Status, c.Reason, c.Message = api.ConditionUnknown, reasonCannot, r.err.Error()
	case r.complete && r.counts.Failing == 0:
		c.Status, c.Reason, c.Message = api.ConditionTrue, reasonComply, "all stored objects comply"
	case r.complete:
		c.Status, c.Reason, c.Message = api.ConditionFalse, reasonNot, message(r)
	case late:
		c.Status, c.Reason, c.Message = api.ConditionUnknown, reasonInspecting, "the stored objects are being inspected"
	default:
		return nil
	}
	return c
}

// message describes how many objects do not comply.
func message(r *result) string {
	texts := [...]string{
		compliance.Unspecified:   "%d with unspecified fields",
		compliance.Contradiction: "%d with values of the wrong type",
		compliance.Invalid:       "%d with invalid values",
		compliance.Malformed:     "%d with malformed parts",
		compliance.OtherVersion:  "%d stored in another version",
		compliance.Unreadable:    "%d that cannot be read",
	}
	var of []string
	for _, k := range compliance.Kinds() {
		if n := r.counts.Of[k]; n > 0 {
			of = append(of, fmt.Sprintf(texts[k], n))
		}
	}
	verb := "do"
	if r.counts.Failing == 1 {
		verb = "does"
	}
	return fmt.Sprintf("%d of %s %s not comply: %s; %s", r.counts.Failing, objects(r.counts.Objects,
		"stored"), verb, strings.Join(of, ", "), hint(r.definition.Name()))
}

// objects returns a number of objects as text.
func objects(n int64, adjective string) string {
	if n == 1 {
		return fmt.Sprintf("1 %s object", adjective)
	}
	return fmt.Sprintf("%d %s objects", n, adjective)
}

// hint tells how to list the objects of a CRD that do not comply.
func hint(name string) string {
	return fmt.Sprintf("kubectl get %s -A --field-selector crd=%s lists them", compliance.Plural, name)
}

// publish writes conditions that are due, and returns when the next one is, or zero.
func (s *Scanner) publish(ctx context.Context) (next time.Time) {
	s.show()
	began := time.Now()
	for c := range s.unpublished {
		switch {
		case ctx.Err() != nil:
			return time.Time{}
		case time.Since(began) > writesTime:
			return time.Now()
		}
		due := s.write(ctx, c)
		switch {
		case due.IsZero():
			delete(s.unpublished, c)
		case next.IsZero() || due.Before(next):
			next = due
		}
	}
	return next
}

// write writes the condition of a CRD if it must be written. It returns when to try again, or
// zero if there is nothing to write until something changes.
func (s *Scanner) write(ctx context.Context, c *scan) time.Time {
	if c.definition.Terminating() || c.gone {
		return time.Time{}
	}
	now := time.Now()
	stored := crd.Condition(&c.definition.CRD().Status, api.Compliant)
	late := now.Sub(c.began) >= patience
	want := condition(&c.result, late)
	c.stands = c.stands && same(c.written, want)
	switch {
	case want == nil && (stored == nil || stored.ObservedGeneration != c.definition.CRD().Generation):
		return c.began.Add(patience)
	case want == nil, want.Reason == reasonInspecting && stored != nil && stored.ObservedGeneration == want.ObservedGeneration:
		return time.Time{} // the end of the scan is next
	case same(stored, want):
		return time.Time{}
	case stored == nil && c.complete && c.counts.Objects == 0:
		return time.Time{} // it gets the condition with its next status
	case stored != nil && c.stands:
		return time.Time{} // another server disagrees
	}
	due := c.writtenAt.Add(s.config.Interval)
	if c.onlyTotal(want) {
		due = c.writtenAt.Add(max(totals, s.config.Interval))
	}
	if now.Before(due) {
		return due
	}
	patient, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	err := s.config.Write(patient, c.definition, *want)
	switch {
	case err == nil:
		c.written, c.writtenCounts, c.writtenAt, c.stands = want, c.counts, now, true
		return time.Time{}
	case apierrors.IsNotFound(err):
		return time.Time{} // the catalog will notice
	case !apierrors.IsConflict(err) && ctx.Err() == nil:
		klog.FromContext(ctx).Error(err, "Cannot write the condition Compliant of a CRD", "name", c.definition.Name())
		return now.Add(s.config.Interval)
	}
	return now.Add(min(time.Second, s.config.Interval)) // another writer was faster
}

// onlyTotal reports whether a condition differs from the written one only in the number of all
// objects.
func (c *scan) onlyTotal(want *api.CustomResourceDefinitionCondition) bool {
	if c.written == nil || c.written.Status != want.Status || c.written.Reason != want.Reason ||
		c.written.ObservedGeneration != want.ObservedGeneration {
		return false
	}
	counts := c.counts
	counts.Objects = c.writtenCounts.Objects
	return counts == c.writtenCounts && c.counts != c.writtenCounts
}

// same reports whether two conditions say the same.
func same(a, b *api.CustomResourceDefinitionCondition) bool {
	return a != nil && b != nil && a.Status == b.Status && a.Reason == b.Reason &&
		a.Message == b.Message && a.ObservedGeneration == b.ObservedGeneration
}

package events_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/dump"
	"sigs.k8s.io/randfill"

	"espalier.dev/kinds/events"
	"espalier.dev/kinds/kind/kindtest"
)

func TestCoreEvents(t *testing.T) {
	t.Parallel()
	valid := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "A", Namespace: "b"}, InvolvedObject: corev1.ObjectReference{Namespace: "b"}}
	create := kindtest.Create(t, events.CoreRules(), valid)
	create(func(*corev1.Event) {})
	mismatch := func(namespace string) string {
		return `involvedObject.namespace: Invalid value: "` + namespace + `": does not match event.namespace`
	}
	create(func(e *corev1.Event) { e.InvolvedObject.Namespace = "c" }, mismatch("c"))
	create(func(e *corev1.Event) { e.InvolvedObject.Namespace = "" }, mismatch(""))
	create(func(e *corev1.Event) { e.InvolvedObject.Namespace, e.Namespace = "", "default" })
	create(func(e *corev1.Event) {
		e.EventTime = metav1.NewMicroTime(time.Unix(1, 0))
		e.InvolvedObject.Namespace = ""
		e.Message = strings.Repeat("x", 1025)
	},
		mismatch(""),
		`reportingComponent: Required value`,
		`reportingComponent: Invalid value: "": name part must be non-empty`,
		`reportingComponent: Invalid value: "": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
		`reportingInstance: Required value`,
		`action: Required value`,
		`reason: Required value`,
		`message: Invalid value: "": can have at most 1024 characters`)
}

func TestEvents(t *testing.T) {
	t.Parallel()
	rules := events.Rules()["events"]
	valid := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: "a", Namespace: "b"},
		InvolvedObject: corev1.ObjectReference{Namespace: "b"},
		EventTime:      metav1.NewMicroTime(time.Unix(1, 0)), ReportingController: "c", ReportingInstance: "d", Action: "e", Reason: "f", Type: "Normal",
	}
	create := kindtest.Create(t, rules, valid)
	create(func(*corev1.Event) {})
	create(func(e *corev1.Event) {
		e.Series = &corev1.EventSeries{Count: 1}
		e.Type = "x"
		e.FirstTimestamp, e.LastTimestamp, e.Count, e.Source.Host = metav1.Now(), metav1.Now(), 1, "h"
		e.ReportingInstance = strings.Repeat("x", 129)
	},
		`reportingInstance: Invalid value: "": can have at most 128 characters`,
		`series.count: Invalid value: "": should be at least 2`,
		`series.lastObservedTime: Required value`,
		`type: Invalid value: "": has invalid value: x`,
		`firstTimestamp: Invalid value: "": needs to be unset`,
		`lastTimestamp: Invalid value: "": needs to be unset`,
		`count: Invalid value: "": needs to be unset`,
		`source: Invalid value: "": needs to be unset`)
	create(func(e *corev1.Event) { e.EventTime = metav1.MicroTime{} }, `eventTime: Required value`)

	update := kindtest.Update(t, rules, "", valid)
	update(func(e *corev1.Event) {
		e.Series = &corev1.EventSeries{Count: 2, LastObservedTime: metav1.NowMicro()}
		e.EventTime = metav1.NewMicroTime(time.Unix(1, 10))
	})
	update(func(e *corev1.Event) {
		e.InvolvedObject = corev1.ObjectReference{Namespace: "b", Name: "x"}
		e.Reason, e.EventTime = "x", metav1.NewMicroTime(time.Unix(2, 0).UTC())
	},
		`involvedObject: Invalid value: {"Kind":"","Namespace":"b","Name":"x","UID":"","APIVersion":"","ResourceVersion":"","FieldPath":""}: field is immutable`,
		`reason: Invalid value: "x": field is immutable`,
		`reason: Invalid value: "x": field is immutable`,
		`eventTime: Invalid value: "1970-01-01T00:00:02.000000Z": field is immutable`)
}

// TestConversion converts random events to the other group and back: no field is lost.
func TestConversion(t *testing.T) {
	t.Parallel()
	fill := randfill.NewWithSeed(1).NilChance(0.1).Funcs(
		func(to *metav1.Time, c randfill.Continue) { to.Time = time.Unix(int64(c.Uint32()), 0) },
		func(to *metav1.MicroTime, c randfill.Continue) { to.Time = time.Unix(int64(c.Uint32()), 0) },
		func(*metav1.FieldsV1, randfill.Continue) {},
		func(*metav1.TypeMeta, randfill.Continue) {},
	)
	for range 100 {
		var stored corev1.Event
		fill.Fill(&stored)
		if got := events.FromV1(events.ToV1(&stored)); !reflect.DeepEqual(got, &stored) {
			t.Fatalf("got %s\nwant %s", dump.Pretty(got), dump.Pretty(stored))
		}
		var served eventsv1.Event
		fill.Fill(&served)
		if got := events.ToV1(events.FromV1(&served)); !reflect.DeepEqual(got, &served) {
			t.Fatalf("got %s\nwant %s", dump.Pretty(got), dump.Pretty(served))
		}
	}
}

func TestFields(t *testing.T) {
	t.Parallel()
	e := &corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: "Pod"}, ReportingController: "c"}
	if got := events.CoreRules().Fields(e); len(got) != 11 || got["involvedObject.kind"] != "Pod" || got["source"] != "c" || got["reportingComponent"] != "c" {
		t.Errorf("got %v", got)
	}
	if got := events.Rules()["events"].Fields(e); len(got) != 10 || got["regarding.kind"] != "Pod" || got["reportingController"] != "c" {
		t.Errorf("got %v", got)
	}
}

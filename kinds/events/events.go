// Package events has the rules of events. The core group and events.k8s.io serve the same
// objects: they are stored as core/v1 events, and validated differently.
package events

import (
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/kind"
	"espalier.dev/kinds/rules"
)

// Rules returns the rules of the group events.k8s.io. Their objects are core/v1 events.
func Rules() map[string]kind.Rules {
	return map[string]kind.Rules{"events": {
		Main:           kind.Write{Validate: kind.Check(validateEvent)},
		CreateOnUpdate: true,
		Fields: func(obj kind.Object) fields.Set {
			e := obj.(*corev1.Event)
			set := reference("regarding", e.InvolvedObject)
			set["reason"] = e.Reason
			set["reportingController"] = e.ReportingController
			set["type"] = e.Type
			return set
		},
	}}
}

// CoreRules returns the rules of events in the core group.
func CoreRules() kind.Rules {
	return kind.Rules{
		Main: kind.Write{Validate: kind.Check(func(e, _ *corev1.Event) field.ErrorList {
			return validateCommon(e, "reportingComponent")
		})},
		CreateOnUpdate: true,
		Fields: func(obj kind.Object) fields.Set {
			e := obj.(*corev1.Event)
			set := reference("involvedObject", e.InvolvedObject)
			set["reason"] = e.Reason
			set["reportingComponent"] = e.ReportingController
			set["source"] = e.Source.Component
			if e.Source.Component == "" {
				set["source"] = e.ReportingController
			}
			set["type"] = e.Type
			return set
		},
	}
}

func reference(name string, ref corev1.ObjectReference) fields.Set {
	return fields.Set{
		name + ".kind":            ref.Kind,
		name + ".namespace":       ref.Namespace,
		name + ".name":            ref.Name,
		name + ".uid":             string(ref.UID),
		name + ".apiVersion":      ref.APIVersion,
		name + ".resourceVersion": ref.ResourceVersion,
		name + ".fieldPath":       ref.FieldPath,
	}
}

// FromV1 returns an event of events.k8s.io as the object that is stored. They share memory.
func FromV1(e *eventsv1.Event) *corev1.Event {
	out := &corev1.Event{
		ObjectMeta:          e.ObjectMeta,
		InvolvedObject:      e.Regarding,
		Reason:              e.Reason,
		Message:             e.Note,
		Source:              e.DeprecatedSource,
		FirstTimestamp:      e.DeprecatedFirstTimestamp,
		LastTimestamp:       e.DeprecatedLastTimestamp,
		Count:               e.DeprecatedCount,
		Type:                e.Type,
		EventTime:           e.EventTime,
		Action:              e.Action,
		Related:             e.Related,
		ReportingController: e.ReportingController,
		ReportingInstance:   e.ReportingInstance,
	}
	if e.Series != nil {
		out.Series = &corev1.EventSeries{Count: e.Series.Count, LastObservedTime: e.Series.LastObservedTime}
	}
	return out
}

// ToV1 returns a stored event as events.k8s.io serves it. They share memory.
func ToV1(e *corev1.Event) *eventsv1.Event {
	out := &eventsv1.Event{
		ObjectMeta:               e.ObjectMeta,
		EventTime:                e.EventTime,
		ReportingController:      e.ReportingController,
		ReportingInstance:        e.ReportingInstance,
		Action:                   e.Action,
		Reason:                   e.Reason,
		Regarding:                e.InvolvedObject,
		Related:                  e.Related,
		Note:                     e.Message,
		Type:                     e.Type,
		DeprecatedSource:         e.Source,
		DeprecatedFirstTimestamp: e.FirstTimestamp,
		DeprecatedLastTimestamp:  e.LastTimestamp,
		DeprecatedCount:          e.Count,
	}
	if e.Series != nil {
		out.Series = &eventsv1.EventSeries{Count: e.Series.Count, LastObservedTime: e.Series.LastObservedTime}
	}
	return out
}

// validateCommon validates an event of either group. Events with an eventTime are written by
// clients that know events.k8s.io, and have more required fields. controller is the name of the
// field ReportingController.
func validateCommon(e *corev1.Event, controller string) (errs field.ErrorList) {
	mismatch := field.Invalid(field.NewPath("involvedObject", "namespace"), e.InvolvedObject.Namespace, "does not match event.namespace")
	namespace := e.InvolvedObject.Namespace
	switch {
	case !unset(e.EventTime.Time):
		if namespace == "" && e.Namespace != metav1.NamespaceDefault && e.Namespace != metav1.NamespaceSystem {
			errs = append(errs, mismatch)
		}
		errs = append(errs, limited(controller, e.ReportingController, true, 0)...)
		errs = append(errs, rules.QualifiedName(e.ReportingController, field.NewPath(controller))...)
		errs = append(errs, limited("reportingInstance", e.ReportingInstance, true, 128)...)
		errs = append(errs, limited("action", e.Action, true, 128)...)
		errs = append(errs, limited("reason", e.Reason, true, 128)...)
		errs = append(errs, limited("message", e.Message, false, 1024)...)
	case namespace == "":
		// Old clients write events about cluster-scoped objects to the namespace default.
		if e.Namespace != metav1.NamespaceNone && e.Namespace != metav1.NamespaceDefault {
			errs = append(errs, mismatch)
		}
	case namespace != e.Namespace:
		errs = append(errs, mismatch)
	}
	return append(errs, rules.Invalid(e.Namespace, field.NewPath("namespace"), validation.IsDNS1123Subdomain(e.Namespace))...)
}

// limited validates the length of a string. A limit of 0 is none.
func limited(name, value string, required bool, limit int) (errs field.ErrorList) {
	if required && value == "" {
		errs = append(errs, field.Required(field.NewPath(name), ""))
	}
	if limit > 0 && len(value) > limit {
		errs = append(errs, field.Invalid(field.NewPath(name), "", fmt.Sprintf("can have at most %d characters", limit)))
	}
	return errs
}

// validateEvent validates an event that is written to events.k8s.io.
func validateEvent(e, old *corev1.Event) field.ErrorList {
	errs := validateCommon(e, "reportingController")
	if old != nil {
		return append(errs, validateUpdate(e, old)...)
	}
	errs = append(errs, rules.ObjectMeta(&e.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))...)
	errs = append(errs, validateSeries(e)...)
	if unset(e.EventTime.Time) {
		errs = append(errs, field.Required(field.NewPath("eventTime"), ""))
	}
	if e.Type != corev1.EventTypeNormal && e.Type != corev1.EventTypeWarning {
		errs = append(errs, field.Invalid(field.NewPath("type"), "", fmt.Sprintf("has invalid value: %v", e.Type)))
	}
	for _, deprecated := range []struct {
		name  string
		isSet bool
	}{
		{"firstTimestamp", !unset(e.FirstTimestamp.Time)},
		{"lastTimestamp", !unset(e.LastTimestamp.Time)},
		{"count", e.Count != 0},
		{"source", e.Source != corev1.EventSource{}},
	} {
		if deprecated.isSet {
			errs = append(errs, field.Invalid(field.NewPath(deprecated.name), "", "needs to be unset"))
		}
	}
	return errs
}

// validateUpdate rejects changes of all fields but the series.
func validateUpdate(e, old *corev1.Event) field.ErrorList {
	errs := rules.ObjectMetaUpdate(&e.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	if !reflect.DeepEqual(e.Series, old.Series) {
		errs = append(errs, validateSeries(e)...)
	}
	immutable := func(name string, value, before any) {
		errs = append(errs, rules.Immutable(value, before, field.NewPath(name))...)
	}
	immutable("involvedObject", e.InvolvedObject, old.InvolvedObject)
	immutable("reason", e.Reason, old.Reason)
	immutable("message", e.Message, old.Message)
	immutable("source", e.Source, old.Source)
	immutable("firstTimestamp", e.FirstTimestamp, old.FirstTimestamp)
	immutable("lastTimestamp", e.LastTimestamp, old.LastTimestamp)
	immutable("count", e.Count, old.Count)
	// Kube-apiserver reports the reason twice.
	immutable("reason", e.Reason, old.Reason)
	immutable("type", e.Type, old.Type)
	// Clients may have lost what is more precise than a microsecond.
	if !e.EventTime.Truncate(time.Microsecond).Equal(old.EventTime.Truncate(time.Microsecond)) {
		immutable("eventTime", e.EventTime, old.EventTime)
	}
	immutable("action", e.Action, old.Action)
	immutable("related", e.Related, old.Related)
	immutable("reportingController", e.ReportingController, old.ReportingController)
	immutable("reportingInstance", e.ReportingInstance, old.ReportingInstance)
	return errs
}

func validateSeries(e *corev1.Event) (errs field.ErrorList) {
	if e.Series == nil {
		return nil
	}
	if e.Series.Count < 2 {
		errs = append(errs, field.Invalid(field.NewPath("series.count"), "", "should be at least 2"))
	}
	if unset(e.Series.LastObservedTime.Time) {
		errs = append(errs, field.Required(field.NewPath("series.lastObservedTime"), ""))
	}
	return errs
}

// unset reports whether a time is not set. The start of year 1 in another location is set.
func unset(t time.Time) bool { return t == time.Time{} }

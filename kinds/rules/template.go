package rules

import (
	"reflect"
	"unicode"
	"unicode/utf8"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var templateFields = sets.New("Annotations", "Labels")

// TemplateMeta validates the metadata in the template of a claim, which has only labels and
// annotations.
func TemplateMeta(meta *metav1.ObjectMeta, path *field.Path) field.ErrorList {
	errs := apivalidation.ValidateAnnotations(meta.Annotations, path.Child("annotations"))
	errs = append(errs, metav1validation.ValidateLabels(meta.Labels, path.Child("labels"))...)
	return append(errs, OnlyFields(*meta, templateFields, "cannot be set", path)...)
}

// OnlyFields rejects other fields of a struct than the allowed ones.
func OnlyFields(value any, allowed sets.Set[string], detail string, path *field.Path) (errs field.ErrorList) {
	v := reflect.ValueOf(value)
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if allowed.Has(name) || v.Field(i).IsZero() {
			continue
		}
		first, size := utf8.DecodeRuneInString(name)
		errs = append(errs, field.Forbidden(path.Child(string(unicode.ToLower(first))+name[size:]), detail))
	}
	return errs
}

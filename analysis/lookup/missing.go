package lookup

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"espalier.dev/analysis"
	"espalier.dev/api"
	"espalier.dev/internal/jsonptr"
	"espalier.dev/internal/nearest"
)

// RuleMissing is the rule of findings about objects without a CRD.
const RuleMissing = "missing-definition"

// AddCRD is the remedy for an object whose CRD is probably not given. Programs without that flag replace it.
const AddCRD = "add it with --crd"

// Missing is returned for an object that has no CRD.
type Missing struct {
	// Message says what is wrong, and Remedy what to do, if it is not obvious.
	Message, Remedy string
	// Field is the field that is probably wrong: apiVersion or kind.
	Field string
	// Unrelated is set if the object has nothing to do with the CRDs and the built-in kinds: no
	// CRD has its group, and it is no misspelling of one.
	Unrelated bool
	// Undefined is set if other kinds of its group have CRDs, and its kind is no misspelling of one.
	Undefined bool
	// misspelled is set if the name of the field is wrong and not its value.
	misspelled bool
}

// Error returns the message and the remedy.
func (e *Missing) Error() string {
	if e.Remedy == "" {
		return e.Message
	}
	return e.Message + ": " + e.Remedy
}

// Finding returns the finding about the object.
func (e *Missing) Finding() analysis.Finding {
	f := analysis.Finding{Rule: RuleMissing, Severity: analysis.Error, Path: e.Field, Pointer: jsonptr.New(e.Field), Message: e.Error()}
	if e.misspelled {
		f.Part = analysis.FieldName
	}
	return f
}

// missing returns the error for an object that no CRD serves.
func (x *Index[D]) missing(o Object, gk runtimeschema.GroupKind, version string) *Missing {
	if e := Misspelled(o); e != nil {
		return e
	}
	if e := untyped(o); e != nil {
		return e
	}
	if candidates := x.byKind[gk]; len(candidates) > 0 {
		its := "its CRD"
		if place := candidates[0].Place(); place != "" {
			its = "the CRD in " + place
		}
		return &Missing{Field: "apiVersion", Message: fmt.Sprintf("version %q of %s is not served: %s serves %s",
			version, gk.Kind, its, strings.Join(served(candidates[0]), ", "))}
	}
	e := &Missing{Field: "kind", Message: fmt.Sprintf("no CRD found for %s %s", o.APIVersion(), gk.Kind)}
	if known := x.groups()[gk.Group]; known != nil {
		if meant := nearest.Name(gk.Kind, slices.Values(known)); meant != "" {
			e.Message += nearest.DidYouMean(meant)
		} else {
			e.Undefined = true
			e.Remedy = AddCRD + " (the CRDs of its group define " + nearest.First(known, 5) + ")"
		}
		return e
	}
	if meant := x.meant(gk, version); meant != "" {
		e.Field = "apiVersion"
		e.Message += nearest.DidYouMean(meant)
		return e
	}
	if !wellFormed(o.APIVersion()) {
		e.Field, e.Message = "apiVersion", fmt.Sprintf("malformed apiVersion %q: must be group/version, or v1 for the core group", o.APIVersion())
		return e
	}
	if IsBuiltin(o.APIVersion(), gk.Kind) {
		e.Message, e.Unrelated = fmt.Sprintf("%s %s is a built-in kind, which has no CRD", o.APIVersion(), gk.Kind), true
		e.Remedy = "skip such objects with --skip-builtin-kinds"
		return e
	}
	if e := missingBuiltin(o.APIVersion(), gk.Kind); e != nil {
		return e
	}
	if meant := meantBuiltin(gk); meant != "" {
		e.Field = "apiVersion"
		e.Message += nearest.DidYouMean(meant)
		return e
	}
	e.Remedy = AddCRD
	e.Unrelated = true
	return e
}

// untyped returns the error for an object without apiVersion or kind, or nil.
func untyped(o Object) *Missing {
	if o.APIVersion() != "" && o.Kind() != "" {
		return nil
	}
	for _, field := range []string{"apiVersion", "kind"} {
		if c := o.Field(field); c != 0 && c != 'n' && c != '"' {
			return &Missing{Field: field, Message: field + " must be a string"}
		}
	}
	if e := misspelledField(o); e != nil {
		return e
	}
	return &Missing{Field: "kind", Message: "apiVersion and kind are required"}
}

// Keyed is an [Object] that knows its top-level fields.
type Keyed interface {
	Keys() []string
}

// misspelledField returns the error for an object with a field that is probably meant to be
// apiVersion or kind, which it lacks, or nil.
func misspelledField(o Object) *Missing {
	keyed, ok := o.(Keyed)
	if !ok {
		return nil
	}
	for _, field := range []string{"kind", "apiVersion"} {
		if o.Field(field) != 0 {
			continue
		}
		others := slices.DeleteFunc(keyed.Keys(), func(key string) bool {
			return slices.Contains([]string{"apiVersion", "kind", "metadata", "spec", "status", "data"}, key)
		})
		if key := nearest.Name(field, slices.Values(others)); key != "" {
			return &Missing{Field: key, misspelled: true, Message: fmt.Sprintf("unknown field %q, and %s is required%s", key, field, nearest.DidYouMean(field))}
		}
	}
	return nil
}

// meant returns the apiVersion of the CRD that an object of a group without CRDs is probably for,
// or "".
func (x *Index[D]) meant(gk runtimeschema.GroupKind, version string) string {
	if isUpstream(gk) {
		return ""
	}
	kinds := x.groups()
	for _, group := range slices.Sorted(maps.Keys(kinds)) {
		kind := gk.Kind
		switch {
		case gk.Group == "" && version == group:
			kind = kinds[group][0] // any: the version was forgotten
		case isKubernetesGroup(gk.Group):
			// Kubernetes has no such kind, and CRDs cannot add one to the group.
		case similarGroups(gk.Group, group):
			kind = nearest.Name(kind, slices.Values(kinds[group]))
		case !sameButLast(gk.Group, group):
			continue
		}
		found := x.byKind[runtimeschema.GroupKind{Group: group, Kind: kind}]
		if len(found) == 0 {
			continue
		}
		if names := served(found[0]); !slices.Contains(names, version) && len(names) > 0 {
			version = names[0]
		}
		return group + "/" + version
	}
	return ""
}

// Misspelled returns the error for an object that is probably meant to be a CRD, but is none
// because of its apiVersion or kind. It returns nil for all others.
func Misspelled(o Object) *Missing {
	gk := KindOf(o)
	e := &Missing{Field: "apiVersion", Message: fmt.Sprintf("%s %s is not a CRD", o.APIVersion(), gk.Kind)}
	switch {
	case api.IsDefinition(metav1.TypeMeta{APIVersion: o.APIVersion(), Kind: gk.Kind}):
		return nil
	case gk.Kind == api.Kind:
	case gk.Kind == api.Kind+"List" || nearest.Name(gk.Kind, slices.Values([]string{api.Kind})) == "":
		return nil
	case gk.Group == api.GroupName:
		e.Field = "kind"
		e.Message += nearest.DidYouMean(api.Kind)
		return e
	case !similarGroups(gk.Group, api.GroupName):
		return nil
	}
	if o.APIVersion() == "" {
		e.Message = "a CRD needs an apiVersion"
	}
	e.Message += nearest.DidYouMean(api.GroupName + "/v1")
	return e
}

// wellFormed reports whether an apiVersion has the form version or group/version.
func wellFormed(apiVersion string) bool {
	group, version, ok := strings.Cut(apiVersion, "/")
	if !ok {
		return len(validation.IsDNS1035Label(apiVersion)) == 0
	}
	return len(validation.IsDNS1123Subdomain(group)) == 0 && len(validation.IsDNS1035Label(version)) == 0
}

// similarGroups reports whether one group is probably a misspelling of the other. Groups are
// compared label by label, because related groups often differ in one label.
func similarGroups(a, b string) bool {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	if len(as) != len(bs) {
		// A dot is missing or superfluous.
		return strings.ReplaceAll(a, ".", "") == strings.ReplaceAll(b, ".", "")
	}
	for i, label := range as {
		if nearest.Name(label, slices.Values(bs[i:i+1])) == "" {
			return false
		}
	}
	return true
}

// sameButLast reports whether two groups differ only in their last label, as example.com and
// example.org do. Groups that differ in the first one are often those of one project, with
// kinds of the same names.
func sameButLast(a, b string) bool {
	last := strings.LastIndexByte(a, '.') + 1
	return last > 0 && strings.HasPrefix(b, a[:last]) && !strings.Contains(b[last:], ".")
}

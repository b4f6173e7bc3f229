package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/scheme"

	"espalier.dev/analysis"
	"espalier.dev/api"
	"espalier.dev/cmd/espalier/internal/builtin"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/internal/nearest"
)

// missingError says why an object has no CRD.
type missingError struct {
	// message says what is wrong, and remedy what to do, if it is not obvious.
	message, remedy string
	// field is the field that is probably wrong: apiVersion or kind.
	field string
	// unrelated is set if the object has nothing to do with the CRDs and the built-in kinds: no
	// CRD has its group, and it is no misspelling of one.
	unrelated bool
}

// Error returns the message and the remedy.
func (e *missingError) Error() string {
	if e.remedy == "" {
		return e.message
	}
	return e.message + ": " + e.remedy
}

// finding returns the finding about the object.
func (e *missingError) finding() analysis.Finding {
	return analysis.Finding{Rule: ruleMissingDefinition, Severity: analysis.Error, Path: e.field, Pointer: "/" + e.field, Message: e.Error()}
}

// missing returns the error for an object that no CRD serves. candidates are the CRDs of its
// kind.
func (ds *definitions) missing(it *input.Item, gk groupKind, version string, candidates []*definition) *missingError {
	if e := misspelledDefinition(it); e != nil {
		return e
	}
	if e := untyped(it); e != nil {
		return e
	}
	if len(candidates) > 0 {
		return &missingError{field: "apiVersion", message: fmt.Sprintf("version %q of %s is not served: the CRD in %s serves %s",
			version, gk.kind, candidates[0].file, strings.Join(candidates[0].served(), ", "))}
	}
	e := &missingError{field: "kind", message: fmt.Sprintf("no CRD found for %s %s", it.APIVersion(), gk.kind)}
	if known := ds.kinds()[gk.group]; known != nil {
		if meant := nearest.Name(gk.kind, slices.Values(known)); meant != "" {
			e.message += didYouMean("", meant)
		} else {
			e.remedy = "add it with --crd (the CRDs of its group define " + firstOf(known, 5) + ")"
		}
		return e
	}
	if meant := ds.meant(gk, version); meant != nil {
		e.field = "apiVersion"
		e.message += didYouMean("", meant.apiVersion(version))
		return e
	}
	if !wellFormed(it.APIVersion()) {
		return &missingError{field: "apiVersion", message: fmt.Sprintf("malformed apiVersion %q: must be group/version, or v1 for the core group", it.APIVersion())}
	}
	if ds.builtin.Has(it.APIVersion(), gk.kind) {
		e.message, e.unrelated = fmt.Sprintf("%s %s is a built-in kind, which has no CRD", it.APIVersion(), gk.kind), true
		e.remedy = "skip such objects with --skip-builtin-kinds"
		return e
	}
	if u := ds.builtin.Explain(it.APIVersion(), gk.kind); u != nil {
		return &missingError{field: u.Field, message: u.Message + didYouMean("", u.Meant), unrelated: u.Exists}
	}
	if meant := ds.meantBuiltin(gk); meant != "" {
		e.field = "apiVersion"
		e.message += didYouMean("", meant)
		return e
	}
	e.remedy = "add it with --crd"
	e.unrelated = true
	return e
}

// untyped returns the error for an object without apiVersion or kind, or nil.
func untyped(it *input.Item) *missingError {
	if it.APIVersion() != "" && it.Kind() != "" {
		return nil
	}
	for _, field := range []string{"apiVersion", "kind"} {
		if c := it.Field(field); c != 0 && c != 'n' && c != '"' {
			return &missingError{field: field, message: field + " must be a string"}
		}
	}
	return &missingError{field: "kind", message: "apiVersion and kind are required"}
}

// meant returns the CRD that an object of a group without CRDs is probably for, or nil.
func (ds *definitions) meant(gk groupKind, version string) *definition {
	if builtin.Group(gk.group) && len(scheme.Scheme.VersionsForGroupKind(schema.GroupKind{Group: gk.group, Kind: gk.kind})) > 0 {
		return nil
	}
	kinds := ds.kinds()
	for _, group := range slices.Sorted(maps.Keys(kinds)) {
		kind := gk.kind
		switch {
		case gk.group == "" && version == group:
			kind = kinds[group][0] // any: the version was forgotten
		case builtin.Group(gk.group):
			// Kubernetes has no such kind, and CRDs cannot add one to the group.
		case similarGroups(gk.group, group):
			kind = nearest.Name(kind, slices.Values(kinds[group]))
		case !sameButLast(gk.group, group):
			continue
		}
		if found := ds.byKind[groupKind{group, kind}]; len(found) > 0 {
			return found[0]
		}
	}
	return nil
}

// meantBuiltin returns the apiVersion of the built-in kind that an object of another group is
// probably of, or "".
func (ds *definitions) meantBuiltin(gk groupKind) string {
	if gk.group == "" {
		return ""
	}
	for _, gv := range ds.builtin.Versions(gk.kind) {
		if similarGroups(gk.group, gv.Group) || strings.HasPrefix(gv.Group, gk.group+".") || gk.group == "core" && gv.Group == "" {
			return gv.String()
		}
	}
	return ""
}

// apiVersion returns an apiVersion that the CRD serves, of the given version if possible.
func (d *definition) apiVersion(version string) string {
	served := d.served()
	if !slices.Contains(served, version) && len(served) > 0 {
		version = served[0]
	}
	return d.group + "/" + version
}

// misspelledDefinition returns the error for an object that is probably meant to be a CRD, but
// is none because of its apiVersion or kind. It returns nil for all others.
func misspelledDefinition(it *input.Item) *missingError {
	gk := kindOf(it)
	e := &missingError{message: fmt.Sprintf("%s %s is not a CRD", it.APIVersion(), it.Kind())}
	switch {
	case isDefinition(it):
		return nil
	case gk.kind == api.Kind:
		e.field = "apiVersion"
	case gk.kind == api.Kind+"List" || nearest.Name(gk.kind, slices.Values([]string{api.Kind})) == "":
		return nil
	case gk.group == api.GroupName:
		e.field = "kind"
		e.message += didYouMean("", api.Kind)
		return e
	case similarGroups(gk.group, api.GroupName):
		e.field = "apiVersion"
	default:
		return nil
	}
	if it.APIVersion() == "" {
		e.message = "a CRD needs an apiVersion"
	}
	e.message += didYouMean("", api.GroupName+"/v1")
	return e
}

// misspelledProblem returns the problem with an object that is probably meant to be a CRD, or
// nil.
func misspelledProblem(it *input.Item) *input.Problem {
	e := misspelledDefinition(it)
	if e == nil {
		return nil
	}
	at := it.Position("/" + e.field).Value
	if at.Line == 0 {
		at = it.Position("").Value
	}
	return &input.Problem{Rule: ruleMisspelled, File: it.File, Line: at.Line, Column: at.Column, Message: e.message,
		Source: input.ExcerptAt(it.Doc, at), Object: it.Identity()}
}

// wellFormed reports whether an apiVersion has the form version or group/version.
func wellFormed(apiVersion string) bool {
	group, version, ok := strings.Cut(apiVersion, "/")
	if !ok {
		return len(validation.IsDNS1035Label(apiVersion)) == 0
	}
	return len(validation.IsDNS1123Subdomain(group)) == 0 && len(validation.IsDNS1035Label(version)) == 0
}

// firstOf joins the first n names, and says how many there are in addition.
func firstOf(names []string, n int) string {
	if rest := len(names) - n; rest > 0 {
		names = append(slices.Clone(names[:n]), fmt.Sprintf("and %d more", rest))
	}
	return strings.Join(names, ", ")
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
		if label != bs[i] && nearest.Name(label, slices.Values(bs[i:i+1])) == "" {
			return false
		}
	}
	return true
}

// sameButLast reports whether two groups differ only in their last label, as example.com and
// example.org do. Groups that differ in the first one are often those of one project, with
// kinds of the same names.
func sameButLast(a, b string) bool {
	i, j := strings.LastIndexByte(a, '.'), strings.LastIndexByte(b, '.')
	return i > 0 && i == j && a[:i] == b[:j]
}

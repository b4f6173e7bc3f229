// Package releases knows which kinds and fields the releases of Kubernetes have, from 1.20 on. Its
// tables are generated from the source of these releases.
package releases

import (
	"cmp"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"sync"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// Release is a minor version of Kubernetes 1. The zero value is no release.
type Release int

// First and Last are the releases in the tables.
const First, Last Release = 20, 37

// Parse parses a version of Kubernetes: 1.31, v1.31, or one with a patch version, which does not
// matter.
func Parse(s string) (Release, error) {
	parts := strings.SplitN(strings.TrimPrefix(s, "v"), ".", 3)
	invalid := fmt.Errorf("%q is not a version of Kubernetes such as 1.31", s)
	if len(parts) < 2 || parts[0] != "1" {
		return 0, invalid
	}
	minor, err := strconv.ParseUint(parts[1], 10, 16)
	if err != nil || len(parts) == 3 && (parts[2] == "" || parts[2][0] < '0' || parts[2][0] > '9') {
		return 0, invalid
	}
	if r := Release(minor); r >= First && r <= Last {
		return r, nil
	}
	return 0, fmt.Errorf("Kubernetes %s is not known: must be from %s to %s", s, First, Last)
}

// String returns the version, such as 1.31.
func (r Release) String() string { return "1." + strconv.Itoa(int(r)) }

// Kind is a version of a kind. The releases that serve it are consecutive.
type Kind struct {
	runtimeschema.GroupVersionKind
	// From and To are the first and the last release that serve it, and DefaultFrom and DefaultTo
	// those that do so by default. A release before First counts as First. Without a release both
	// are zero.
	From, To, DefaultFrom, DefaultTo Release
	// Deprecated is the release that deprecates it, and Removed the one that removes it, or will.
	// Both may be zero.
	Deprecated, Removed Release
	// Replacement is the kind to use instead, if Kubernetes names one.
	Replacement runtimeschema.GroupVersionKind
}

// State is how a release serves a kind.
type State uint8

const (
	// Served kinds are served by default.
	Served State = iota
	// Optional kinds are served if kube-apiserver is told so.
	Optional
	// Future kinds are served by later releases.
	Future
	// Removed kinds were served by earlier releases.
	Removed
)

// In returns how a release serves the kind.
func (k *Kind) In(r Release) State {
	switch {
	case r < k.From:
		return Future
	case r > k.To:
		return Removed
	case r >= k.DefaultFrom && r <= k.DefaultTo:
		return Served
	}
	return Optional
}

// IsDeprecated reports whether a release has deprecated the kind.
func (k *Kind) IsDeprecated(r Release) bool { return k.Deprecated != 0 && k.Deprecated <= r }

// Warning returns the warning of a release about a deprecated kind, or "". The text is that of
// kube-apiserver.
func (k *Kind) Warning(r Release) string {
	if !k.IsDeprecated(r) {
		return ""
	}
	text := fmt.Sprintf("%s %s is deprecated in v%s+", k.GroupVersion(), k.Kind, k.Deprecated)
	if k.Removed != 0 {
		text += fmt.Sprintf(", unavailable in v%s+", k.Removed)
	}
	if k.Replacement.Kind != "" {
		text += fmt.Sprintf("; use %s %s", k.Replacement.GroupVersion(), k.Replacement.Kind)
	}
	return text
}

// Instead returns the version of the kind, or of its replacement, that a release serves, or nil. It
// prefers one that is served by default, then one that replaces the kind or that the kind replaces,
// then the newest.
func (k *Kind) Instead(r Release) (best *Kind) {
	better := func(a, b *Kind) int {
		return cmp.Or(cmp.Compare(b.In(r), a.In(r)), cmp.Compare(k.relation(a), k.relation(b)),
			version.CompareKubeAwareVersionStrings(a.Version, b.Version))
	}
	for _, other := range tables().kinds {
		if other.GroupKind() != k.GroupKind() && other.GroupKind() != k.Replacement.GroupKind() || other == k || other.In(r) > Optional {
			continue
		}
		if best == nil || better(other, best) > 0 {
			best = other
		}
	}
	return best
}

// relation returns 1 if one of two kinds replaces the other, otherwise 0.
func (k *Kind) relation(other *Kind) int {
	if other.GroupVersionKind == k.Replacement || k.GroupVersionKind == other.Replacement {
		return 1
	}
	return 0
}

// Find returns a version of a kind, or nil if no release in the tables serves it.
func Find(gvk runtimeschema.GroupVersionKind) *Kind { return tables().byKind[gvk] }

// All returns all kinds, sorted by group and version. The caller must not change them.
func All() []*Kind { return tables().kinds }

// Field says when a field was added.
type Field struct {
	// Added is the release that has added the field, or zero if it is as old as its type. Enabled
	// is the one that has it by default, or zero if that is the same. It is after Last if none has.
	Added, Enabled Release
	// Gate is the feature gate that enables it before.
	Gate string
}

// In reports whether a release has the field by default.
func (f *Field) In(r Release) bool { return f == nil || r >= f.Added && r >= f.Enabled }

// Missing describes why a release drops the field.
func (f *Field) Missing(r Release) string {
	switch {
	case r < f.Added && f.Enabled == 0:
		return fmt.Sprintf("Kubernetes %s drops it: it was added in %s", r, f.Added)
	case r < f.Added && f.Enabled > Last:
		return fmt.Sprintf("Kubernetes %s drops it: it was added in %s, for the feature gate %s", r, f.Added, f.Gate)
	case r < f.Added:
		return fmt.Sprintf("Kubernetes %s drops it: it was added in %s and is on by default since %s", r, f.Added, f.Enabled)
	case f.Enabled > Last:
		return fmt.Sprintf("Kubernetes %s drops it unless the feature gate %s is on", r, f.Gate)
	}
	return fmt.Sprintf("Kubernetes %s drops it unless the feature gate %s is on, which is the default since %s", r, f.Gate, f.Enabled)
}

// Fields returns the fields of a Go type that not all releases have, by their names in JSON. The
// type is that of the last release. The caller must not change them.
func Fields(importPath, name string) map[string]*Field {
	return tables().fields[strings.TrimPrefix(importPath, "k8s.io/")+"."+name]
}

// CRDFields is like [Fields] for a type of package apiextensions/v1, to which CRDs are decoded.
func CRDFields(name string) map[string]*Field {
	return Fields("apiextensions-apiserver/pkg/apis/apiextensions/v1", name)
}

//go:embed kinds.txt
var kindsText string

//go:embed fields.txt
var fieldsText string

type parsed struct {
	kinds  []*Kind
	byKind map[runtimeschema.GroupVersionKind]*Kind
	fields map[string]map[string]*Field
}

// tables parses the tables. They are generated, so that they have no errors.
var tables = sync.OnceValue(func() *parsed {
	p := &parsed{byKind: map[runtimeschema.GroupVersionKind]*Kind{}, fields: map[string]map[string]*Field{}}
	for _, words := range lines(kindsText) {
		k := &Kind{GroupVersionKind: runtimeschema.FromAPIVersionAndKind(words[0], words[1])}
		k.From, k.To = span(words[2])
		k.DefaultFrom, k.DefaultTo = span(words[3])
		k.Deprecated, k.Removed = release(words[4]), release(words[5])
		if i := strings.LastIndexByte(words[6], '.'); i > 0 {
			k.Replacement = runtimeschema.FromAPIVersionAndKind(words[6][:i], words[6][i+1:])
		}
		p.kinds = append(p.kinds, k)
		p.byKind[k.GroupVersionKind] = k
	}
	for _, words := range lines(fieldsText) {
		fields := map[string]*Field{}
		for _, word := range words[1:] {
			name, when, _ := strings.Cut(word, "=")
			parts := strings.Split(when, ",")
			f := &Field{Added: release(parts[0])}
			if len(parts) == 3 {
				f.Enabled, f.Gate = release(parts[1]), parts[2]
			}
			fields[name] = f
		}
		p.fields[words[0]] = fields
	}
	return p
})

// lines returns the words of the lines that are no comments.
func lines(text string) (out [][]string) {
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 0 && !strings.HasPrefix(line, "#") {
			out = append(out, words)
		}
	}
	return out
}

func span(text string) (from, to Release) {
	a, b, _ := strings.Cut(text, "-")
	return release(a), release(b)
}

func release(text string) Release {
	n, _ := strconv.Atoi(text) // 0 for -
	return Release(n)
}

package impact

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"espalier.dev/schema"
)

// Class is the effect of a change on stored objects and clients. A higher class is worse.
type Class uint8

const (
	// Safe is a change that affects neither stored objects nor clients.
	Safe Class = iota
	// Clients is a change that clients may not be prepared for.
	Clients
	// Unknown is a condition that stored objects may violate in fields that the old CRD did
	// not specify. It did not prune them either.
	Unknown
	// Defaulted is a default that appears in stored objects, or a different one than before.
	Defaulted
	// Invalid is a condition that stored objects may not meet.
	Invalid
	// Loses is a change that drops data from stored objects.
	Loses
)

// Classes returns all classes, the worst first.
func Classes() []Class { return []Class{Loses, Invalid, Defaulted, Unknown, Clients, Safe} }

// String returns the class in words.
func (c Class) String() string {
	switch c {
	case Clients:
		return "clients may break"
	case Unknown:
		return "unknown fields may become invalid"
	case Defaulted:
		return "newly defaulted"
	case Invalid:
		return "stored objects may become invalid"
	case Loses:
		return "stored objects lose data"
	}
	return "safe"
}

// ID returns the class as one word.
func (c Class) ID() string {
	switch c {
	case Clients:
		return "clients-break"
	case Unknown:
		return "unknown-fields"
	case Defaulted:
		return "defaulted"
	case Invalid:
		return "invalid"
	case Loses:
		return "loses-data"
	}
	return "safe"
}

// Observed returns the effect of the class on objects in words.
func (c Class) Observed() string {
	switch c {
	case Clients:
		return "no longer defaulted"
	case Unknown:
		return "invalid unknown fields"
	case Defaulted:
		return "newly defaulted"
	case Invalid:
		return "invalid"
	case Loses:
		return "lose data"
	}
	return "unaffected"
}

// Effect is a consequence of a change.
type Effect struct {
	Class Class
	// Path is the place in objects where the effect shows, there or below. Its steps are
	// properties, items and additionalProperties.
	Path schema.SchemaPath
	// Reason explains the effect where the change itself does not.
	Reason string

	// missing is set if Path is a required field that is missing.
	missing bool
	// own is set if the value at Path becomes the default of its own schema. differs is set
	// if it was another default before.
	own, differs bool
}

// Change is one difference between two CRDs.
type Change struct {
	// Kind names the difference, such as property-removed.
	Kind string
	// OldVersion and NewVersion are the versions that were compared. Both are empty for
	// changes of the CRD as a whole. They differ where objects move from one version to
	// another.
	OldVersion, NewVersion string
	// Path is the value that a change of a schema affects.
	Path schema.SchemaPath
	// OldPointer and NewPointer point into the CRDs, in their v1 form. One of the CRDs may
	// lack the field they point to.
	OldPointer, NewPointer string
	// Message describes the change in one sentence.
	Message string
	// Effects are the consequences. A safe change has none.
	Effects []Effect
	// Leniency describes which updates of an object that became invalid still pass. It is
	// empty if no object becomes invalid.
	Leniency string

	// inSchema is set for a change of a schema.
	inSchema bool
	// values are the values that the message shows, which may be shortened there.
	values string
	// prefix is the part of the message that says between which versions objects move.
	prefix string
	// transition is set for a new rule about updates.
	transition bool
}

// BreaksRules reports whether the change may make stored objects violate rules: it adds one, or
// changes a default that one reads.
func (c *Change) BreaksRules() bool {
	return (c.Kind == "rule-added" || strings.HasPrefix(c.Kind, "default-")) &&
		slices.ContainsFunc(c.Effects, func(e Effect) bool { return e.Class == Invalid })
}

// Class returns the worst class of the change's effects.
func (c *Change) Class() Class {
	worst := Safe
	for _, e := range c.Effects {
		worst = max(worst, e.Class)
	}
	return worst
}

// Observe adds an effect that was observed on an object, unless the verdict already is at
// least as bad.
func (c *Change) Observe(class Class) {
	if class > c.Class() {
		c.Effects = append(c.Effects, Effect{Class: class, Path: c.Path})
	}
}

// Classes returns the classes of the change's effects without duplicates, the worst first.
func (c *Change) Classes() []Class {
	var found []Class
	for _, class := range Classes() {
		for _, e := range c.Effects {
			if e.Class == class {
				found = append(found, class)
				break
			}
		}
	}
	if found == nil {
		return []Class{Safe}
	}
	return found
}

// Place returns the path of the value that changes, after its version if there is one:
// v1: spec.containers[].name.
func (c *Change) Place() string { return placeOf(c.version(), FieldPath(c.Path)) }

// version returns the version of the change, or the versions between which objects move. It is
// empty for a change of the CRD as a whole.
func (c *Change) version() string {
	switch {
	case c.NewVersion == "":
		return c.OldVersion
	case c.OldVersion != "" && c.OldVersion != c.NewVersion:
		return c.OldVersion + " → " + c.NewVersion
	}
	return c.NewVersion
}

// placeOf joins versions and a field, each of which may be empty.
func placeOf(versions, field string) string {
	if versions == "" || field == "" {
		return versions + field
	}
	return versions + ": " + field
}

// of sets the values that the message shows.
func (c *Change) of(values ...any) *Change {
	text, _ := json.Marshal(values) // they are from schemas
	c.values = string(text)
	return c
}

// FieldPath formats a path through properties, items and additionalProperties as
// spec.containers[].name. The values of a map are written as *.
func FieldPath(p schema.SchemaPath) string {
	var b strings.Builder
	dot := func() {
		if b.Len() > 0 {
			b.WriteByte('.')
		}
	}
	for _, s := range p {
		switch {
		case s.Keyword == "items":
			b.WriteString("[]")
		case s.Keyword == "additionalProperties":
			dot()
			b.WriteByte('*')
		case strings.ContainsAny(s.Name, ".[]*\"") || s.Name == "":
			fmt.Fprintf(&b, "[%q]", s.Name)
		default:
			dot()
			b.WriteString(s.Name)
		}
	}
	return b.String()
}

// Covers reports whether the effect shows at a path in an object: at the effect's own
// path or below.
func (e *Effect) Covers(p schema.Path) bool {
	if len(e.Path) > len(p) {
		return false
	}
	for i, s := range e.Path {
		switch s.Keyword {
		case "items":
			if p[i].Kind != schema.Index {
				return false
			}
		case "properties":
			if p[i].Kind == schema.Index || p[i].Key != s.Name {
				return false
			}
		default:
			if p[i].Kind == schema.Index {
				return false
			}
		}
	}
	return true
}

// IsTransition reports whether the change adds a rule about updates, which no stored object violates.
func (c *Change) IsTransition() bool { return c.transition }

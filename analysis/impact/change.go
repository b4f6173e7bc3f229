package impact

import (
	"fmt"
	"strings"

	"espalier.dev/schema"
)

// Class is what a change means for what exists. A higher class is worse.
type Class uint8

const (
	// Safe is a change that nothing stored and no client will notice.
	Safe Class = iota
	// Clients is a change that clients may not be prepared for.
	Clients
	// Defaulted is a value that appears in stored objects, or another one than before.
	Defaulted
	// Invalid is a condition that stored objects may not meet.
	Invalid
	// Loses is data that stored objects lose.
	Loses
)

// Classes returns all classes, the worst first.
func Classes() []Class { return []Class{Loses, Invalid, Defaulted, Clients, Safe} }

// String is the class in words.
func (c Class) String() string {
	switch c {
	case Clients:
		return "clients may break"
	case Defaulted:
		return "newly defaulted"
	case Invalid:
		return "stored objects may become invalid"
	case Loses:
		return "stored objects lose data"
	}
	return "safe"
}

// ID is the class in one word.
func (c Class) ID() string {
	switch c {
	case Clients:
		return "clients-break"
	case Defaulted:
		return "defaulted"
	case Invalid:
		return "invalid"
	case Loses:
		return "loses-data"
	}
	return "safe"
}

// Effect is something that follows from a change.
type Effect struct {
	Class Class
	// Path is where it shows in objects: there, or below. Its steps are properties,
	// items and additionalProperties.
	Path schema.SchemaPath
	// Reason says why, where the change itself does not.
	Reason string

	// missing says that Path is a field that is missed.
	missing bool
}

// Change is one difference between two definitions.
type Change struct {
	// Kind is the difference in a word or two, such as property-removed.
	Kind string
	// OldVersion and NewVersion are the versions that were compared; both are empty
	// for what concerns the definition as a whole. They differ where objects move
	// from one version to another.
	OldVersion, NewVersion string
	// Path is the value that the change is about, for what stands in a schema.
	Path schema.SchemaPath
	// OldPointer and NewPointer are the place in the definitions, written as v1. What
	// they name may be absent on one side.
	OldPointer, NewPointer string
	// Message says what changed, in one sentence.
	Message string
	// Effects are what follows. There are none if the change is safe.
	Effects []Effect
	// Leniency says which updates of an object that became invalid still pass. It is
	// empty if none becomes invalid.
	Leniency string
}

// Class is the worst that follows from the change.
func (c *Change) Class() Class {
	worst := Safe
	for _, e := range c.Effects {
		worst = max(worst, e.Class)
	}
	return worst
}

// Classes are all that follows from the change, the worst first, each once.
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

// Place is the value that the change is about, as people write it, with the version
// in front where there is one: v1: spec.containers[].name.
func (c *Change) Place() string {
	version := c.NewVersion
	switch {
	case c.OldVersion == "" && c.NewVersion == "":
		return ""
	case version == "":
		version = c.OldVersion
	case c.OldVersion != "" && c.OldVersion != version:
		version = c.OldVersion + " → " + version
	}
	if len(c.Path) == 0 {
		return version
	}
	return version + ": " + FieldPath(c.Path)
}

// FieldPath writes a path through properties, items and additionalProperties as
// spec.containers[].name; the values of a map are written as *.
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

// Covers reports whether the effect shows at a place in an object: at its path or
// below.
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

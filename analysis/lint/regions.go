package lint

import "espalier.dev/schema"

// pruningRegions reports values that only one of the semantics prunes. They disagree on
// where pruning resumes below x-kubernetes-preserve-unknown-fields.
func (c *check) pruningRegions() {
	for _, s := range c.d.schemas {
		if s.structural == nil || !s.prunes {
			continue
		}
		r := regions{check: c}
		r.value(s.at, region{
			kep:        schema.NewCursor(s.structural, schema.KEP, schema.PruningOn),
			kubernetes: schema.NewCursor(s.structural, schema.Kubernetes, schema.PruningOn),
		})
	}
}

// region is one position in a schema, in each of the semantics.
type region struct{ kep, kubernetes schema.Cursor }

// differs reports whether only one of the semantics prunes unknown fields.
func (r region) differs() bool { return r.kep.Prunes() != r.kubernetes.Prunes() }

func (r region) field(name string) region {
	r.kep, _ = r.kep.Field(name)
	r.kubernetes, _ = r.kubernetes.Field(name)
	return r
}

func (r region) mapValue() region {
	r.kep, _ = r.kep.MapValue()
	r.kubernetes, _ = r.kubernetes.MapValue()
	return r
}

func (r region) items() region { return region{r.kep.Items(), r.kubernetes.Items()} }

type regions struct {
	*check
}

// value checks a value and then its children.
func (r *regions) value(at *place, here region) {
	s := here.kep.Schema()
	if canBe(s, "object") {
		if here.differs() && s.AdditionalProperties == nil {
			r.report(at, here)
			// One finding per region is enough: the rest follows from it.
			return
		}
		for _, name := range sortedNames(s.Properties) {
			if sub := here.field(name); !sub.kep.InMetadata() {
				r.value(at.child("properties").key(name), sub)
			}
		}
		if ap := s.AdditionalProperties; ap != nil {
			below, sub := at.child("additionalProperties"), here.mapValue()
			if ap.Structural != nil {
				r.value(below, sub)
			} else if ap.Bool && sub.differs() {
				r.report(below, sub)
			}
		}
	}
	if s.Items != nil && canBe(s, "array") {
		r.value(at.child("items"), here.items())
	}
}

func (r *regions) report(at *place, here region) {
	keeps, prunes := schema.KEP, schema.Kubernetes
	if here.kep.Prunes() {
		keeps, prunes = prunes, keeps
	}
	r.warn(semanticsPruning, at, prunes.String(), " semantics prunes unknown fields here, ", keeps.String(),
		" preserves them: an object around this one has x-kubernetes-preserve-unknown-fields")
}

// canBe reports whether a schema allows values of a type.
func canBe(s *schema.Structural, typ string) bool {
	return (s.Type == "" || s.Type == typ) && !s.XIntOrString
}

package lint

import "espalier.dev/schema"

// pruningRegions reports the values that one of the semantics prunes and the other
// does not: below x-kubernetes-preserve-unknown-fields they disagree on where pruning
// starts again.
func (c *check) pruningRegions() {
	for _, s := range c.d.schemas {
		if s.structural == nil || !s.prunes {
			continue
		}
		r := regions{check: c}
		r.value(s.structural, s.at, keeping{}, true)
	}
}

// keeping says whether unknown fields of a value are kept, in each of the semantics.
type keeping struct{ kep, kubernetes bool }

// into returns the same for a part of the value.
func (k keeping) into(viaItems, specifiesFields bool) keeping {
	return keeping{
		kep:        k.kep && !schema.KEP.RestartsAt(viaItems, specifiesFields),
		kubernetes: k.kubernetes && !schema.Kubernetes.RestartsAt(viaItems, specifiesFields),
	}
}

type regions struct {
	*check
}

// value looks at a value, and then at its parts.
func (r *regions) value(s *schema.Structural, at *place, k keeping, isResource bool) {
	if s == nil {
		return
	}
	if s.XPreserveUnknownFields {
		k = keeping{true, true}
	}
	if canBe(s, "object") {
		if k.kep != k.kubernetes && s.AdditionalProperties == nil {
			r.report(at, k)
			// One finding for a region: what is below it follows from it.
			return
		}
		for _, name := range sortedNames(s.Properties) {
			sub := s.Properties[name]
			if (isResource || s.XEmbeddedResource) && (name == "apiVersion" || name == "kind" || name == "metadata") {
				continue
			}
			if sub != nil {
				r.value(sub, at.child("properties").key(name), k.into(false, specifies(sub)), false)
			}
		}
		if ap := s.AdditionalProperties; ap != nil {
			below := at.child("additionalProperties")
			if ap.Structural != nil {
				r.value(ap.Structural, below, k.into(false, specifies(ap.Structural)), false)
			} else if sub := k.into(false, false); ap.Bool && sub.kep != sub.kubernetes {
				r.report(below, sub)
			}
		}
	}
	if s.Items != nil && canBe(s, "array") {
		r.value(s.Items, at.child("items"), k.into(true, specifies(s.Items)), false)
	}
}

func (r *regions) report(at *place, k keeping) {
	keeps, prunes := schema.KEP, schema.Kubernetes
	if k.kubernetes {
		keeps, prunes = prunes, keeps
	}
	r.warn(semanticsPruning, at, prunes.String(), " semantics prunes unknown fields here, ", keeps.String(),
		" keeps them: they stand below x-kubernetes-preserve-unknown-fields")
}

// canBe says whether values of a schema can be of a type.
func canBe(s *schema.Structural, typ string) bool {
	return (s.Type == "" || s.Type == typ) && !s.XIntOrString
}

// specifies says whether a schema specifies fields, so that pruning can start again.
func specifies(s *schema.Structural) bool {
	return len(s.Properties) > 0 || s.AdditionalProperties != nil
}

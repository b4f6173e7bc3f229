package lint

import (
	"fmt"
	"slices"

	"espalier.dev/api"
	"espalier.dev/schema"
)

// conversionLoss reports fields that objects of a served version lose when they are
// stored. Without a conversion webhook only the apiVersion is converted, so the schema of
// the storage version prunes what it does not specify.
func (c *check) conversionLoss() {
	if !c.on[conversionLoss] || !c.d.prunes() || !c.d.convertsNothing() {
		return
	}
	stored := slices.IndexFunc(c.d.versions(), func(v version) bool { return v.storage })
	if stored < 0 {
		return
	}
	to := c.d.versions()[stored]
	for i, from := range c.d.versions() {
		if i == stored || !from.served || from.schema == nil || to.schema == nil ||
			from.schema.structural == nil || to.schema.structural == nil {
			continue
		}
		l := loss{check: c, from: from.name, to: to.name}
		l.value(from.schema.at,
			schema.NewCursor(from.schema.structural, c.sem, schema.PruningOn),
			schema.NewCursor(to.schema.structural, c.sem, schema.PruningOn))
	}
}

// version is a version of a CRD.
type version struct {
	name            string
	served, storage bool
	// schema is the version's own schema, or nil.
	schema *schemaSite
}

// versions returns the versions of the CRD.
func (d *definition) versions() (all []version) {
	own := func(i int) *schemaSite {
		at := root().child("spec", "versions").index(i).child("schema", "openAPIV3Schema").pointer()
		for _, s := range d.schemas {
			if s.at.pointer() == at {
				return s
			}
		}
		return nil
	}
	if d.beta != nil {
		for i, v := range d.beta.Spec.Versions {
			all = append(all, version{v.Name, v.Served, v.Storage, own(i)})
		}
		return all
	}
	for i, v := range d.v1.Spec.Versions {
		all = append(all, version{v.Name, v.Served, v.Storage, own(i)})
	}
	return all
}

// convertsNothing reports whether the conversion strategy is None, which is the default.
func (d *definition) convertsNothing() bool {
	if d.beta != nil {
		return d.beta.Spec.Conversion.Strategy == api.NoneConverter
	}
	return d.v1.Spec.Conversion.Strategy == api.NoneConverter
}

// loss compares what two versions keep of an object.
type loss struct {
	*check
	from, to string
}

// value compares a value that version from keeps with what version to keeps of it.
func (l *loss) value(at *place, from, to schema.Cursor) {
	if from.InMetadata() || to.Schema() == nil && !to.Prunes() {
		return
	}
	s := from.Schema()
	if s == nil {
		return
	}
	if canBe(s, "object") && l.object(at, from, to) {
		return
	}
	if s.Items != nil && canBe(s, "array") {
		l.value(at.child("items"), from.Items(), to.Items())
	}
}

// object compares an object. It returns true if all there is to say has been said.
func (l *loss) object(at *place, from, to schema.Cursor) bool {
	s := from.Schema()
	value, maps := to.MapValue()
	if !from.Prunes() && s.AdditionalProperties == nil && !maps {
		l.warn(conversionLoss, at,
			fmt.Sprintf("version %s preserves unknown fields here, but the storage version %s prunes them: objects of version %s lose them when they are stored", l.from, l.to, l.from))
		return true
	}
	if from.IsResource() && !to.IsResource() {
		for _, name := range [...]string{"apiVersion", "kind", "metadata"} {
			if _, kept := to.Field(name); !kept && s.Properties[name] == nil {
				l.warn(conversionLoss, at,
					fmt.Sprintf("this is an embedded resource in version %s, but not in the storage version %s, which does not specify %s: objects of version %s lose it when they are stored", l.from, l.to, name, l.from))
			}
		}
	}
	for _, name := range sortedNames(s.Properties) {
		field, _ := from.Field(name)
		below := at.child("properties").key(name)
		stored, kept := to.Field(name)
		if !kept {
			l.warn(conversionLoss, below,
				fmt.Sprintf("the storage version %s does not specify this field: objects of version %s lose it when they are stored",
					l.to, l.from))
			continue
		}
		l.value(below, field, stored)
	}
	if ap := s.AdditionalProperties; ap != nil && ap.Bool {
		below := at.child("additionalProperties")
		if !maps {
			l.warn(conversionLoss, below,
				fmt.Sprintf("the storage version %s does not specify the keys of this map: objects of version %s lose them when they are stored", l.to, l.from))
			return false
		}
		field, _ := from.MapValue()
		l.value(below, field, value)
	}
	return false
}

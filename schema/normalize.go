package schema

import (
	"errors"
	"fmt"
)

// DecodeOptions configures Decode and Normalize.
type DecodeOptions struct {
	// Report requests a Report of the changes.
	Report bool
	// FromStorage is for objects that are read from storage: malformed fields of
	// metadata are dropped instead of rejected, types are not checked, a missing
	// generation becomes 1, and an object whose defaults have more than MaxDefaultBytes
	// gets none: reading it does not fail because the schema has got more defaults.
	FromStorage bool
	// WithoutDefaults disables defaulting. It is for the results of a conversion, which
	// must not get fields that the original lacked.
	WithoutDefaults bool
	// Old is the stored object that an update replaces. Type contradictions that it
	// already has are tolerated.
	Old Object
}

// child returns the node of a field, and whether the field is a map value.
func (n *node) child(name string) (id int32, isMapValue bool) {
	if id = n.props.find(name); id != none {
		return id, false
	}
	return n.additional, true
}

// Normalize prunes unspecified fields, drops nulls that are not allowed, normalizes
// metadata and fills in defaults. It changes obj in place. The report is nil unless o
// requests it.
//
// The error is a *MetadataError, a *ContradictionError or a *DefaultsError. After an error, obj may be
// partly normalized.
func (p *Program) Normalize(obj Object, o DecodeOptions) (*Report, error) {
	z := p.newNormalizer(o)
	if o.FromStorage && z.defaults && p.missingBytes(root, obj).bytes > MaxDefaultBytes {
		z.defaults = false
	}
	if err := z.resource(obj, o.FromStorage); err != nil {
		return nil, err
	}
	if z.exceeded != nowhere {
		return nil, &DefaultsError{p.ref(z.exceeded)}
	}
	if err := z.contradictionsFound(); err != nil {
		return nil, err
	}
	if z.report != nil {
		z.report.sort()
	}
	return z.report, nil
}

func (p *Program) newNormalizer(o DecodeOptions) normalizer {
	z := normalizer{
		p: p, old: o.Old, room: MaxDefaultBytes,
		dropNulls:      !p.preserveAll,
		defaults:       p.hasDefaults && !o.WithoutDefaults,
		dropMetadata:   o.FromStorage,
		contradictions: !o.FromStorage && !p.preserveAll && p.semantics.RefusesContradictions(),
	}
	if o.Report {
		z.report = &Report{}
	}
	z.track = o.Report
	return z
}

// normalizer normalizes a tree.
type normalizer struct {
	p   *Program
	old Object

	dropNulls      bool
	defaults       bool
	dropMetadata   bool
	contradictions bool

	// room is the number of bytes that defaults may still have. exceeded is the node of the first default
	// that exceeded it, or nowhere.
	room     int
	exceeded int32

	// track is true if path is maintained.
	track  bool
	path   Path
	report *Report
	found  []Contradiction
}

func (z *normalizer) push(s Step) {
	if z.track {
		z.path = append(z.path, s)
	}
}

func (z *normalizer) pop() {
	if z.track {
		z.path = z.path[:len(z.path)-1]
	}
}

func (z *normalizer) record(k ChangeKind, schema int32, s Step) {
	if z.report == nil {
		return
	}
	z.report.add(Change{Kind: k, Schema: z.p.ref(schema)}, z.path, Path{s})
}

// resource normalizes a whole object. It sets aside the object's apiVersion, kind and
// metadata first, because the schema does not determine their structure.
func (z *normalizer) resource(obj Object, repairGeneration bool) error {
	for _, k := range [...]string{"kind", "apiVersion"} {
		if v, found := obj[k]; found {
			if _, ok := v.(string); !ok {
				return &MetadataError{Path{{Key: k}}, v, fmt.Sprintf("must be a string, not %s", jsonTypeOf(v).typeName())}
			}
		}
	}
	var meta map[string]any
	v, hasMeta := obj["metadata"]
	if hasMeta {
		var err error
		if meta, err = z.metadata(v, repairGeneration); err != nil {
			return err
		}
	}
	if err := z.object(root, obj); err != nil {
		return err
	}
	if hasMeta {
		obj["metadata"] = meta
		if id := z.p.nodes[root].props.find("metadata"); id != none && z.defaults {
			z.push(Step{Key: "metadata"})
			z.fillIn(id, meta)
			z.pop()
		}
	}
	return nil
}

// metadata normalizes the metadata of a resource; z.path leads to the resource.
func (z *normalizer) metadata(v any, repairGeneration bool) (map[string]any, error) {
	meta, unknown, dropped, err := normalizeMetadata(v, z.dropMetadata)
	if err != nil {
		return nil, &MetadataError{append(z.path.clone(), Step{Key: "metadata"}), v, err.Error()}
	}
	if repairGeneration {
		if _, found := meta["generation"]; !found {
			meta["generation"] = int64(1)
		}
	}
	if z.report != nil {
		z.addMetadata(Pruned, unknown)
		z.addMetadata(MetadataDropped, dropped)
	}
	return meta, nil
}

func (z *normalizer) addMetadata(k ChangeKind, paths []Path) {
	for _, path := range paths {
		z.report.add(Change{Kind: k}, z.path, append(Path{{Key: "metadata"}}, path...))
	}
}

// value normalizes the fields or items of a value of node id.
func (z *normalizer) value(id int32, v any) error {
	if z.contradictions {
		z.contradiction(id, v)
	}
	switch v := v.(type) {
	case map[string]any:
		return z.object(id, v)
	case []any:
		return z.array(id, v)
	}
	return nil
}

// isDroppable reports whether nulls are dropped. A null with a default is replaced
// instead.
func (n *node) isDroppable() bool { return n.flags&(nullable|hasDefault) == 0 }

func (z *normalizer) object(id int32, obj map[string]any) error {
	n := &z.p.nodes[id]
	fields := len(obj)
	// Looking up each property is faster than iterating over the map. If all fields are
	// properties, no iteration is needed.
	byProperty := n.flags&(isRoot|embedded) == 0 && len(n.props.list) <= 2*fields
	if byProperty {
		specified := 0
		fill := z.defaults && n.props.defaulted != nil
		for i := range n.props.list {
			prop := &n.props.list[i]
			v, found := obj[prop.name]
			if !found {
				if fill && z.p.nodes[prop.node].flags&hasDefault != 0 {
					z.fill(obj, prop)
				}
				continue
			}
			specified++
			if isScalar(v) && !z.contradictions {
				continue
			}
			if err := z.field(n, obj, prop.node, Step{Key: prop.name}, v); err != nil {
				return err
			}
		}
		if specified == fields {
			return nil
		}
	}
	for k, v := range obj {
		child := n.props.find(k)
		step := Step{Key: k}
		switch {
		case child != none:
			if byProperty {
				continue
			}
		case n.additional != none:
			child, step.Kind = n.additional, MapKey
		case n.flags&prunes != 0 && !n.isMeta(k):
			z.record(Pruned, id, step)
			delete(obj, k)
			continue
		}
		if err := z.field(n, obj, child, step, v); err != nil {
			return err
		}
	}
	if !byProperty {
		z.missing(n, obj)
	}
	return nil
}

// isMeta reports whether a field is apiVersion, kind or metadata of a resource, which
// are specified whatever the schema contains.
func (n *node) isMeta(name string) bool {
	return n.flags&(isRoot|embedded) != 0 && IsMetaField(name)
}

// field normalizes a field that is kept. child is its schema, or none.
func (z *normalizer) field(n *node, obj map[string]any, child int32, step Step, v any) error {
	if n.isMeta(step.Key) {
		if n.flags&isRoot != 0 {
			// The fields of the root are already normalized.
			return nil
		}
		return z.metaField(child, obj, step.Key, v)
	}
	if child == none {
		return nil
	}
	if v == nil && child != nowhere && z.null(child, obj, step) {
		return nil
	}
	if !isContainer(v) && !z.contradictions {
		return nil
	}
	return z.part(child, step, v)
}

// part normalizes a field or item of a value.
func (z *normalizer) part(child int32, step Step, v any) error {
	z.push(step)
	found := len(z.found)
	err := z.value(child, v)
	z.pop()
	for i := found; i < len(z.found); i++ {
		z.found[i].Path = append(z.found[i].Path, step)
	}
	if err == nil || z.track {
		return err
	}
	// No path is maintained, so the path of the error is built on the way up.
	var bad *MetadataError
	if errors.As(err, &bad) {
		bad.Path = append(Path{step}, bad.Path...)
	}
	return err
}

// null drops a null that is not allowed, or replaces it by the default. It returns
// false if the null is kept.
func (z *normalizer) null(child int32, obj map[string]any, step Step) bool {
	switch c := &z.p.nodes[child]; {
	case c.flags&nullable != 0:
		return false
	case c.flags&hasDefault == 0:
		if !z.dropNulls {
			return false
		}
		z.record(NullDropped, child, step)
		delete(obj, step.Key)
		return true
	case z.defaults:
		if z.fits(child, nameBytes(step.Key)) {
			obj[step.Key] = z.p.defaultOf(child)
			z.record(Defaulted, child, step)
		}
		return true
	}
	return false
}

// metaField normalizes apiVersion, kind or metadata of an embedded resource.
func (z *normalizer) metaField(child int32, obj map[string]any, k string, v any) error {
	if v == nil && child > nowhere && z.dropNulls && z.p.nodes[child].isDroppable() {
		z.record(NullDropped, child, Step{Key: k})
		delete(obj, k)
		return nil
	}
	if k != "metadata" {
		if _, ok := v.(string); ok {
			return nil
		}
		if !z.dropMetadata {
			return &MetadataError{append(z.path.clone(), Step{Key: k}), v, "must be a string"}
		}
		z.record(MetadataDropped, child, Step{Key: k})
		delete(obj, k)
		return nil
	}
	if child > nowhere && isContainer(v) {
		// Defaults are applied last, after metadata has been normalized.
		defaults := z.defaults
		z.defaults = false
		err := z.part(child, Step{Key: k}, v)
		z.defaults = defaults
		if err != nil {
			return err
		}
	}
	meta, err := z.metadata(v, false)
	if err != nil {
		if !z.dropMetadata {
			return err
		}
		return nil
	}
	obj[k] = meta
	if child > nowhere && z.defaults {
		z.push(Step{Key: k})
		z.fillIn(child, meta)
		z.pop()
	}
	return nil
}

func (z *normalizer) array(id int32, a []any) error {
	child := z.p.nodes[id].items
	if child == none {
		return nil
	}
	c := &z.p.nodes[child]
	for i, v := range a {
		if v == nil && c.flags&(nullable|hasDefault) == hasDefault && z.defaults {
			if z.fits(child, 0) {
				a[i] = z.p.defaultOf(child)
				z.record(Defaulted, child, Step{Index: i, Kind: Index})
			}
			continue
		}
		if !isContainer(v) && !z.contradictions {
			continue
		}
		if err := z.part(child, Step{Index: i, Kind: Index}, v); err != nil {
			return err
		}
	}
	return nil
}

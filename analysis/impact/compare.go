package impact

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"espalier.dev/api"
	"espalier.dev/schema"
)

// comparer compares the schemas of two versions.
type comparer struct {
	Options
	// oldAll and newAll say that preserveUnknownFields is on.
	oldAll, newAll         bool
	oldVersion, newVersion string
	// oldBase and newBase are the pointers of the schemas.
	oldBase, newBase string

	open, unspecified *schema.Structural
	meta              map[string]*schema.Structural
	prover            prover
	changes           []*Change
	// switched is the change that turned pruning on for the values below it.
	switched *Change
	// scaled are the values that the new scale subresource reads.
	scaled []schema.SchemaPath
}

func newComparer(o Options) *comparer {
	return &comparer{
		Options:     o,
		open:        &schema.Structural{Generic: schema.Generic{Nullable: true}},
		unspecified: &schema.Structural{Generic: schema.Generic{Nullable: true}},
		meta:        metaSchemas(),
		prover:      prover{proverSteps},
	}
}

// via is how a value is reached.
type via uint8

const (
	viaField via = iota
	viaMap
	viaItems
	viaRoot
	// viaMeta is apiVersion, kind or metadata of a resource.
	viaMeta
)

// place is where a value is.
type place struct {
	// path leads to the value in objects; old and new are where its schema stands.
	path, old, new schema.SchemaPath
	via            via
	// trail are the new schemas on the way, the root first, the value's own last.
	trail []*schema.Structural
}

func (p place) down(step schema.SchemaStep, oldStep, newStep schema.SchemaStep, how via, n *schema.Structural) place {
	return place{extend(p.path, step), extend(p.old, oldStep), extend(p.new, newStep), how, extend(p.trail, n)}
}

func extend[S ~[]E, E any](s S, e E) S { return append(slices.Clip(s), e) }

func property(name string) schema.SchemaStep {
	return schema.SchemaStep{Keyword: "properties", Form: schema.StepNamed, Name: name}
}

var (
	itemsStep = schema.SchemaStep{Keyword: "items"}
	mapStep   = schema.SchemaStep{Keyword: "additionalProperties"}
)

// alteration is how what is seen of a value changes, beside its effects.
type alteration uint8

const (
	unaltered alteration = iota
	// gone: a value may disappear that was there.
	gone
	// appears: a value may be there that was not, or be another one.
	appears
	// retyped: a rule sees the same value with another type.
	retyped
)

// emit adds a change at a place, with what follows for the schemas around it.
func (c *comparer) emit(at place, kind, keyword, message string, effects ...Effect) *Change {
	return c.emitAltering(at, unaltered, kind, keyword, message, effects...)
}

// emitAltering is emit for a change that alters what others see at at.path, even
// if no effect says so.
func (c *comparer) emitAltering(at place, alters alteration, kind, keyword, message string, effects ...Effect) *Change {
	suffix := ""
	if keyword != "" {
		suffix = "/" + keyword
	}
	ch := &Change{
		Kind: kind, OldVersion: c.oldVersion, NewVersion: c.newVersion, Path: at.path, Message: message,
		OldPointer: c.oldBase + at.old.Pointer() + suffix, NewPointer: c.newBase + at.new.Pointer() + suffix,
	}
	c.changes = append(c.changes, ch)
	c.affect(ch, at, effects...)
	if alters != unaltered {
		c.dependents(ch, at.trail, at.path, alters)
	}
	return ch
}

// affect adds effects to a change, with what follows from them.
func (c *comparer) affect(ch *Change, at place, effects ...Effect) {
	ch.Effects = append(ch.Effects, effects...)
	for _, e := range effects {
		switch e.Class {
		case Loses:
			c.dependents(ch, at.trail, e.Path, gone)
		case Defaulted:
			c.dependents(ch, at.trail, e.Path, appears)
			for _, scaled := range c.scaled {
				if related(e.Path, scaled) {
					ch.Effects = append(ch.Effects, Effect{Invalid, scaled, "the scale subresource reads it"})
				}
			}
		}
	}
}

// related says whether one path leads to the other.
func related(a, b schema.SchemaPath) bool {
	n := min(len(a), len(b))
	return slices.Equal(a[:n], b[:n])
}

func at(class Class, p schema.SchemaPath, reason string) Effect {
	return Effect{Class: class, Path: p, Reason: reason}
}

// value compares the schemas of a value.
func (c *comparer) value(p place, o, n side) {
	if o == n {
		return
	}
	if c.isAnything(o) {
		c.specified(p, n)
		return
	}
	if c.isAnything(n) {
		c.unspecify(p, o)
		return
	}
	c.documentation(p, o.node, n.node)
	c.types(p, o, n)
	c.nulls(p, o, n)
	c.defaults(p, o.node, n.node)
	both := o.kinds() & n.kinds()
	if both == 0 {
		return
	}
	c.conditions(p, o, n)
	if both&arrays != 0 {
		c.lists(p, o, n)
	}
	if both&objects != 0 {
		c.objects(p, o, n)
	}
}

// specified handles a value that was kept whatever it was, and has a schema now.
func (c *comparer) specified(p place, n side) {
	var effects []Effect
	if anyBelow(n.node, c.refusesAnything) {
		effects = append(effects, at(Invalid, p.path, "whatever was stored here is validated from now on"), at(Clients, p.path, ""))
	}
	if n.mode == prune || !n.node.Nullable && p.via != viaMeta {
		effects = append(effects, at(Loses, p.path, "what the schema does not specify here is pruned, and nulls are dropped where they are not allowed"))
	}
	if anyBelow(n.node, hasDefault) {
		effects = append(effects, at(Defaulted, p.path, ""))
	}
	c.emit(p, "value-specified", "", "was kept as it came, now has a schema", effects...)
}

// unspecify handles a value that had a schema, and is kept whatever it is now.
func (c *comparer) unspecify(p place, o side) {
	alters := unaltered
	if anyBelow(o.node, hasDefault) {
		alters = gone
	}
	c.emitAltering(p, alters, "value-unspecified", "", "had a schema, is now kept as it comes",
		at(Clients, p.path, "clients can no longer rely on its shape, its conditions and its defaults"))
}

// documentation compares what only people read.
func (c *comparer) documentation(p place, o, n *schema.Structural) {
	for _, d := range []struct {
		keyword  string
		old, new any
	}{
		{"description", o.Description, n.Description},
		{"title", o.Title, n.Title},
		{"example", o.Example, n.Example},
		{"externalDocs", o.ExternalDocs, n.ExternalDocs},
		{"readOnly", o.ReadOnly, n.ReadOnly},
	} {
		if !reflect.DeepEqual(d.old, d.new) {
			c.emit(p, "documentation", d.keyword, d.keyword+" changed")
		}
	}
}

func typeName(s *schema.Structural) string {
	switch {
	case s.XIntOrString:
		return "int-or-string"
	case s.Type == "":
		return "any"
	}
	return s.Type
}

func (c *comparer) types(p place, o, n side) {
	if o.node.Type == n.node.Type && o.node.XIntOrString == n.node.XIntOrString {
		return
	}
	effects := []Effect{at(Clients, p.path, "typed clients expect the old type")}
	lost := o.kinds() &^ n.kinds()
	if lost != 0 {
		effects = append(effects, at(Invalid, p.path, "values of the old type are refused"))
	}
	if lost&(arrays|objects) != 0 {
		if n.inside() == prune {
			effects = append(effects, at(Loses, p.path, "fields in values of the old type are pruned"))
		}
		if anyBelow(n.node, hasDefault) {
			effects = append(effects, at(Defaulted, p.path, ""))
		}
	}
	keyword := "type"
	if o.node.XIntOrString != n.node.XIntOrString {
		keyword = "x-kubernetes-int-or-string"
	}
	c.emitAltering(p, retyped, "type", keyword, fmt.Sprintf("type %s → %s", typeName(o.node), typeName(n.node)), effects...)
}

// nulls compares what becomes of null.
func (c *comparer) nulls(p place, o, n side) {
	if p.via == viaRoot || p.via == viaMeta {
		return
	}
	untyped := o.node.Type == "" && !o.node.XIntOrString
	mayBeNull := len(vv(o.node).Enum) == 0 && (o.node.Nullable || untyped && (p.via == viaItems || c.oldAll))
	var effects []Effect
	switch {
	case !mayBeNull || n.node.Nullable:
	case hasDefault(n.node):
		effects = []Effect{at(Defaulted, p.path, "null becomes the default")}
	case p.via != viaItems && !c.newAll:
		effects = []Effect{at(Loses, p.path, "null is dropped"), at(Clients, p.path, "")}
	case n.kinds() != allKinds || len(vv(n.node).Enum) > 0:
		effects = []Effect{at(Invalid, p.path, "null is refused"), at(Clients, p.path, "")}
	}
	if o.node.Nullable != n.node.Nullable || len(effects) > 0 {
		message := "null is allowed now"
		if !n.node.Nullable {
			message = "null is no longer allowed"
		}
		c.emit(p, "nullable", "nullable", message, effects...)
	}
}

func (c *comparer) defaults(p place, o, n *schema.Structural) {
	if p.via == viaRoot {
		return
	}
	switch was, is := hasDefault(o), hasDefault(n); {
	case !was && is:
		c.emit(p, "default-added", "default", "default "+show(n.Default.Value)+" added", at(Defaulted, p.path, ""))
	case was && !is:
		c.emitAltering(p, gone, "default-removed", "default", "default "+show(o.Default.Value)+" removed",
			at(Clients, p.path, "objects that were stored before they had the value are read without it, and new ones no longer get it"))
	case was && !reflect.DeepEqual(o.Default.Value, n.Default.Value):
		c.emitAltering(p, gone, "default-changed", "default", fmt.Sprintf("default %s → %s", show(o.Default.Value), show(n.Default.Value)),
			at(Defaulted, p.path, "objects that were stored before they had the value are read with the new one"), at(Clients, p.path, ""))
	}
}

// tightened are the effects of a condition that not all old values meet.
func tightened(p schema.SchemaPath, reason string) []Effect {
	return []Effect{at(Invalid, p, reason), at(Clients, p, "writers of such values are refused")}
}

// conditions compares what a value must satisfy.
func (c *comparer) conditions(p place, o, n side) {
	ov, nv := vv(o.node), vv(n.node)
	branches := facts(&schema.NestedValueValidation{ValueValidation: *ov})
	for _, k := range keywords() {
		was, is := k.of(ov), k.of(nv)
		if reflect.DeepEqual(was, is) {
			continue
		}
		var effects []Effect
		alters := unaltered
		if is != nil && k.on&o.kinds() != 0 && !slices.ContainsFunc(branches, func(f *schema.NestedValueValidation) bool {
			return k.implied(&f.ValueValidation, nv, n.node.Type)
		}) {
			effects = tightened(p.path, "")
		}
		if k.name == "format" {
			alters = retyped
		}
		c.emitAltering(p, alters, k.name, k.name, fmt.Sprintf("%s %s → %s", k.name, show(was), show(is)), effects...)
	}
	c.junctors(p, o, n)
	c.rules(p, o.node.XValidations, n.node.XValidations)
}

func (c *comparer) junctors(p place, o, n side) {
	ov, nv := vv(o.node), vv(n.node)
	var known []*schema.NestedValueValidation
	for _, j := range []struct {
		name     string
		old, new any
		only     schema.ValueValidation
	}{
		{"allOf", ov.AllOf, nv.AllOf, schema.ValueValidation{AllOf: nv.AllOf}},
		{"anyOf", ov.AnyOf, nv.AnyOf, schema.ValueValidation{AnyOf: nv.AnyOf}},
		{"oneOf", ov.OneOf, nv.OneOf, schema.ValueValidation{OneOf: nv.OneOf}},
		{"not", ov.Not, nv.Not, schema.ValueValidation{Not: nv.Not}},
	} {
		if reflect.DeepEqual(j.old, j.new) {
			continue
		}
		if known == nil {
			known = nested(o.node)
		}
		var effects []Effect
		verdict := "what it took it still takes"
		if !c.prover.holds(known, &schema.NestedValueValidation{ValueValidation: j.only}) {
			effects = tightened(p.path, "")
			verdict = "it cannot be shown that all values that passed still do"
		}
		c.emit(p, j.name, j.name, j.name+" changed: "+verdict, effects...)
	}
}

func sameRule(r api.ValidationRule) func(api.ValidationRule) bool {
	return func(s api.ValidationRule) bool {
		return r.Rule == s.Rule && onCreate(r) == onCreate(s)
	}
}

// isTransition says whether a rule compares with the old value.
func isTransition(r api.ValidationRule) bool { return strings.Contains(r.Rule, "oldSelf") }

// onCreate says whether a rule that compares with the old value runs without one.
func onCreate(r api.ValidationRule) bool { return r.OptionalOldSelf != nil && *r.OptionalOldSelf }

func (c *comparer) rules(p place, o, n []api.ValidationRule) {
	for i, r := range n {
		keyword := fmt.Sprintf("x-kubernetes-validations/%d", i)
		j := slices.IndexFunc(o, sameRule(r))
		switch {
		case j < 0 && isTransition(r) && !onCreate(r):
			c.emit(p, "rule-added", keyword, "rule added: "+show(r.Rule), at(Clients, p.path, "updates that break it are refused; stored objects are not judged by it"))
		case j < 0:
			c.emit(p, "rule-added", keyword, "rule added: "+show(r.Rule), tightened(p.path, "")...)
		case !reflect.DeepEqual(o[j], r):
			c.emit(p, "rule-message", keyword, "what a rule says when it is broken changed: "+show(r.Rule))
		}
	}
	for _, r := range o {
		if !slices.ContainsFunc(n, sameRule(r)) {
			c.emit(p, "rule-removed", "x-kubernetes-validations", "rule removed: "+show(r.Rule))
		}
	}
}

func (c *comparer) lists(p place, o, n side) {
	ot, nt := listType(o.node), listType(n.node)
	sameKeys := slices.Equal(o.node.XListMapKeys, n.node.XListMapKeys)
	if ot != nt || !sameKeys {
		effects := []Effect{at(Clients, p.path, "server-side apply merges and owns its items in another way")}
		if nt == "set" || nt == "map" && !(ot == nt && sameKeys) {
			effects = append(effects, at(Invalid, p.path, "items that count as the same are refused"))
		}
		keyword, message := "x-kubernetes-list-type", fmt.Sprintf("list type %s → %s", ot, nt)
		if ot == nt {
			keyword, message = "x-kubernetes-list-map-keys", fmt.Sprintf("list map keys %s → %s", show(o.node.XListMapKeys), show(n.node.XListMapKeys))
		}
		c.emitAltering(p, retyped, "list-type", keyword, message, effects...)
	}
	if o.node.Items == nil && n.node.Items == nil {
		if o.inside() != prune && n.inside() == prune {
			c.turnOn(p, extend(p.path, itemsStep))
		}
		return
	}
	oi, ni := c.items(o), c.items(n)
	if o.node.Items == nil || n.node.Items == nil {
		verb := "specified"
		if n.node.Items == nil {
			verb = "no longer specified"
		}
		c.emit(p, "items", "items", "items are "+verb, at(Clients, extend(p.path, itemsStep), ""))
	}
	c.value(p.down(itemsStep, itemsStep, itemsStep, viaItems, ni.node), oi, ni)
}

// turnOn records that fields below a value, which were kept, are pruned.
func (c *comparer) turnOn(p place, path schema.SchemaPath) {
	if c.switched != nil {
		c.affect(c.switched, p, at(Loses, path, ""))
		return
	}
	c.switched = c.emit(p, "pruning", "x-kubernetes-preserve-unknown-fields", "fields that are not specified were kept, and are pruned from now on",
		at(Loses, path, ""), at(Clients, path, ""))
}

func (c *comparer) extensions(p place, o, n *schema.Structural) {
	if a, b := mapType(o), mapType(n); a != b {
		c.emitAltering(p, retyped, "map-type", "x-kubernetes-map-type", fmt.Sprintf("map type %s → %s", a, b),
			at(Clients, p.path, "server-side apply merges and owns its fields in another way"))
	}
	switch was, is := o.XEmbeddedResource, n.XEmbeddedResource; {
	case !was && is:
		c.emitAltering(p, retyped, "embedded-resource", "x-kubernetes-embedded-resource", "is an embedded resource now",
			at(Invalid, p.path, "apiVersion, kind and metadata are required and validated"),
			at(Loses, extend(p.path, property("metadata")), "unknown and malformed fields of metadata are pruned"),
			at(Loses, p.path, "an apiVersion, kind or metadata of the wrong type is dropped"), at(Clients, p.path, ""))
	case was && !is:
		c.emitAltering(p, retyped, "embedded-resource", "x-kubernetes-embedded-resource", "is no longer an embedded resource",
			at(Clients, p.path, "apiVersion, kind and metadata are no longer specified and validated by themselves"))
	}
	if !reflect.DeepEqual(o.XUnions, n.XUnions) {
		var effects []Effect
		if c.Semantics.KnowsUnions() && slices.ContainsFunc(n.XUnions, func(u api.Union) bool {
			return !slices.ContainsFunc(o.XUnions, func(x api.Union) bool { return reflect.DeepEqual(x, u) })
		}) {
			effects = tightened(p.path, "exactly one member may be set, and the discriminator has to name it")
		}
		c.emit(p, "unions", "x-kubernetes-unions", "unions changed", effects...)
	}
}

func (c *comparer) objects(p place, o, n side) {
	c.extensions(p, o.node, n.node)
	c.required(p, o, n)
	outer := c.switched
	defer func() { c.switched = outer }()

	c.otherFields(p, o, n)
	names := map[string]bool{}
	for name := range o.node.Properties {
		names[name] = true
	}
	for name := range n.node.Properties {
		names[name] = true
	}
	if o.resource || n.resource {
		names["apiVersion"], names["kind"], names["metadata"] = true, true, true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		c.property(p, o, n, name)
	}
}

// required compares which fields must be there.
func (c *comparer) required(p place, o, n side) {
	was := map[string]bool{}
	for _, f := range facts(&schema.NestedValueValidation{ValueValidation: *vv(o.node)}) {
		for _, name := range f.Required {
			was[name] = true
		}
	}
	for _, name := range vv(n.node).Required {
		if slices.Contains(vv(o.node).Required, name) {
			continue
		}
		path := extend(p.path, property(name))
		var effects []Effect
		prop := n.node.Properties[name]
		switch {
		case was[name]:
		case prop != nil && hasDefault(prop) && !(n.resource && isMeta(name)):
		default:
			effects = tightened(path, "objects without it are refused")
		}
		c.emit(p, "required-added", "required", name+" is required now", effects...)
	}
	for _, name := range vv(o.node).Required {
		if !slices.Contains(vv(n.node).Required, name) {
			c.emit(p, "required-removed", "required", name+" is no longer required")
		}
	}
}

// otherFields compares what becomes of fields that neither side names.
func (c *comparer) otherFields(p place, o, n side) {
	oc, of := c.others(o)
	nc, nf := c.others(n)
	path := extend(p.path, mapStep)
	hadMap, hasMap := o.node.AdditionalProperties != nil, n.node.AdditionalProperties != nil
	down := p.down(mapStep, mapStep, mapStep, viaMap, nc.node)
	switch {
	case of != stays:
		if hadMap != hasMap || of != nf {
			var effects []Effect
			if nf == refused {
				effects = []Effect{at(Clients, p.path, "fields that were pruned are refused")}
			}
			c.emit(p, "additional-properties", "additionalProperties", "fields that are not specified are "+nf.verb(), effects...)
		} else if o.node.XPreserveUnknownFields != n.node.XPreserveUnknownFields {
			c.preserveFlag(p, n.node)
		}
	case nf == refused:
		c.emit(p, "additional-properties", "additionalProperties", "fields that are not specified are refused", tightened(p.path, "")...)
	case nf == pruned && hadMap:
		c.emit(p, "additional-properties", "additionalProperties", "is no longer a map: its entries are pruned", at(Loses, path, ""), at(Clients, path, ""))
	case nf == pruned:
		c.turnOn(p, path)
	default:
		if hadMap != hasMap {
			c.emit(p, "additional-properties", "additionalProperties", "what is said about fields that are not specified changed", at(Clients, path, ""))
		} else if o.node.XPreserveUnknownFields != n.node.XPreserveUnknownFields {
			c.preserveFlag(p, n.node)
		}
		c.value(down, oc, nc)
	}
}

func (f fate) verb() string {
	switch f {
	case pruned:
		return "pruned now"
	case refused:
		return "refused now"
	}
	return "kept now"
}

// preserveFlag records that preserve-unknown-fields came or went where it makes no
// difference by itself.
func (c *comparer) preserveFlag(p place, n *schema.Structural) {
	message := "x-kubernetes-preserve-unknown-fields removed"
	if n.XPreserveUnknownFields {
		message = "x-kubernetes-preserve-unknown-fields added"
	}
	c.emitAltering(p, retyped, "pruning", "x-kubernetes-preserve-unknown-fields", message)
}

// metaProperty compares apiVersion, kind or metadata of a resource where only one
// side says something about it.
func (c *comparer) metaProperty(p place, o, n side, wasNamed bool) {
	if wasNamed {
		alters, effects := unaltered, []Effect(nil)
		if anyBelow(o.node, hasDefault) {
			alters, effects = gone, []Effect{at(Clients, p.path, "its defaults are no longer filled in")}
		}
		c.emitAltering(p, alters, "property-removed", "", "no longer restricted", effects...)
		return
	}
	c.emit(p, "property-added", "", "mentioned now")
	// What is not mentioned stays what it is anyway.
	known := *o.node
	known.Properties = map[string]*schema.Structural{}
	for name := range n.node.Properties {
		if prop := o.node.Properties[name]; prop != nil {
			known.Properties[name] = prop
		}
	}
	c.value(p, side{node: &known, mode: never}, n)
}

// property compares a field that one of the sides names.
func (c *comparer) property(p place, o, n side, name string) {
	oc, of := c.field(o, name)
	nc, nf := c.field(n, name)
	step := property(name)
	oldStep, newStep, how := step, step, viaField
	_, wasNamed := o.node.Properties[name]
	_, isNamed := n.node.Properties[name]
	meta := isMeta(name) && (o.resource || n.resource)
	if !wasNamed && !meta {
		oldStep = mapStep
	}
	if !isNamed && !meta {
		newStep = mapStep
	}
	if meta && o.resource && n.resource {
		how = viaMeta
	}
	down := p.down(step, oldStep, newStep, how, nc.node)
	if how == viaMeta && wasNamed != isNamed {
		c.metaProperty(down, oc, nc, wasNamed)
		return
	}
	switch {
	case of != stays && nf == stays && isNamed:
		var effects []Effect
		if hasDefault(nc.node) {
			effects = []Effect{at(Defaulted, down.path, "")}
		}
		down.old = p.old
		c.emit(down, "property-added", "", "added", effects...)
	case of != stays:
	case nf == pruned:
		down.new, down.trail = p.new, p.trail
		c.emit(down, "property-removed", "", "removed: stored values are pruned", at(Loses, down.path, ""), at(Clients, down.path, ""))
	case nf == refused:
		down.new, down.trail = p.new, p.trail
		c.emit(down, "property-removed", "", "removed: objects that have it are refused", tightened(p.path, "")...)
	default:
		switch {
		case wasNamed && !isNamed && !meta:
			c.emit(down, "property-removed", "", "no longer named; stored values are kept", at(Clients, down.path, ""))
		case !wasNamed && isNamed && !meta:
			c.emit(down, "property-added", "", "named now; values may be there already")
			if hasDefault(nc.node) && !c.isAnything(oc) {
				c.emit(down, "default-added", "default", "default "+show(nc.node.Default.Value)+" added", at(Defaulted, down.path, ""))
			}
		}
		c.value(down, oc, nc)
	}
}

package schema

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync"

	"espalier.dev/internal/jsonx"
)

// Program is a compiled schema. It is immutable and safe for concurrent use.
type Program struct {
	semantics Semantics
	// preserveAll is the CustomResourceDefinition's own preserveUnknownFields: true.
	preserveAll bool
	identity    *Identity
	rules       Rules
	// namesBelow is where the names in messages begin.
	namesBelow int
	// nodes are the schemas, each naming others by their index. The node at
	// nowhere stands for "not specified"; the root is at root.
	nodes []node
	// hasDefaults reports whether any node has a default.
	hasDefaults bool
	// draft4 tells that the schema is in the draft-4 dialect.
	draft4 bool
	// sharing says that some nodes are reached in more than one way.
	sharing bool
	// readers are pooled so that decoding does not grow a stack each time.
	readers sync.Pool
	// scratch is what validation needs beside the object.
	scratch sync.Pool
}

const (
	// none is the index of no node.
	none int32 = -1
	// nowhere is the index of the node of values whose fields are pruned because no schema
	// specifies any.
	nowhere int32 = 0
	// root is the index of the root's node.
	root int32 = 1
)

// Identity is what an object says of itself in apiVersion and kind, and whether
// it lives in a namespace.
type Identity struct {
	APIVersion string
	Kind       string
	Namespaced bool
}

// nodeFlags are the yes-or-no facts about a node.
type nodeFlags uint32

const (
	prunes        nodeFlags = 1 << iota // fields that are not specified are removed
	embedded                            // x-kubernetes-embedded-resource
	nullable                            // null is a value of its own
	refusesOthers                       // additionalProperties: false
	hasDefault                          // dflt counts
	isRoot                              // the object is a resource: apiVersion, kind and metadata are specified
	inMetadata                          // the metadata of a resource, or below it
	defaultsBelow                       // some node strictly below has a default
	excusesMeta                         // additionalProperties: false does not mean apiVersion, kind and metadata
	correlates                          // a list of type map with keys, whose items can be matched with old ones
)

// node is one schema: of a core value (reached through properties, items and
// additionalProperties alone) or of a logical operator's branch.
type node struct {
	flags   nodeFlags
	accepts accepts // the values that have an allowed type
	shape   accepts // the values that do not contradict the core's type; all of them where nothing is pruned
	// items is the node of the items of an array. It is none if they are kept as they
	// are; nowhere if no schema specifies them and fields in them are pruned.
	items int32
	// additional is the node of the fields that props does not name. It is none if
	// they are removed or kept as they are, depending on prunes; nowhere if they are
	// kept, but fields in them are pruned.
	additional int32
	props      properties
	required   []string
	types      *typeCheck
	checks     *checks
	junctors   *junctors
	dflt       any
	// ordinal numbers, from 1, the properties of one object that have a default.
	ordinal int32
	list    *listCheck
	unions  []unionCheck
	draft4  *draft4Checks

	// parent and step say where the schema stands.
	parent int32
	step   SchemaStep
}

// property is one entry of properties.
type property struct {
	name string
	node int32
}

// properties is a table of properties, sorted by name.
type properties struct {
	list []property
	// slots is an open hash table of indices into list, for lists that are
	// too long to search one by one; 0 is a free slot, i+1 names list[i].
	slots []uint16
	// defaulted are the indices of the properties that have a default.
	defaulted []int32
}

// searchMax is the length up to which a table is searched one by one.
const searchMax = 8

// seed is for the hash tables of properties.
var seed = maphash.MakeSeed()

func newProperties(list []property) properties {
	slices.SortFunc(list, func(a, b property) int { return strings.Compare(a.name, b.name) })
	t := properties{list: list}
	if len(list) <= searchMax || len(list) > 1<<15 {
		return t
	}
	size := 16
	for size < 2*len(list) {
		size *= 2
	}
	t.slots = make([]uint16, size)
	for i, p := range list {
		h := maphash.String(seed, p.name) & uint64(size-1)
		for t.slots[h] != 0 {
			h = (h + 1) & uint64(size-1)
		}
		t.slots[h] = uint16(i + 1)
	}
	return t
}

// find returns the node of a property, or none.
func (t *properties) find(name string) int32 {
	if t.slots != nil {
		mask := uint64(len(t.slots) - 1)
		for h := maphash.String(seed, name) & mask; ; h = (h + 1) & mask {
			i := t.slots[h]
			if i == 0 {
				return none
			}
			if p := &t.list[i-1]; p.name == name {
				return p.node
			}
		}
	}
	if len(t.list) > searchMax {
		i, found := slices.BinarySearchFunc(t.list, name, func(p property, name string) int { return strings.Compare(p.name, name) })
		if !found {
			return none
		}
		return t.list[i].node
	}
	for i := range t.list {
		if t.list[i].name == name {
			return t.list[i].node
		}
	}
	return none
}

// Semantics returns the semantics that the program was compiled for.
func (p *Program) Semantics() Semantics { return p.semantics }

// NodeRef names a schema in a Program: the one that decided something. The zero
// value names none.
type NodeRef struct {
	program *Program
	index   int32
}

func (p *Program) ref(n int32) NodeRef { return NodeRef{p, n} }

// Path is where the schema stands.
func (r NodeRef) Path() SchemaPath {
	if r.program == nil || r.index <= nowhere {
		return nil
	}
	var path SchemaPath
	for i := r.index; i != root; i = r.program.nodes[i].parent {
		path = append(path, r.program.nodes[i].step)
	}
	slices.Reverse(path)
	return path
}

// String is the path in words, as .properties[spec].items; the root is the empty string.
func (r NodeRef) String() string { return r.Path().String() }

// Fields returns the names of the fields that the schema specifies, sorted.
func (r NodeRef) Fields() []string {
	if r.program == nil || r.index < nowhere {
		return nil
	}
	list := r.program.nodes[r.index].props.list
	names := make([]string, len(list))
	for i, p := range list {
		names[i] = p.name
	}
	return names
}

// reader takes a Reader from the pool.
func (p *Program) reader(src []byte) *jsonx.Reader {
	r, _ := p.readers.Get().(*jsonx.Reader)
	if r == nil {
		r = new(jsonx.Reader)
	}
	r.Reset(src)
	return r
}

func (p *Program) putReader(r *jsonx.Reader) {
	r.Release()
	p.readers.Put(r)
}

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
	// preserveAll is preserveUnknownFields: true of the CRD.
	preserveAll bool
	identity    *Identity
	rules       Rules
	// namesBelow is the number of fields that messages omit from paths.
	namesBelow int
	// nodes are the schemas. They refer to each other by index. The node at nowhere
	// means "not specified"; the root is at root.
	nodes []node
	// hasDefaults reports whether any node has a default.
	hasDefaults bool
	// draft4 is true for a schema in the draft-4 dialect.
	draft4 bool
	// sharing is true if some nodes are reached by more than one path.
	sharing bool
	// readers are pooled so that decoding does not grow a new stack each time.
	readers sync.Pool
	// scratch pools memory for validation.
	scratch sync.Pool
}

const (
	// none is the index of no node.
	none int32 = -1
	// nowhere is the index of the node for values without a schema whose fields are
	// pruned.
	nowhere int32 = 0
	// root is the index of the root node.
	root int32 = 1
)

// Identity is the expected apiVersion and kind of an object, and whether it is
// namespaced.
type Identity struct {
	APIVersion string
	Kind       string
	Namespaced bool
}

// nodeFlags are the boolean properties of a node.
type nodeFlags uint32

const (
	prunes        nodeFlags = 1 << iota // unspecified fields are removed
	embedded                            // x-kubernetes-embedded-resource
	nullable                            // null is allowed
	closed                              // additionalProperties: false
	hasDefault                          // dflt is set
	isRoot                              // the object is a resource: apiVersion, kind and metadata are specified
	inMetadata                          // the metadata of a resource, or below it
	defaultsBelow                       // some node below, not this one, has a default
	excusesMeta                         // additionalProperties: false allows apiVersion, kind and metadata
	correlates                          // a list of type map with keys, whose items can be matched with old ones
)

// node is one schema: in the core (reached only through properties, items and
// additionalProperties) or under a logical operator.
type node struct {
	flags   nodeFlags
	accepts accepts // the values that have an allowed type
	shape   accepts // the values that do not contradict the core's type; all of them where nothing is pruned
	// items is the node of the items of an array. It is none if they are kept
	// unchanged, and nowhere if no schema specifies them and their fields are pruned.
	items int32
	// additional is the node of the fields that are not in props. It is none if they
	// are pruned or kept unchanged, depending on prunes, and nowhere if they are kept
	// but their fields are pruned.
	additional int32
	props      *properties
	required   []string
	types      *typeCheck
	checks     *checks
	operators  *operators
	dflt       any
	// ordinal numbers the properties of an object that have a default, starting with 1.
	ordinal int32
	// dfltBytes is the size of dflt as JSON, with the defaults below it.
	dfltBytes int32
	list      *listCheck
	unions    *unionChecks
	draft4    *draft4Checks

	// parent and step are the position of the schema.
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
	// slots is an open hash table of indices into list, for lists that are too long for
	// linear search. 0 is a free slot, i+1 refers to list[i].
	slots []uint16
	// defaulted are the indices of the properties that have a default.
	defaulted []int32
}

// searchMax is the length up to which a table is searched linearly.
const searchMax = 8

// seed is the seed of the hash tables of properties.
var seed = maphash.MakeSeed()

func newProperties(list []property) *properties {
	slices.SortFunc(list, func(a, b property) int { return strings.Compare(a.name, b.name) })
	t := &properties{list: list}
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

// Semantics returns the semantics with which the program was compiled.
func (p *Program) Semantics() Semantics { return p.semantics }

// NodeRef refers to a schema in a Program: the one that caused a result. The zero value
// refers to none.
type NodeRef struct {
	program *Program
	index   int32
}

func (p *Program) ref(n int32) NodeRef { return NodeRef{p, n} }

// Path returns the position of the schema.
func (r NodeRef) Path() SchemaPath {
	if r.index <= nowhere {
		return nil
	}
	var path SchemaPath
	for i := r.index; i != root; i = r.program.nodes[i].parent {
		path = append(path, r.program.nodes[i].step)
	}
	slices.Reverse(path)
	return path
}

// String returns the path as text, such as .properties[spec].items. The root is the
// empty string.
func (r NodeRef) String() string { return r.Path().String() }

// reader returns a Reader from the pool.
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

package crd

import (
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"weak"

	"espalier.dev/api"
	"espalier.dev/schema"
)

// Lazy returns the Definition of a valid CRD of which only the schemas are missing. load
// returns the whole CRD. It is called when a schema is needed, and again when the result
// has been garbage collected: a Definition that is not used has little more than head,
// and one that is used keeps its Programs, but not its schemas.
//
// An error of load is returned by Load, Program, StatusProgram and Schema.
func Lazy(head *api.CustomResourceDefinition, load func() (*api.CustomResourceDefinition, error), o Options) *Definition {
	return define(head, &schemas{load: load}, o, nil)
}

// Renew returns the Definition of another state of the CRD, which has the same spec. The
// two share their schemas and, if the kind has not changed, their Programs.
func (d *Definition) Renew(head *api.CustomResourceDefinition) *Definition {
	next := define(head, d.schemas, d.compiled.options, d.compiled)
	if next.Names().Kind != d.Names().Kind {
		return define(head, d.schemas, d.compiled.options, nil) // Programs contain the kind
	}
	return next
}

// Load reads the schemas of a Definition that Lazy has returned, and returns why they
// cannot be read.
func (d *Definition) Load() error {
	c, err := d.schemas.get()
	if err == nil && d.semantics.KnowsJSONSchema() {
		err = c.legacyErr
	}
	return err
}

// Release drops the Programs of a Definition, and of all others that share them. They
// are compiled again when they are needed. Programs that are in use stay valid. After [Definition.Keep], it
// does nothing.
func (d *Definition) Release() {
	if d.compiled.kept.Load() {
		return
	}
	for i := range d.compiled.versions {
		d.compiled.versions[i].request.drop()
		d.compiled.versions[i].status.drop()
	}
}

// Keep keeps the Programs of a Definition, and of all others that share them, until they are garbage
// collected: several servers share them.
func (d *Definition) Keep() { d.compiled.kept.Store(true) }

// Equivalent reports whether d and other are states of the same CRD that serve objects
// in the same way: with the same spec and names.
func (d *Definition) Equivalent(other *Definition) bool {
	if d.crd.UID != other.crd.UID || !reflect.DeepEqual(d.Names(), other.Names()) {
		return false
	}
	if d.compiled == other.compiled {
		return true
	}
	// Lazy Definitions share it if the specs are the same. Their CRDs have no schemas to
	// compare.
	return d.schemas.load == nil && other.schemas.load == nil && reflect.DeepEqual(d.crd.Spec, other.crd.Spec)
}

// schemas reads the schemas of a CRD's versions when they are needed.
type schemas struct {
	// kept has the schemas if they are kept. Otherwise load returns the CRD, and read has
	// what it returned last, until the garbage collector takes it: that is what limits
	// the memory, and programs that use the schemas keep them.
	kept *contents
	load func() (*api.CustomResourceDefinition, error)
	mu   sync.Mutex
	read weak.Pointer[contents]
}

// contents are the schemas of a CRD.
type contents struct {
	versions []versionSchema
	// legacy is the draft-4 schema if there is no other schema, and legacyErr the
	// reason why it cannot be decoded. The semantics determines whether it is used.
	legacy    *api.JSONSchemaProps
	legacyErr error
}

// versionSchema is the schema of one version.
type versionSchema struct {
	props      *api.JSONSchemaProps
	structural *schema.Structural
	// unconvertible is the reason why the original schema cannot be converted to a
	// Structural.
	unconvertible error
	// legacy is the draft-4 schema, if it is used.
	legacy *api.JSONSchemaProps
}

func newContents(crd *api.CustomResourceDefinition) (*contents, error) {
	c := &contents{versions: make([]versionSchema, len(crd.Spec.Versions))}
	c.legacy, c.legacyErr = api.LegacySchema(crd)
	if c.legacy != nil && len(formOf(crd).spec.schemas()) > 0 {
		// The draft-4 schema is ignored beside another schema.
		c.legacy = nil
	}
	for i := range crd.Spec.Versions {
		v := &c.versions[i]
		v.props = openAPI(crd.Spec.Versions[i].Schema)
		var err error
		if v.structural, v.unconvertible, err = convert(v.props); err != nil {
			return nil, fmt.Errorf("spec.versions[%d].schema.openAPIV3Schema: %w", i, err)
		}
	}
	return c, nil
}

// get returns the schemas, and reads them if necessary.
func (s *schemas) get() (*contents, error) {
	if s.kept != nil {
		return s.kept, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.read.Value(); c != nil {
		return c, nil
	}
	crd, err := s.load()
	if err != nil {
		return nil, err
	}
	c, err := newContents(crd)
	if err == nil {
		s.read = weak.Make(c)
	}
	return c, err
}

// schemas returns the schema of the version.
func (v *Version) schemas() (versionSchema, error) {
	c, err := v.definition.schemas.get()
	if err != nil {
		return versionSchema{}, err
	}
	if v.index >= len(c.versions) {
		return versionSchema{}, fmt.Errorf("version %s is missing", v.Name()) // load returned another CRD
	}
	s := c.versions[v.index]
	if v.definition.semantics.KnowsJSONSchema() {
		if c.legacyErr != nil {
			return versionSchema{}, c.legacyErr
		}
		s.legacy = c.legacy
	}
	return s, nil
}

// compiled has the Programs of a Definition's versions.
type compiled struct {
	options  Options
	versions []programs
	kept     atomic.Bool // see Keep
}

// programs are the Programs of one version.
type programs struct {
	request, status lazyProgram
	identity        atomic.Pointer[Identity]
}

// Identity identifies the Programs of a version. It has nothing but its address: what is derived from
// objects with it does not keep a CRD in memory that has changed.
type Identity struct{ _ byte }

// Identity returns the same for all Definitions that share the Programs of the version, and for no
// others.
func (v *Version) Identity() *Identity {
	p := &v.programs().identity
	p.CompareAndSwap(nil, new(Identity))
	return p.Load()
}

// programs returns the Programs of the version.
func (v *Version) programs() *programs { return &v.definition.compiled.versions[v.index] }

// lazyProgram is a Program that is compiled when it is needed, and can be dropped.
type lazyProgram struct {
	mu   sync.Mutex
	made atomic.Pointer[compilation]
}

// compilation is the result of a compilation.
type compilation struct {
	program *schema.Program
	err     error
}

func (l *lazyProgram) get(compile func() (*schema.Program, error)) (*schema.Program, error) {
	if c := l.made.Load(); c != nil {
		return c.program, c.err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.made.Load()
	if c == nil {
		c = &compilation{}
		c.program, c.err = compile()
		l.made.Store(c)
	}
	return c.program, c.err
}

func (l *lazyProgram) drop() { l.made.Store(nil) }

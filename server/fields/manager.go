package fields

import (
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Config describes an endpoint.
type Config struct {
	Types *Types
	// Kind is the version and kind of the endpoint's objects.
	Kind runtimeschema.GroupVersionKind
	// Subresource is the name of the subresource, or empty.
	Subresource string
	// Reset are the fields that the endpoint ignores, so that its writers never own them.
	Reset *fieldpath.Set
	// Convert converts an object to another version, for fields that are owned in that
	// version. It must not change the object. If it is nil, conversions change the apiVersion
	// alone, as those of kube-apiserver do with the conversion strategy None: the fields of an
	// object that another version lacks then make a conversion fail.
	Convert func(obj map[string]any, to runtimeschema.GroupVersion) (map[string]any, error)
	// Default applies the defaults of the schema to a merged object.
	Default func(obj map[string]any)
}

// Manager is the field manager of an endpoint. It is safe for concurrent use.
type Manager struct {
	types       *Types
	kind        runtimeschema.GroupVersionKind
	version     string
	subresource string
	convert     func(map[string]any, runtimeschema.GroupVersion) (map[string]any, error)
	defaults    func(map[string]any)
	reset       map[string]bool
	stripped    set
	stock       *managedfields.FieldManager
	bounded     *Bounded
	// slow is set if the stock field manager handles all requests.
	slow bool
}

// New returns the field manager of an endpoint.
func New(c Config) (*Manager, error) {
	m := &Manager{
		types: c.Types, kind: c.Kind, version: c.Kind.GroupVersion().String(), subresource: c.Subresource,
		convert: c.Convert, defaults: c.Default, reset: map[string]bool{}, stripped: stripped(), bounded: &Bounded{TypeConverter: c.Types},
	}
	if m.defaults == nil {
		m.defaults = func(map[string]any) {}
	}
	filters := map[fieldpath.APIVersion]fieldpath.Filter{}
	if c.Reset != nil {
		filters[fieldpath.APIVersion(m.version)] = fieldpath.NewExcludeSetFilter(c.Reset)
		for path := range c.Reset.All() {
			if len(path) != 1 || path[0].FieldName == nil {
				m.slow = true // the walks only know fields of the root
				continue
			}
			m.reset[*path[0].FieldName] = true
		}
	}
	var err error
	m.stock, err = managedfields.NewDefaultCRDFieldManager(m.bounded, &convertor{m}, defaulter{m},
		creator{}, c.Kind, c.Kind.GroupVersion(), c.Subresource, filters)
	if err != nil {
		return nil, fmt.Errorf("field management of %s: %w", c.Kind, err)
	}
	return m, nil
}

// Stock returns the field manager of k8s.io/apimachinery for the same endpoint.
func (m *Manager) Stock() *managedfields.FieldManager { return m.stock }

// Update sets the managedFields of an object that a create, an update or a patch has changed.
// live is the stored object, or nil for a create. It is not changed, but obj may share its
// managedFields. If they cannot be computed, obj gets those of live. It returns an API error if
// they would take too long to compute, unless this is so for live as well.
func (m *Manager) Update(live, obj *unstructured.Unstructured, manager string) error {
	if live == nil {
		live = m.empty()
	}
	if m.update(live, obj, manager) {
		return nil
	}
	if err := m.bounded.Check(obj, m.kind); err != nil {
		if m.bounded.Check(live, m.kind) == nil {
			return TooManyItems(err)
		}
		keepEntries(live, obj)
		return nil
	}
	if out, ok := m.stock.UpdateNoErrors(live, obj, manager).(*unstructured.Unstructured); ok {
		obj.Object = out.Object
	}
	return nil
}

// keepEntries gives an object the managedFields of the stored one.
func keepEntries(live, obj *unstructured.Unstructured) {
	if entries, found, _ := unstructured.NestedFieldNoCopy(live.Object, "metadata", "managedFields"); found {
		_ = unstructured.SetNestedField(obj.Object, runtime.DeepCopyJSONValue(entries), "metadata", "managedFields")
		return
	}
	unstructured.RemoveNestedField(obj.Object, "metadata", "managedFields")
}

// MisfitError is returned by Apply for a configuration that does not fit the types of its fields.
type MisfitError struct{ Err error }

func (e *MisfitError) Error() string { return e.Err.Error() }
func (e *MisfitError) Unwrap() error { return e.Err }

// Apply merges an applied configuration into an object and sets its managedFields. live is
// the stored object, or nil for a create. Neither live nor applied is changed. If nothing
// changes, Apply returns live itself. A conflict is an API error with a cause for each field. An
// object whose fields would take too long to track is an API error as well. If applied does not fit
// its types, the error is a *MisfitError.
func (m *Manager) Apply(live, applied *unstructured.Unstructured, manager string, force bool) (*unstructured.Unstructured, error) {
	if live == nil {
		live = m.empty()
	}
	if out := m.apply(live, applied, manager, force); out != nil {
		return out, nil
	}
	obj, err := m.stock.Apply(live, applied, manager, force)
	if IsTooManyItems(err) {
		return nil, TooManyItems(err)
	}
	if err != nil {
		// The stock field manager keeps only the text of what it wraps.
		if _, misfit := m.bounded.ObjectToTyped(applied); misfit != nil {
			err = &MisfitError{err}
		}
		return nil, err
	}
	out, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("expected a tree, got %T", obj)
	}
	return out, nil
}

func (m *Manager) empty() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(m.kind)
	return u
}

// typeOf returns the type of a version, and false if there is none.
func (m *Manager) typeOf(apiVersion string) (*typ, bool) {
	v, ok := m.types.versions[apiVersion]
	if !ok {
		return nil, false
	}
	return v.walked(), true
}

// own reports whether an object is in the version of the endpoint, and returns its metadata.
func (m *Manager) own(obj *unstructured.Unstructured) (metadata map[string]any, ok bool) {
	if obj.Object["apiVersion"] != any(m.version) || obj.Object["kind"] != any(m.kind.Kind) {
		return nil, false
	}
	metadata, ok = obj.Object["metadata"].(map[string]any)
	_, has := obj.Object["metadata"]
	return metadata, ok || !has
}

// listOf returns the list of managedFields, and false if they are something else.
func listOf(metadata map[string]any) ([]any, bool) {
	v := metadata["managedFields"]
	if v == nil {
		return nil, true
	}
	list, ok := v.([]any)
	return list, ok
}

// update is Update. It returns false, with obj unchanged, if the result is not obvious.
func (m *Manager) update(live, obj *unstructured.Unstructured, manager string) bool {
	t, ok := m.typeOf(m.version)
	if m.slow || !ok || !utf8.ValidString(manager) {
		return false
	}
	before, ok := m.own(live)
	if !ok {
		return false
	}
	after, ok := m.own(obj)
	if !ok || after == nil {
		return false
	}
	list, ok := listOf(before)
	if !ok {
		return false
	}
	sent, had := after["managedFields"]
	if had && m.subresource == "" {
		own, ok := listOf(after)
		if !ok || own != nil && len(own) == 0 {
			return false
		}
		if len(own) > 0 {
			list = own
		}
	}
	entries, ok := m.readEntries(list)
	if !ok {
		return false
	}
	delete(after, "managedFields")
	if entries, ok = m.updated(t, live.Object, obj.Object, entries, manager); !ok {
		if had {
			after["managedFields"] = sent
		}
		return false
	}
	write(after, entries)
	return true
}

// maxUpdaters is the number of entries of updates above which old ones are merged.
const maxUpdaters = 10

// updated returns the entries after an update.
func (m *Manager) updated(t *typ, live, obj map[string]any, entries []*entry, manager string) ([]*entry, bool) {
	if len(entries) == 0 {
		// Fields of an object that has no managedFields are not tracked.
		metadata, _ := live["metadata"].(map[string]any)
		if uid, ok := metadata["uid"]; ok && uid != "" {
			_, text := uid.(string)
			return nil, text
		}
	}
	changes, ok := m.changes(t, live, obj, entries, false)
	if !ok {
		return nil, false
	}
	entries = release(entries, changes, nil)
	if mine := minus(changes[m.version].changed, m.stripped); len(mine) > 0 {
		entries = m.acquire(entries, manager, mine)
	}
	updaters := 0
	for _, e := range entries {
		if e.operation == updating {
			updaters++
		}
	}
	return entries, updaters <= maxUpdaters
}

// changes returns the change of an object in the versions of all entries, and false if it is
// not obvious. t is the type of the endpoint's version; if trusted is set, both objects are
// known to be valid in it.
func (m *Manager) changes(t *typ, live, obj map[string]any, entries []*entry, trusted bool) (map[string]*comparison, bool) {
	c, ok := t.compare(live, obj, m.reset, trusted)
	if !ok {
		return nil, false
	}
	changes := map[string]*comparison{m.version: c}
	for _, e := range entries {
		if changes[e.version] != nil {
			continue
		}
		t, ok := m.typeOf(e.version)
		if !ok {
			return nil, false
		}
		if changes[e.version], ok = t.compare(live, obj, nil, false); !ok {
			return nil, false
		}
	}
	return changes, true
}

// release removes changed fields from entries, and entries that have no fields left.
func release(entries []*entry, changes map[string]*comparison, except *entry) []*entry {
	for _, e := range entries {
		if e != except {
			c := changes[e.version]
			e.setFields(minus(minus(e.fields, c.changed), c.removed))
		}
	}
	return slices.DeleteFunc(entries, func(e *entry) bool { return len(e.fields) == 0 })
}

// acquire adds fields to the entry of an updater.
func (m *Manager) acquire(entries []*entry, manager string, fields set) []*entry {
	o := owner{nameOf(manager), updating, m.version, m.subresource}
	i := slices.IndexFunc(entries, func(e *entry) bool { return e.is(o) })
	if i < 0 {
		i = len(entries)
		entries = append(entries, &entry{owner: o})
	}
	entries[i].setFields(union(entries[i].fields, fields))
	entries[i].setTime()
	return entries
}

func nameOf(manager string) string {
	if manager == "" {
		return "unknown"
	}
	return manager
}

// write writes entries to metadata.
func write(metadata map[string]any, entries []*entry) {
	if len(entries) == 0 {
		delete(metadata, "managedFields")
		return
	}
	slices.SortFunc(entries, compareEntries)
	list := make([]any, len(entries))
	for i, e := range entries {
		list[i] = e.tree()
	}
	metadata["managedFields"] = list
}

// hasLastApplied reports whether metadata has the annotation of kubectl's client-side apply.
// The stock field manager takes over its fields, and keeps it up to date.
func hasLastApplied(metadata map[string]any) bool {
	annotations, _ := metadata["annotations"].(map[string]any)
	return annotations["kubectl.kubernetes.io/last-applied-configuration"] != nil
}

// apply is Apply. It returns nil if the result is not obvious.
func (m *Manager) apply(live, applied *unstructured.Unstructured, manager string, force bool) *unstructured.Unstructured {
	t, ok := m.typeOf(m.version)
	if m.slow || !ok || !utf8.ValidString(manager) {
		return nil
	}
	before, ok := m.own(live)
	if !ok {
		return nil
	}
	config, ok := m.own(applied)
	if !ok {
		return nil
	}
	if _, ok := config["managedFields"]; ok {
		return nil
	}
	if manager == "kubectl" && (hasLastApplied(before) || hasLastApplied(config)) {
		return nil
	}
	list, ok := listOf(before)
	if !ok {
		return nil
	}
	entries, ok := m.readEntries(list)
	if !ok || len(entries) == 0 && len(live.Object) > 2 {
		return nil // fields that exist before the first apply get an owner
	}
	result, ok := t.merge(live.Object, applied.Object)
	if !ok {
		return nil
	}
	merged, same := result.merged, result.same
	applier := owner{nameOf(manager), applying, m.version, m.subresource}
	if result.hollow && slices.ContainsFunc(entries, func(e *entry) bool { return e.is(applier) }) {
		return nil // fields may have to be removed from the object
	}
	if same && slices.ContainsFunc(entries, func(e *entry) bool {
		return e.is(applier) && t.ownsExactly(applied.Object, m.reset, m.stripped, e.fields)
	}) && !slices.ContainsFunc(entries, func(e *entry) bool { return e.version != m.version }) {
		return live
	}
	entries, ok = m.applied(t, live.Object, merged, entries, applier, t.fieldSet(applied.Object, m.reset), force, same)
	if !ok {
		return nil
	}
	if same {
		merged = live.Object
	}
	// The entries may be shared, the rest may not.
	out := maps.Clone(merged)
	metadata, _ := merged["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	if metadata == nil {
		metadata = map[string]any{}
	}
	delete(metadata, "managedFields")
	out["metadata"] = metadata
	out = runtime.DeepCopyJSON(out)
	if !same {
		m.defaults(out)
	}
	metadata = out["metadata"].(map[string]any)
	write(metadata, entries)
	if _, ok := merged["metadata"]; !ok && len(metadata) == 0 {
		delete(out, "metadata")
	}
	return &unstructured.Unstructured{Object: out}
}

// applied returns the entries after an apply of fields. same is set if the object has not
// changed.
func (m *Manager) applied(t *typ, live, merged map[string]any, entries []*entry, applier owner,
	fields set, force, same bool) ([]*entry, bool) {
	var mine *entry
	if i := slices.IndexFunc(entries, func(e *entry) bool { return e.is(applier) }); i >= 0 {
		mine = entries[i]
		if !contains(fields, mine.fields) || slices.ContainsFunc(entries, func(e *entry) bool { return e.version != m.version }) {
			return nil, false // fields may have to be removed from the object
		}
	}
	changes, ok := m.changes(t, live, merged, entries, true)
	if !ok {
		return nil, false
	}
	if !force && slices.ContainsFunc(entries, func(e *entry) bool {
		return e != mine && intersects(e.fields, changes[e.version].changed)
	}) {
		return nil, false // a conflict
	}
	entries = release(entries, changes, mine)
	if fields = minus(fields, m.stripped); len(fields) == 0 {
		return slices.DeleteFunc(entries, func(e *entry) bool { return e == mine }), true
	}
	if mine == nil {
		mine = &entry{owner: applier}
		entries = append(entries, mine)
	}
	if !contains(mine.fields, fields) {
		mine.setFields(fields)
	}
	if !same {
		mine.setTime()
	}
	return entries, true
}

// convertor converts objects for the stock field manager.
type convertor struct{ *Manager }

var _ runtime.ObjectConvertor = &convertor{}

func (c *convertor) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	u, ok := in.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("%T cannot be converted", in)
	}
	from := u.GroupVersionKind()
	to, ok := target.KindForGroupVersionKinds([]runtimeschema.GroupVersionKind{from})
	if !ok {
		return nil, fmt.Errorf("%s cannot be converted to %s", from, target)
	}
	out := u.DeepCopy()
	if to == from {
		return out, nil
	}
	for _, gv := range []runtimeschema.GroupVersion{to.GroupVersion(), from.GroupVersion()} {
		if _, ok := c.types.versions[gv.String()]; !ok {
			return nil, fmt.Errorf("request to convert CR to an invalid group/version: %s", gv)
		}
	}
	if c.convert == nil {
		out.SetAPIVersion(to.GroupVersion().String())
		return out, nil
	}
	tree, err := c.convert(out.Object, to.GroupVersion())
	if err != nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: tree}, nil
}

func (c *convertor) Convert(in, out, _ any) error {
	return fmt.Errorf("%T cannot be converted to %T", in, out)
}

func (c *convertor) ConvertFieldLabel(_ runtimeschema.GroupVersionKind, label, _ string) (string, string, error) {
	return "", "", fmt.Errorf("field label not supported: %s", label)
}

// defaulter applies defaults for the stock field manager.
type defaulter struct{ *Manager }

func (d defaulter) Default(obj runtime.Object) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		d.defaults(u.Object)
	}
}

// creator creates empty objects for the stock field manager.
type creator struct{}

func (creator) New(kind runtimeschema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u, nil
}

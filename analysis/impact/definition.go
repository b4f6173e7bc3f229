package impact

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// Options configure a comparison.
type Options struct {
	// Semantics is the schema semantics that applies.
	Semantics schema.Semantics
	// Rules checks and evaluates x-kubernetes-validations. Without it rules are compared,
	// but not evaluated.
	Rules crd.RuleChecker
	// V1beta1 reports whether the new CRD is written as v1beta1 and validated as such.
	V1beta1 bool
	// Config overrides severities.
	Config Config
}

func (o Options) crd() crd.Options {
	return crd.Options{Semantics: o.Semantics, Rules: o.Rules, IgnoreRules: o.Rules == nil}
}

// Comparison is the result of comparing two CRDs.
type Comparison struct {
	// Name is the name of the CRD.
	Name string
	// Changes are all differences, the worst first.
	Changes []Change
	// Rejected lists the reasons why the API server would reject the update of the CRD.
	Rejected field.ErrorList

	options  Options
	old, new *crd.Definition
	// removed is set if the CRD was removed. It has no definitions then.
	removed bool
}

// Class returns the worst class of any change.
func (c *Comparison) Class() Class {
	worst := Safe
	for i := range c.Changes {
		worst = max(worst, c.Changes[i].Class())
	}
	return worst
}

// Compare compares two CRDs, which must have their defaults. It returns an error if the
// schemas of one of them cannot be read, or if the configuration is invalid.
func Compare(ctx context.Context, old, new *api.CustomResourceDefinition, o Options) (*Comparison, error) {
	c := &Comparison{Name: new.Name, options: o}
	err := o.Config.Validate()
	if err != nil {
		return nil, err
	}
	if c.old, err = crd.New(old, o.crd()); err != nil {
		return nil, fmt.Errorf("old CRD: %w", err)
	}
	if c.new, err = crd.New(new, o.crd()); err != nil {
		return nil, fmt.Errorf("new CRD: %w", err)
	}
	c.Rejected = rejections(ctx, old, new, o)
	d := &definitions{Options: o, ctx: ctx, old: old, new: new}
	d.compare(c.old, c.new)
	c.Changes = d.sorted()
	return c, nil
}

// Removed returns the comparison for a CRD that was removed.
func Removed(old *api.CustomResourceDefinition, o Options) *Comparison {
	return &Comparison{Name: old.Name, removed: true, options: o, Changes: []Change{{
		Kind: "definition-removed", Message: "CRD removed: deleting it deletes all its objects",
		Effects: []Effect{{Class: Loses}, {Class: Clients}},
	}}}
}

// Added returns the comparison for a CRD that was added.
func Added(new *api.CustomResourceDefinition, o Options) *Comparison {
	return &Comparison{Name: new.Name, options: o, Changes: []Change{{
		Kind: "definition-added", Message: "CRD added",
	}}}
}

// rejections returns the reasons why the API server would reject the update.
func rejections(ctx context.Context, old, new *api.CustomResourceDefinition, o Options) field.ErrorList {
	old, new = old.DeepCopy(), new.DeepCopy()
	if len(old.Status.Conditions) == 0 {
		// An API server that accepted the old CRD has set its status.
		old.Status.Conditions = []api.CustomResourceDefinitionCondition{{Type: api.Established, Status: api.ConditionTrue}}
	}
	// An API server keeps the metadata that it has set, unless the update sets it.
	old.ResourceVersion, new.ResourceVersion = "1", "1"
	new.Generation = old.Generation
	new.UID = cmp.Or(new.UID, old.UID)
	if new.CreationTimestamp.IsZero() {
		new.CreationTimestamp = old.CreationTimestamp
	}
	if new.DeletionTimestamp.IsZero() {
		new.DeletionTimestamp, new.DeletionGracePeriodSeconds = old.DeletionTimestamp, old.DeletionGracePeriodSeconds
	}
	crd.PrepareUpdate(new, old)
	if !o.V1beta1 {
		return crd.ValidateUpdate(ctx, new, old, o.crd()).Errors
	}
	return crd.ValidateUpdateV1beta1(ctx, v1beta1.FromV1(new), old, o.crd()).Errors
}

// definitions compares the parts of CRDs outside of schemas.
type definitions struct {
	Options
	ctx      context.Context
	old, new *api.CustomResourceDefinition
	changes  []*Change
}

func (d *definitions) sorted() []Change {
	out := make([]Change, len(d.changes))
	for i, c := range d.changes {
		out[i] = *c
	}
	slices.SortStableFunc(out, func(a, b Change) int {
		return cmp.Or(-cmp.Compare(a.Class(), b.Class()), cmp.Compare(a.Place(), b.Place()), cmp.Compare(a.Kind, b.Kind))
	})
	return out
}

// add adds a change at a pointer that both CRDs share.
func (d *definitions) add(pointer, kind, message string, effects ...Effect) *Change {
	c := &Change{Kind: kind, OldPointer: pointer, NewPointer: pointer, Message: message, Effects: effects}
	d.changes = append(d.changes, c)
	return c
}

func effect(class Class, reason string) Effect { return Effect{Class: class, Reason: reason} }

func arrow(old, new any) string { return show(old) + " → " + show(new) }

func (d *definitions) compare(old, new *crd.Definition) {
	d.names()
	d.metadata(new)
	d.conversion()
	for i := range d.old.Spec.Versions {
		ov := &d.old.Spec.Versions[i]
		j := d.index(ov.Name)
		if j < 0 {
			d.versionRemoved(i)
			continue
		}
		d.version(i, j)
		d.schemas(old.Version(ov.Name), new.Version(ov.Name), i, j)
	}
	oldStorage, newStorage := old.Storage(), new.Storage()
	for j := range d.new.Spec.Versions {
		nv := &d.new.Spec.Versions[j]
		if old.Version(nv.Name) != nil {
			continue
		}
		message := "version " + nv.Name + " added"
		c := d.add(fmt.Sprintf("/spec/versions/%d", j), "version-added", message)
		c.OldPointer, c.NewVersion = "/spec/versions", nv.Name
		if newStorage != nil && newStorage.Name() != nv.Name && d.convertsNone() {
			d.across(newStorage, new.Version(nv.Name), "read as "+nv.Name+": ")
		}
	}
	if oldStorage == nil || newStorage == nil || oldStorage.Name() == newStorage.Name() {
		return
	}
	c := d.add(fmt.Sprintf("/spec/versions/%d/storage", d.index(newStorage.Name())), "storage-version",
		fmt.Sprintf("storage version %[2]s → %[1]s", newStorage.Name(), oldStorage.Name()))
	c.OldVersion, c.NewVersion = oldStorage.Name(), newStorage.Name()
	if d.convertsNone() {
		d.across(oldStorage, newStorage, "")
	} else {
		c.Effects = []Effect{effect(Clients, "reading stored objects needs the conversion webhook until all of them are rewritten")}
	}
}

func (d *definitions) index(name string) int {
	return slices.IndexFunc(d.new.Spec.Versions, func(v api.CustomResourceDefinitionVersion) bool { return v.Name == name })
}

// convertsNone reports whether conversion changes only the apiVersion.
func (d *definitions) convertsNone() bool { return strategy(d.new) == api.NoneConverter }

func strategy(c *api.CustomResourceDefinition) api.ConversionStrategyType {
	if c.Spec.Conversion == nil {
		return api.NoneConverter
	}
	return c.Spec.Conversion.Strategy
}

// names compares the names of the resource.
func (d *definitions) names() {
	o, n := &d.old.Spec, &d.new.Spec
	const otherResource = "this is a different resource: stored objects stay under the old one"
	if o.Group != n.Group {
		d.add("/spec/group", "group", "group "+arrow(o.Group, n.Group), effect(Loses, otherResource), effect(Clients, ""))
	}
	if o.Scope != n.Scope {
		d.add("/spec/scope", "scope", "scope "+arrow(string(o.Scope), string(n.Scope)),
			effect(Loses, "storage keys and request paths of objects change"), effect(Clients, ""))
	}
	if o.Names.Plural != n.Names.Plural {
		d.add("/spec/names/plural", "names", "plural "+arrow(o.Names.Plural, n.Names.Plural),
			effect(Loses, otherResource), effect(Clients, ""))
	}
	if o.Names.Kind != n.Names.Kind {
		d.add("/spec/names/kind", "names", "kind "+arrow(o.Names.Kind, n.Names.Kind),
			effect(Invalid, "stored objects have the old kind"), effect(Clients, ""))
	}
	if o.Names.ListKind != n.Names.ListKind {
		d.add("/spec/names/listKind", "names", "list kind "+arrow(o.Names.ListKind, n.Names.ListKind), effect(Clients, ""))
	}
	if o.Names.Singular != n.Names.Singular {
		d.add("/spec/names/singular", "names", "singular "+arrow(o.Names.Singular, n.Names.Singular), effect(Clients, ""))
	}
	d.set("/spec/names/shortNames", "names", "short name", o.Names.ShortNames, n.Names.ShortNames)
	d.set("/spec/names/categories", "names", "category", o.Names.Categories, n.Names.Categories)
}

// set compares lists that clients use for lookups.
func (d *definitions) set(pointer, kind, what string, old, new []string) {
	for _, s := range old {
		if !slices.Contains(new, s) {
			d.add(pointer, kind, what+" "+s+" removed", effect(Clients, ""))
		}
	}
	for _, s := range new {
		if !slices.Contains(old, s) {
			d.add(pointer, kind, what+" "+s+" added")
		}
	}
}

func (d *definitions) metadata(new *crd.Definition) {
	if !reflect.DeepEqual(d.old.Labels, d.new.Labels) {
		d.add("/metadata/labels", "metadata", "labels of the CRD changed")
	}
	a, b := withoutLegacy(d.old.Annotations), withoutLegacy(d.new.Annotations)
	if !reflect.DeepEqual(a, b) {
		d.add("/metadata/annotations", "metadata", "annotations of the CRD changed")
	}
	if d.old.Spec.PreserveUnknownFields != d.new.Spec.PreserveUnknownFields && d.new.Spec.PreserveUnknownFields {
		effects := []Effect{effect(Clients, "nulls that are not allowed are rejected instead of dropped")}
		if slices.ContainsFunc(new.Versions(), func(v *crd.Version) bool { return wholeObject(v.Structural()).Any(defaultsNull) }) {
			effects = append(effects, effect(Defaulted, "nulls in defaults are no longer dropped"))
		}
		d.add("/spec/preserveUnknownFields", "pruning", "unknown fields are now preserved", effects...)
	}
}

// withoutLegacy removes the annotation that holds a schema.
func withoutLegacy(in map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range in {
		if k != api.JSONSchemaAnnotation {
			out[k] = v
		}
	}
	return out
}

func (d *definitions) conversion() {
	o, n := d.old.Spec.Conversion, d.new.Spec.Conversion
	several := len(d.new.Spec.Versions) > 1
	switch a, b := strategy(d.old), strategy(d.new); {
	case a != b && !several:
		d.add("/spec/conversion", "conversion", "conversion "+arrow(string(a), string(b))+"; the CRD has only one version")
	case a != b && b == api.NoneConverter:
		d.add("/spec/conversion", "conversion", "conversion "+arrow(string(a), string(b)),
			effect(Loses, "fields that the webhook converted between versions are pruned"), effect(Clients, ""))
	case a != b:
		d.add("/spec/conversion", "conversion", "conversion "+arrow(string(a), string(b)),
			effect(Clients, "requests in versions other than the storage version need the webhook"))
	case reflect.DeepEqual(o, n) || b == api.NoneConverter:
	case several:
		d.add("/spec/conversion/webhook", "conversion", "conversion webhook changed",
			effect(Clients, "requests in versions other than the storage version need the new webhook"))
	default:
		d.add("/spec/conversion/webhook", "conversion", "conversion webhook changed; the CRD has only one version")
	}
}

// versionRemoved handles a version that the new CRD lacks. The API server rejects such a CRD
// while status.storedVersions lists the version. A CRD that was not read from an API server
// has no status; then only the storage version is known to be listed.
func (d *definitions) versionRemoved(i int) {
	v, listed := &d.old.Spec.Versions[i], d.old.Status.StoredVersions
	c := d.add(fmt.Sprintf("/spec/versions/%d", i), "version-removed", "version "+v.Name+" removed")
	c.NewPointer, c.OldVersion = "/spec/versions", v.Name
	if v.Served {
		c.Effects = append(c.Effects, effect(Clients, "requests for it are rejected"))
	}
	migrate := fmt.Sprintf("espalier migrate %s --write rewrites the objects in the storage version and removes %s from the list",
		d.old.Name, v.Name)
	switch {
	case v.Storage && !hasStatus(d.old):
		c.Effects = append(c.Effects,
			effect(Loses, "objects stored in it can no longer be read: it is the storage version, so status.storedVersions lists it, and the API server rejects the CRD. "+
				"First make another version the storage version; then "+migrate))
	case v.Storage || slices.Contains(listed, v.Name):
		c.Effects = append(c.Effects,
			effect(Loses, "objects stored in it can no longer be read: status.storedVersions lists it, and the API server rejects the CRD while it does; "+migrate))
	case hasStatus(d.old):
		c.Message += "; status.storedVersions does not list it, so no objects are stored in it"
	default:
		c.Effects = append(c.Effects, effect(Clients, "the API server rejects the CRD if status.storedVersions lists "+v.Name+
			", because objects may be stored in it: "+migrate))
	}
}

// hasStatus reports whether an API server has set the status of a CRD. Otherwise
// status.storedVersions has only its default, the storage version.
func hasStatus(c *api.CustomResourceDefinition) bool {
	return len(c.Status.Conditions) > 0 || c.Status.AcceptedNames.Plural != ""
}

// version compares everything in a version except its schema.
func (d *definitions) version(i, j int) {
	o, n := &d.old.Spec.Versions[i], &d.new.Spec.Versions[j]
	add := func(rest, kind, message string, effects ...Effect) {
		c := d.add(fmt.Sprintf("/spec/versions/%d/%s", j, rest), kind, message, effects...)
		c.OldPointer = fmt.Sprintf("/spec/versions/%d/%s", i, rest)
		c.OldVersion, c.NewVersion = o.Name, n.Name
	}
	switch {
	case o.Served && !n.Served:
		add("served", "served", "no longer served", effect(Clients, "requests for it are rejected"))
	case !o.Served && n.Served:
		add("served", "served", "served now")
	}
	if o.Deprecated != n.Deprecated || !same(o.DeprecationWarning, n.DeprecationWarning) {
		message := "no longer deprecated"
		if n.Deprecated {
			message = "deprecated: responses carry a warning"
		}
		add("deprecated", "deprecated", message)
	}
	os, ns := subresources(o), subresources(n)
	switch {
	case os.Status == nil && ns.Status != nil:
		add("subresources/status", "status-subresource", "status subresource added",
			effect(Clients, "updates of the object no longer change its status"))
	case os.Status != nil && ns.Status == nil:
		add("subresources/status", "status-subresource", "status subresource removed",
			effect(Clients, "requests for /status fail, and updates of the object overwrite its status"))
	}
	switch {
	case reflect.DeepEqual(os.Scale, ns.Scale):
	case ns.Scale == nil:
		add("subresources/scale", "scale-subresource", "scale subresource removed",
			effect(Clients, "autoscalers and kubectl scale no longer work"))
	default:
		message, effects := "scale subresource added", []Effect(nil)
		if os.Scale != nil {
			message, effects = "scale subresource changed", []Effect{effect(Clients, "")}
		}
		for _, p := range scalePaths(ns.Scale) {
			effects = append(effects, at(Invalid, p, "the scale subresource requires a number of replicas or a selector here"))
		}
		add("subresources/scale", "scale-subresource", message, effects...)
		last := d.changes[len(d.changes)-1]
		last.Leniency = leniency(last, nil)
	}
	if !reflect.DeepEqual(o.AdditionalPrinterColumns, n.AdditionalPrinterColumns) {
		add("additionalPrinterColumns", "printer-columns", "printer columns changed")
	}
	paths := func(fields []api.SelectableField) (out []string) {
		for _, f := range fields {
			out = append(out, f.JSONPath)
		}
		return out
	}
	op, np := paths(o.SelectableFields), paths(n.SelectableFields)
	for _, p := range op {
		if !slices.Contains(np, p) {
			add("selectableFields", "selectable-fields", "selectable field "+p+" removed",
				effect(Clients, "field selectors that use it are rejected"))
		}
	}
	for _, p := range np {
		if !slices.Contains(op, p) {
			add("selectableFields", "selectable-fields", "selectable field "+p+" added")
		}
	}
}

func subresources(v *api.CustomResourceDefinitionVersion) api.CustomResourceSubresources {
	if v.Subresources == nil {
		return api.CustomResourceSubresources{}
	}
	return *v.Subresources
}

// scalePaths returns the paths of the values that a scale subresource reads.
func scalePaths(s *api.CustomResourceSubresourceScale) (paths []schema.SchemaPath) {
	for _, text := range []string{s.SpecReplicasPath, s.StatusReplicasPath, deref(s.LabelSelectorPath)} {
		if p := scalePath(text); p != nil {
			paths = append(paths, p)
		}
	}
	return paths
}

// scalePath parses the path of a value that a scale subresource reads.
func scalePath(text string) (p schema.SchemaPath) {
	for _, name := range strings.FieldsFunc(text, func(r rune) bool { return r == '.' }) {
		p = append(p, property(name))
	}
	return p
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

package upgrade

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"

	"espalier.dev/analysis"
	"espalier.dev/analysis/impact"
	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/crd/compliance"
	"espalier.dev/internal/shell"
	"espalier.dev/schema"
)

// Options configure NewPair.
type Options struct {
	Semantics schema.Semantics
	// Rules checks and evaluates x-kubernetes-validations. Without it they are ignored.
	Rules crd.RuleChecker
	// V1beta1 reports whether the new CRD is written as v1beta1 and validated as such.
	V1beta1 bool
}

func (o Options) crd() crd.Options {
	return crd.Options{Semantics: o.Semantics, Rules: o.Rules, IgnoreRules: o.Rules == nil}
}

// Pair is an installed CRD and the one that replaces it. It is safe for concurrent use.
type Pair struct {
	// Name is the name of the CRD.
	Name string
	// Changed reports whether the CRDs differ.
	Changed bool

	old, new *api.CustomResourceDefinition
	// was is the installed CRD, prepared the same with the storage version that it has when the
	// new one is applied, and is the new one. was and is are nil if there is none.
	was, prepared, is *compliance.Inspector
	// recreated is set if the API server rejects the new CRD as an update, so that the old one has
	// to be deleted first.
	recreated bool
	// intermediate is set if the CRDs have no version in common, so that no object can be stored in a version
	// of the new one.
	intermediate bool
	// missing are the stored versions that the new CRD lacks.
	missing []string
	// transitions are new rules about updates.
	transitions []transition
	effects     []Effect
	// patch is the JSON patch that makes another version the storage version of the old CRD.
	patch string
}

// transition is a rule about updates of the values at a path.
type transition struct {
	path    schema.SchemaPath
	message string
}

// Effect is what the upgrade does to an object or, if it is one of [Pair.Effects], what it does to
// the CRD.
type Effect struct {
	Rule     string
	Severity analysis.Severity
	// Action is the step that the effect needs.
	Action Action
	// Path is the place in the object, and Pattern the same without indices and keys of maps. Both
	// are empty for the object as a whole.
	Path, Pattern string
	// Pointer is the place in the object or in the CRD as a JSON pointer.
	Pointer string
	// Message is about this object, Summary about all objects with the effect.
	Message, Summary string
	// Detail has further lines.
	Detail []string
}

// NewPair compares an installed CRD, with its status, and the one that replaces it. Either may be
// nil, but not both. It returns an error if one of them cannot be used.
func NewPair(ctx context.Context, old, new *api.CustomResourceDefinition, o Options) (*Pair, error) {
	p := &Pair{old: old, new: new, Changed: true}
	if new == nil {
		p.Name = old.Name
		p.add(whole(RuleDeleted, analysis.Warning, Save, "the new release does not have the CRD: deleting it deletes its objects"))
		var err error
		p.was, err = inspect(old, o)
		return p, err
	}
	p.Name = new.Name
	var err error
	if p.is, err = inspect(new, o); err != nil {
		return nil, fmt.Errorf("new CRD: %w", err)
	}
	if old == nil {
		p.rejectNew(crd.ValidateCreate(ctx, new, o.crd()).Errors.ToAggregate())
		return p, nil
	}
	if p.was, err = inspect(old, o); err != nil {
		return nil, fmt.Errorf("old CRD: %w", err)
	}
	p.prepared = p.was
	c, err := impact.Compare(ctx, old, new, impact.Options{Semantics: o.Semantics, Rules: o.Rules, V1beta1: o.V1beta1})
	if err != nil {
		return nil, err
	}
	p.Changed = !reflect.DeepEqual(old.Spec, new.Spec)
	p.rejected(c)
	p.storedVersions(o)
	p.conversion()
	for i := range c.Changes {
		if ch := &c.Changes[i]; ch.IsTransition() && ch.NewVersion == p.is.Definition().Storage().Name() {
			p.transitions = append(p.transitions, transition{ch.Path, ch.Message})
		}
	}
	return p, nil
}

// inspect returns an inspector for a CRD.
func inspect(c *api.CustomResourceDefinition, o Options) (*compliance.Inspector, error) {
	d, err := crd.New(c, o.crd())
	if err != nil {
		return nil, err
	}
	if d.Storage() == nil {
		return nil, fmt.Errorf("the CRD %s has no storage version", c.Name)
	}
	return compliance.New(d), nil
}

// Effects returns the effects that need no objects.
func (p *Pair) Effects() []Effect { return p.effects }

// commandsFor returns the commands of an action that are run for each CRD, which may be none. flags
// are those that name the cluster, with a space before each.
func (p *Pair) commandsFor(a Action, flags string) []string {
	switch a {
	case Save:
		all := " -A"
		if p.old.Spec.Scope == api.ClusterScoped {
			all = ""
		}
		return []string{fmt.Sprintf("kubectl%s get %s%s -o yaml > %s", flags, shell.Quote(p.readable()), all, shell.Quote(p.Name+".yaml"))}
	case SwitchStorage:
		return []string{fmt.Sprintf("kubectl%s patch crd %s --type=json -p %s", flags, shell.Quote(p.Name), shell.Quote(p.patch))}
	case Apply:
		if p.old != nil && !p.recreated && converts(p.old) && !converts(p.new) {
			// Server-side apply leaves what another manager has set.
			return []string{fmt.Sprintf(`kubectl%s patch crd %s --type=merge -p '{"spec":{"conversion":null}}'`, flags, shell.Quote(p.Name))}
		}
	case Recreate:
		return []string{fmt.Sprintf("kubectl%s create -f %s", flags, shell.Quote(p.Name+".yaml"))}
	}
	return nil
}

// readable returns the resource in the version that has all data of its objects, for kubectl: the
// storage version, if it is served. The preferred version can lack fields.
func (p *Pair) readable() string {
	d := p.was.Definition()
	if v := d.Storage(); v.Served() {
		return d.GroupResource().Resource + "." + v.Name() + "." + d.Group()
	}
	return p.Name
}

// Definition returns the CRD in whose storage version objects are read: the installed one or, if a
// webhook converts objects, the same with the storage version that it has when the new one is
// applied, so that the webhook converts them. It is nil if no CRD is installed.
func (p *Pair) Definition() *crd.Definition {
	switch {
	case p.prepared != nil && converts(p.old):
		return p.prepared.Definition()
	case p.was != nil:
		return p.was.Definition()
	}
	return nil
}

func (p *Pair) add(e Effect) { p.effects = append(p.effects, e) }

// rejectNew adds an error for which the API server rejects the new CRD.
func (p *Pair) rejectNew(err error) {
	if err != nil {
		text := "the API server rejects the new CRD: " + err.Error()
		p.add(Effect{Rule: impact.RuleRefused, Severity: analysis.Error, Action: CorrectNew, Message: text, Summary: text})
	}
}

// rejected adds the reasons for which the API server rejects the update, except stored versions.
func (p *Pair) rejected(c *impact.Comparison) {
	for _, e := range c.Rejections() {
		switch {
		case strings.HasPrefix(e.Field, "status.storedVersions"):
			continue
		case strings.HasSuffix(e.Message, apivalidation.FieldImmutableErrorMsg):
			p.recreated = true
			p.add(Effect{Rule: impact.RuleRefused, Severity: analysis.Error, Action: Delete, Path: e.Field, Pattern: e.Field, Pointer: e.Pointer,
				Message: e.Message + ": the CRD must be deleted, with its objects, and created again"})
		default:
			p.add(Effect{Rule: impact.RuleRefused, Severity: analysis.Error, Action: CorrectNew, Path: e.Field, Pattern: e.Field,
				Pointer: e.Pointer, Message: e.Message})
		}
	}
}

// isInstalled reports whether an API server has set the status of the old CRD. The status of any other
// lists the storage version.
func (p *Pair) isInstalled() bool {
	return len(p.old.Status.Conditions) > 0 || p.old.Status.AcceptedNames.Plural != ""
}

// storedVersions finds the versions that must leave status.storedVersions before the upgrade, and
// those that can leave it after it.
func (p *Pair) storedVersions(o Options) {
	was, is := p.was.Definition(), p.is.Definition()
	var others []string
	for _, v := range p.old.Status.StoredVersions {
		switch {
		case is.Version(v) == nil:
			p.missing = append(p.missing, v)
		case v != is.Storage().Name():
			others = append(others, v)
		}
	}
	to := p.common()
	if len(p.missing) > 0 && to == "" && !p.recreated {
		p.intermediate = true
		p.add(Effect{Rule: impact.RuleRefused, Severity: analysis.Error, Action: Intermediate, Path: "status.storedVersions",
			Pattern: "status.storedVersions", Pointer: "/spec/versions",
			Message: p.missingVersions() + ", and it has no version in common with the installed CRD: " +
				"upgrade to a release that has versions of both first",
			Detail: []string{"run espalier upgrade for both upgrades: to that release, and then from it to this one"}})
	}
	if p.recreated || p.intermediate {
		return
	}
	if len(others) > 0 {
		p.add(Effect{Rule: RuleMigration, Severity: analysis.Warning, Action: Migrate, Path: "status.storedVersions",
			Pattern: "status.storedVersions", Pointer: "/spec/versions",
			Message: fmt.Sprintf("objects may be stored in version %s, and the storage version of the new CRD is %s: "+
				"a later release can only remove %[1]s when no object is stored in it", strings.Join(others, ", "), is.Storage().Name())})
	}
	if !p.isInstalled() {
		var may []string
		for _, v := range was.Versions() {
			if is.Version(v.Name()) == nil && !slices.Contains(p.missing, v.Name()) {
				may = append(may, v.Name())
			}
		}
		if len(may) > 0 {
			p.add(Effect{Rule: RuleMigration, Severity: analysis.Warning, Action: Rewrite, Path: "status.storedVersions",
				Pattern: "status.storedVersions", Pointer: "/spec/versions",
				Message: fmt.Sprintf("the API server rejects the new CRD if status.storedVersions lists %s, which it does not have: "+
					"the old CRD is not from a cluster, so that is not known", strings.Join(may, ", ")),
				Detail: []string{fmt.Sprintf("kubectl get crd %s -o jsonpath={.status.storedVersions}", shell.Quote(p.Name))}})
		}
	}
	if len(p.missing) == 0 {
		return
	}
	p.add(Effect{Rule: impact.RuleRefused, Severity: analysis.Error, Action: Rewrite, Path: "status.storedVersions",
		Pattern: "status.storedVersions", Pointer: "/spec/versions", Message: p.missingVersions()})
	if is.Version(was.Storage().Name()) == nil {
		p.switchStorage(to, o)
	}
}

// missingVersions says that the new CRD lacks versions in which objects are stored.
func (p *Pair) missingVersions() string {
	return fmt.Sprintf("the API server rejects the new CRD: status.storedVersions lists %s, which it does not have",
		strings.Join(p.missing, ", "))
}

// common returns a version that both CRDs have, the storage version of the new one if possible.
func (p *Pair) common() (name string) {
	was, is := p.was.Definition(), p.is.Definition()
	if was.Version(is.Storage().Name()) != nil {
		return is.Storage().Name()
	}
	for _, v := range is.Versions() {
		if o := was.Version(v.Name()); o != nil && (name == "" || o.Served() && !was.Version(name).Served()) {
			name = v.Name()
		}
	}
	return name
}

// switchStorage makes a version the storage version of the prepared CRD.
func (p *Pair) switchStorage(to string, o Options) {
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	prepared := p.old.DeepCopy()
	var patch []operation
	for i := range prepared.Spec.Versions {
		v := &prepared.Spec.Versions[i]
		if is := v.Name == to; is != v.Storage {
			v.Storage = is
			at := fmt.Sprintf("/spec/versions/%d/", i)
			// The versions of the cluster can be in another order.
			patch = append(patch, operation{"test", at + "name", v.Name}, operation{"replace", at + "storage", is})
		}
	}
	p.patch = string(encode(patch))
	p.add(Effect{Rule: RuleMigration, Severity: analysis.Error, Action: SwitchStorage, Path: "spec.versions", Pattern: "spec.versions",
		Pointer: "/spec/versions", Message: fmt.Sprintf("the storage version %s of the installed CRD is not in the new one: make %s the storage version first",
			p.was.Definition().Storage().Name(), to)})
	p.prepared, _ = inspect(prepared, o) // only the storage version is another one
}

// conversion compares how objects are converted between versions.
func (p *Pair) conversion() {
	old, new := converts(p.old), converts(p.new)
	switch {
	case len(p.new.Spec.Versions) < 2 || old == new:
	case new:
		p.add(Effect{Rule: RuleWebhook, Severity: analysis.Warning, Action: StartWebhook, Path: "spec.conversion", Pattern: "spec.conversion",
			Pointer: "/spec/conversion",
			Message: "conversion \"None\" → \"Webhook\": requests in another version than the stored one fail until the webhook answers; " +
				"what it makes of objects cannot be judged here"})
	case len(p.old.Spec.Versions) > 1:
		p.add(Effect{Rule: RuleWebhook, Severity: analysis.Warning, Action: Check, Path: "spec.conversion", Pattern: "spec.conversion",
			Pointer: "/spec/conversion",
			Message: "conversion \"Webhook\" → \"None\": objects that are stored in another version are relabelled, and fields that the webhook converted are dropped"})
	}
}

// converts reports whether a webhook converts objects.
func converts(c *api.CustomResourceDefinition) bool {
	return c.Spec.Conversion != nil && c.Spec.Conversion.Strategy == api.WebhookConverter
}

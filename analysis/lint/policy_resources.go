package lint

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/admissionregistration/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/analysis"
	"espalier.dev/api"
	"espalier.dev/internal/nearest"
	"espalier.dev/kinds"
	"espalier.dev/schema"
)

// endpoint is a resource or a subresource that requests can be sent to.
type endpoint struct {
	runtimeschema.GroupVersionResource
	sub        string
	kind       runtimeschema.GroupVersionKind
	namespaced bool
	operations []v1.OperationType
	// schema returns the schema of the kind, or nil if it is unknown.
	schema func() *schema.Structural
}

// name returns the name as rules have it.
func (e *endpoint) name() string {
	if e.sub == "" {
		return e.Resource
	}
	return e.Resource + "/" + e.sub
}

// resourceTable has all resources that are known.
type resourceTable struct {
	endpoints []*endpoint
	// groups are Kubernetes' own groups and those of CRDs.
	groups map[string]bool
	// names are all names of resources, for suggestions.
	names map[runtimeschema.GroupResource][]string
}

func newResourceTable(o PolicyOptions) *resourceTable {
	t := &resourceTable{groups: map[string]bool{}, names: map[runtimeschema.GroupResource][]string{}}
	builtin := func(gvk runtimeschema.GroupVersionKind) func() *schema.Structural {
		return func() *schema.Structural {
			if o.Builtin == nil {
				return nil
			}
			return o.Builtin(gvk)
		}
	}
	for _, r := range kinds.All() {
		t.groups[r.Group] = true
		gr := r.GroupResource()
		t.names[gr] = append([]string{r.Singular, r.Kind}, r.ShortNames...)
		operations := allOperations()
		if r.CreateOnly {
			operations = operations[:1]
		}
		kind := r.GroupVersionKind()
		t.add(&endpoint{GroupVersionResource: r.GroupVersionResource(), kind: kind, namespaced: r.Namespaced,
			operations: operations, schema: builtin(kind)})
		for _, s := range r.Subresources {
			e := &endpoint{GroupVersionResource: r.GroupVersionResource(), sub: s.Name, kind: s.Kind, namespaced: r.Namespaced}
			if e.kind.Kind == "" {
				e.kind = kind
			}
			e.operations, e.schema = subresourceOperations(s), builtin(e.kind)
			t.add(e)
		}
	}
	crdVersion := runtimeschema.GroupVersion{Group: api.GroupName, Version: api.Version}
	crds := crdVersion.WithResource("customresourcedefinitions")
	t.groups[crds.Group], t.names[crds.GroupResource()] = true, []string{"customresourcedefinition", api.Kind, "crd", "crds"}
	kind := crdVersion.WithKind(api.Kind)
	t.add(&endpoint{GroupVersionResource: crds, kind: kind, operations: allOperations(), schema: builtin(kind)})
	t.add(&endpoint{GroupVersionResource: crds, sub: "status", kind: kind, operations: []v1.OperationType{v1.Update}, schema: builtin(kind)})
	for _, r := range elsewhere() {
		t.groups[r.Group] = true
		t.add(&endpoint{GroupVersionResource: r.WithVersion("*"), namespaced: r.namespaced, schema: builtin(runtimeschema.GroupVersionKind{}),
			operations: allOperations()})
	}
	for _, d := range o.Definitions {
		t.groups[d.Group()] = true
		gr := d.GroupResource()
		t.names[gr] = append([]string{d.Names().Singular, d.Names().Kind}, d.Names().ShortNames...)
		for _, v := range d.Versions() {
			if !v.Served() {
				continue
			}
			e := endpoint{GroupVersionResource: gr.WithVersion(v.Name()), kind: v.GroupVersionKind(), namespaced: d.Namespaced(), schema: v.Structural,
				operations: allOperations()}
			t.add(&e)
			if s := v.Spec().Subresources; s != nil {
				if s.Status != nil {
					status := e
					status.sub, status.operations = "status", []v1.OperationType{v1.Update}
					t.add(&status)
				}
				if s.Scale != nil {
					scale := e
					scale.sub, scale.operations = "scale", []v1.OperationType{v1.Update}
					scale.kind = runtimeschema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}
					scale.schema = builtin(scale.kind)
					t.add(&scale)
				}
			}
		}
	}
	return t
}

func allOperations() []v1.OperationType { return []v1.OperationType{v1.Create, v1.Update, v1.Delete} }

func (t *resourceTable) add(e *endpoint) { t.endpoints = append(t.endpoints, e) }

// rareResource is a resource that kube-apiserver only serves if it is enabled.
type rareResource struct {
	runtimeschema.GroupResource
	namespaced bool
}

// elsewhere returns the resources of Kubernetes that kube-apiserver only serves if they are enabled.
// Their versions change.
func elsewhere() []rareResource {
	return []rareResource{
		{runtimeschema.GroupResource{Resource: "componentstatuses"}, false},
		{runtimeschema.GroupResource{Group: "certificates.k8s.io", Resource: "clustertrustbundles"}, false},
		{runtimeschema.GroupResource{Group: "certificates.k8s.io", Resource: "podcertificaterequests"}, true},
		{runtimeschema.GroupResource{Group: "coordination.k8s.io", Resource: "leasecandidates"}, true},
		{runtimeschema.GroupResource{Group: "resource.k8s.io", Resource: "devicetaintrules"}, false},
		{runtimeschema.GroupResource{Group: "resource.k8s.io", Resource: "resourcepoolstatusrequests"}, false},
		{runtimeschema.GroupResource{Group: "scheduling.k8s.io", Resource: "workloads"}, true},
		{runtimeschema.GroupResource{Group: "scheduling.k8s.io", Resource: "podgroups"}, true},
		{runtimeschema.GroupResource{Group: "storagemigration.k8s.io", Resource: "storageversionmigrations"}, false},
		{runtimeschema.GroupResource{Group: "internal.apiserver.k8s.io", Resource: "storageversions"}, false},
	}
}

// subresourceOperations returns the operations of requests for a subresource. What leads to another
// server is a connection, whatever its verb is.
func subresourceOperations(s kinds.Subresource) (out []v1.OperationType) {
	if strings.HasSuffix(s.Kind.Kind, "Options") {
		return []v1.OperationType{v1.Connect}
	}
	if slices.Contains(s.Verbs, "create") {
		out = append(out, v1.Create)
	}
	if slices.Contains(s.Verbs, "update") {
		out = append(out, v1.Update)
	}
	return out
}

// matches are the requests that rules match.
type matches struct {
	// endpoints are those that are known. wild are those that only a wildcard names.
	endpoints, wild []*endpointMatch
	// unknown is set if rules may match resources that are not known.
	unknown bool
}

// endpointMatch is an endpoint with the operations that rules match.
type endpointMatch struct {
	*endpoint
	operations map[v1.OperationType]bool
}

func (m *matches) all() []*endpointMatch { return slices.Concat(m.endpoints, m.wild) }

// ruleDimension is one of the lists of a rule.
type ruleDimension struct {
	name   string
	values []string
	// matches reports whether a value matches an endpoint.
	matches func(value string, e *endpoint) bool
}

// dimensions returns the lists of a rule, except its operations.
func dimensions(r *v1.Rule) []ruleDimension {
	return []ruleDimension{
		{"apiGroups", r.APIGroups, func(v string, e *endpoint) bool { return v == "*" || v == e.Group }},
		{"apiVersions", r.APIVersions, func(v string, e *endpoint) bool { return v == "*" || v == e.Version || e.Version == "*" }},
		{"resources", r.Resources, matchesResource},
	}
}

func matchesResource(v string, e *endpoint) bool {
	res, sub, _ := strings.Cut(v, "/")
	resource, of, _ := strings.Cut(e.name(), "/")
	return (res == "*" || res == resource) && (sub == "*" || sub == of)
}

// hasScope reports whether a rule matches an endpoint because of its scope.
func hasScope(r *v1.Rule, e *endpoint) bool {
	return r.Scope == nil || *r.Scope == v1.AllScopes || (*r.Scope == v1.NamespacedScope) == e.namespaced
}

// hasOperation reports whether a rule has an operation.
func hasOperation(r *v1.RuleWithOperations, op v1.OperationType) bool {
	return slices.Contains(r.Operations, op) || slices.Contains(r.Operations, v1.OperationAll)
}

// covers reports whether a rule matches requests for an endpoint.
func covers(r *v1.RuleWithOperations, e *endpoint, op v1.OperationType) bool {
	for _, d := range dimensions(&r.Rule) {
		if !slices.ContainsFunc(d.values, func(v string) bool { return d.matches(v, e) }) {
			return false
		}
	}
	return hasScope(&r.Rule, e) && hasOperation(r, op)
}

// resolve returns what rules match, and reports those that match nothing.
func (t *resourceTable) resolve(p *policyObject, at *place, rules []v1.RuleWithOperations, exempt func(*endpoint) bool) *matches {
	out := &matches{}
	seen := map[*endpoint]*endpointMatch{}
	for i := range rules {
		r := &rules[i]
		for _, e := range t.rule(p, at.index(i), r, exempt, out) {
			m := seen[e]
			if m == nil {
				m = &endpointMatch{e, map[v1.OperationType]bool{}}
				if seen[e] = m; slices.ContainsFunc(r.Resources, func(v string) bool { return !strings.HasPrefix(v, "*") && matchesResource(v, e) }) {
					out.endpoints = append(out.endpoints, m)
				} else {
					out.wild = append(out.wild, m)
				}
			}
			for _, op := range e.operations {
				if hasOperation(r, op) {
					m.operations[op] = true
				}
			}
		}
	}
	return out
}

// rule returns the endpoints that a rule matches, and reports which of its parts match none.
func (t *resourceTable) rule(p *policyObject, at *place, r *v1.RuleWithOperations, exempt func(*endpoint) bool, out *matches) (matched []*endpoint) {
	ds := dimensions(&r.Rule)
	for _, d := range ds {
		if len(d.values) == 0 {
			return nil // the API server rejects it
		}
	}
	// Resources of unknown groups may exist.
	known := slices.DeleteFunc(slices.Clone(r.APIGroups), func(g string) bool { return !t.groups[g] })
	foreign := len(known) < len(r.APIGroups) && !slices.Contains(r.APIGroups, "*")
	unknown := foreign || slices.Contains(r.APIGroups, "*")
	out.unknown = out.unknown || unknown
	exist := t.endpoints
	for _, d := range ds {
		exist = slices.DeleteFunc(slices.Clone(exist), func(e *endpoint) bool {
			return !slices.ContainsFunc(d.values, func(v string) bool { return d.matches(v, e) })
		})
	}
	if foreign {
		t.foreignGroups(p, at, r)
	}
	if len(exist) == 0 {
		if !unknown {
			p.warn(policyMatch, at, t.nothing(r))
		}
		return nil
	}
	t.superfluous(p, at, r, ds, exist, foreign)
	open := slices.DeleteFunc(slices.Clone(exist), func(e *endpoint) bool { return exempt != nil && exempt(e) })
	if len(open) == 0 {
		if !unknown {
			p.warn(policyMatch, at.child("resources"), fmt.Sprintf("%s never apply to %s", p.noun(), exist[0].GroupResource()))
		}
		return nil
	}
	scoped := slices.DeleteFunc(slices.Clone(open), func(e *endpoint) bool { return !hasScope(&r.Rule, e) })
	if len(scoped) == 0 {
		if !unknown {
			p.warn(policyMatch, at.child("scope"), fmt.Sprintf("the rule matches nothing: %s %s", open[0].GroupResource(), scopeOf(open[0])))
		}
		return nil
	}
	for i, op := range r.Operations {
		has := func(e *endpoint) bool { return slices.Contains(e.operations, op) }
		if op == v1.OperationAll || slices.ContainsFunc(scoped, has) || unknown {
			continue
		}
		message := fmt.Sprintf("there are no %s requests for %s", op, nearest.First(names(scoped), 3))
		if len(r.Operations) > 1 {
			p.inform(policyMatch, at.child("operations").index(i), message)
		} else {
			p.warn(policyMatch, at.child("operations").index(i), message, ": the rule matches nothing")
		}
	}
	return slices.DeleteFunc(scoped, func(e *endpoint) bool {
		return !slices.ContainsFunc(e.operations, func(op v1.OperationType) bool { return hasOperation(r, op) })
	})
}

// noun names what a kind of object has effects through.
func (p *policyObject) noun() string {
	if strings.HasSuffix(p.kind, "WebhookConfiguration") {
		return "webhooks"
	}
	return "policies"
}

func scopeOf(e *endpoint) string {
	if e.namespaced {
		return "is namespaced"
	}
	return "is cluster-scoped"
}

// names returns the names of endpoints, each once.
func names(list []*endpoint) (out []string) {
	for _, e := range list {
		name := e.name()
		if e.Group != "" {
			name += "." + e.Group
		}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// foreignGroups reports groups that are not known.
func (t *resourceTable) foreignGroups(p *policyObject, at *place, r *v1.RuleWithOperations) {
	for i, g := range r.APIGroups {
		if t.groups[g] {
			continue
		}
		// A misspelled group is likely if another one has all the resources.
		var groups []string
		for _, e := range t.endpoints {
			if slices.ContainsFunc(r.Resources, func(v string) bool { return !strings.HasPrefix(v, "*") && matchesResource(v, e) }) {
				groups = append(groups, e.Group)
			}
		}
		if meant := nearest.Name(g, slices.Values(groups)); meant != "" {
			p.warn(policyMatch, at.child("apiGroups").index(i), fmt.Sprintf("%s is not a group of Kubernetes, and no CRD in the input has it", g), nearest.DidYouMean(meant))
			continue
		}
		p.inform(policyMatch, at.child("apiGroups").index(i),
			fmt.Sprintf("%s is not a group of Kubernetes, and no CRD in the input has it: what the rule matches is not checked", g))
	}
}

// superfluous reports the values in the lists of a rule that match nothing together with the others.
func (t *resourceTable) superfluous(p *policyObject, at *place, r *v1.RuleWithOperations, ds []ruleDimension, exist []*endpoint, foreign bool) {
	for _, d := range ds {
		for i, v := range d.values {
			if v == "*" || slices.ContainsFunc(exist, func(e *endpoint) bool { return d.matches(v, e) }) {
				continue
			}
			place := at.child(d.name).index(i)
			switch {
			case d.name == "apiGroups" && !t.groups[v], foreign:
				// Reported, or it may match a resource of an unknown group.
			case d.name == "resources":
				p.warn(policyMatch, place, t.noResource(r, v))
			case d.name == "apiVersions":
				p.inform(policyMatch, place, fmt.Sprintf("no resource of the rule has the version %s", v))
			default:
				p.inform(policyMatch, place, fmt.Sprintf("the group %q has no resource of the rule", v))
			}
		}
	}
}

// nothing explains why no resource exists that a rule of known groups matches.
func (t *resourceTable) nothing(r *v1.RuleWithOperations) string {
	for _, e := range t.endpoints {
		ds := dimensions(&r.Rule)
		matches := func(i int) bool {
			return slices.ContainsFunc(ds[i].values, func(v string) bool { return ds[i].matches(v, e) })
		}
		if matches(0) && matches(2) {
			return fmt.Sprintf("the rule matches nothing: %s has no version %s", e.GroupResource(), strings.Join(r.APIVersions, " or "))
		}
	}
	return "the rule matches nothing: " + t.noResource(r, r.Resources[0])
}

// noResource says that the groups of a rule do not have a resource.
func (t *resourceTable) noResource(r *v1.RuleWithOperations, resource string) string {
	groups := make([]string, len(r.APIGroups))
	for i, g := range r.APIGroups {
		if groups[i] = g; g == "" {
			groups[i] = "the core group"
		}
	}
	name, sub, _ := strings.Cut(resource, "/")
	inGroups := func(e *endpoint) bool {
		return slices.Contains(r.APIGroups, e.Group) || slices.Contains(r.APIGroups, "*")
	}
	// The resource of another group, or another name of the resource.
	var others []string
	for _, e := range t.endpoints {
		switch {
		case e.sub == "" && inGroups(e) && slices.ContainsFunc(t.names[e.GroupResource()], func(n string) bool { return strings.EqualFold(n, name) }):
			return fmt.Sprintf("%s has no resource %s: did you mean %q?", strings.Join(groups, ", "), resource, join(e.Resource, sub))
		case e.name() == resource && !slices.Contains(others, e.Group):
			others = append(others, e.Group)
		}
	}
	if len(others) == 1 {
		return fmt.Sprintf("%s has no resource %s: it belongs to %s", strings.Join(groups, ", "), resource, groupName(others[0]))
	}
	var names []string
	for _, e := range t.endpoints {
		if inGroups(e) {
			names = append(names, e.name())
		}
	}
	return fmt.Sprintf("%s has no resource %s", strings.Join(groups, ", "), resource) + nearest.DidYouMean(nearest.Name(resource, slices.Values(names)))
}

func groupName(g string) string {
	if g == "" {
		return `the core group, ""`
	}
	return g
}

func join(resource, sub string) string {
	if sub == "" {
		return resource
	}
	return resource + "/" + sub
}

// matching reports rules of a policy or a binding that match nothing.
func (l *policyLinter) matching(p *policyObject, at *place, m *v1.MatchResources) {
	p.matches = &matches{}
	if m == nil {
		return
	}
	plain := func(named []v1.NamedRuleWithOperations) (out []v1.RuleWithOperations) {
		for _, r := range named {
			out = append(out, r.RuleWithOperations)
		}
		return out
	}
	p.matches = l.resources.resolve(p, at.child("resourceRules"), plain(m.ResourceRules), exemptOfPolicies)
	l.resources.resolve(p, at.child("excludeResourceRules"), plain(m.ExcludeResourceRules), nil)
	l.excluded(p, at.child("excludeResourceRules"), m)
	l.selectedNamespaces(p, at.child("namespaceSelector"), m.NamespaceSelector)
}

// exemptOfPolicies reports whether no policy applies to a resource.
func exemptOfPolicies(e *endpoint) bool {
	switch e.Group {
	case v1.GroupName:
		return strings.Contains(e.Resource, "admissionpolic")
	case "authentication.k8s.io":
		return e.Resource == "selfsubjectreviews" || e.Resource == "tokenreviews"
	case "authorization.k8s.io":
		return true
	}
	return false
}

// exemptOfWebhooks reports whether no webhook applies to a resource.
func exemptOfWebhooks(e *endpoint) bool {
	return e.kind.Group == v1.GroupName && slices.Contains(policyKinds(), e.kind.Kind)
}

// excluded reports rules that exclude everything that others include.
func (l *policyLinter) excluded(p *policyObject, at *place, m *v1.MatchResources) {
	included := p.matches.all()
	if len(included) == 0 {
		return
	}
	isExcluded := func(e *endpoint, op v1.OperationType) bool {
		return slices.ContainsFunc(m.ExcludeResourceRules, func(r v1.NamedRuleWithOperations) bool {
			return len(r.ResourceNames) == 0 && covers(&r.RuleWithOperations, e, op)
		})
	}
	for _, e := range included {
		for op := range e.operations {
			if !isExcluded(e.endpoint, op) {
				return
			}
		}
	}
	// Resources that are not known are excluded only by wildcards.
	unknown := &endpoint{GroupVersionResource: runtimeschema.GroupVersionResource{Group: "\x00", Version: "\x00", Resource: "\x00"}}
	if p.matches.unknown && !isExcluded(unknown, v1.Create) {
		return
	}
	p.add(policyMatch, at, note{severity: analysis.Warning}, "excludeResourceRules exclude everything that resourceRules match")
}

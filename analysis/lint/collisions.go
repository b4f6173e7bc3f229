package lint

import (
	"fmt"
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/api"
	"espalier.dev/schema"
)

// Names are the names that a CRD claims.
type Names struct {
	name, group string
	claimed     api.CustomResourceDefinitionNames
}

// NamesOf returns the names that a CRD, given as JSON, claims in a semantics, or nil if it claims
// none.
func NamesOf(definition []byte, sem schema.Semantics) *Names {
	c := newCheck(&selection{}, sem)
	c.d = c.readAround(definition)
	return c.names()
}

// names returns the names that the CRD claims, or nil if it claims none.
func (c *check) names() *Names {
	if c.d == nil || c.d.meta().Name == "" {
		return nil
	}
	return &Names{name: c.d.meta().Name, group: c.d.group(), claimed: c.d.names()}
}

// collisions reports names that several CRDs claim. The earlier CRDs are not checked.
func collisions(earlier []*Names, checks []*check) {
	all := collision{definitions: map[string]bool{}, resources: claims{}, kinds: claims{}, short: claims{}}
	for _, names := range earlier {
		all.add(newCheck(&selection{}, schema.KEP), names)
	}
	for _, c := range checks {
		all.add(c, c.names())
	}
}

// collision is what the CRDs so far claim.
type collision struct {
	// definitions has the names of the CRDs.
	definitions map[string]bool
	// resources and kinds have names in a group, and short the short names of all groups.
	resources, kinds, short claims
}

// add adds the names of a CRD, which may be nil, and reports those that are taken.
func (all *collision) add(c *check, of *Names) {
	if of == nil {
		return
	}
	if all.definitions[of.name] {
		c.warn(nameCollision, root().child("metadata", "name"), of.name, " is defined more than once: the last one applied takes effect")
	}
	all.definitions[of.name] = true
	names, at := of.claimed, root().child("spec", "names")
	all.resources.claim(c, of, strings.ToLower(names.Plural), at.child("plural"))
	if names.Singular != names.Plural {
		all.resources.claim(c, of, strings.ToLower(names.Singular), at.child("singular"))
	}
	all.kinds.claim(c, of, names.Kind, at.child("kind"))
	if names.ListKind != names.Kind {
		all.kinds.claim(c, of, names.ListKind, at.child("listKind"))
	}
	for i, s := range names.ShortNames {
		all.resources.claim(c, of, s, at.child("shortNames").index(i))
		all.short.ambiguous(c, of, s, at.child("shortNames").index(i))
	}
}

// claims maps each claimed name to its first owner.
type claims map[string]claim

type claim struct {
	by *Names
	at *place
}

// claim registers a name in a group. Only the first owner keeps it: the API server does not
// serve the others.
func (cs claims) claim(c *check, by *Names, name string, at *place) {
	if name == "" {
		return
	}
	id := by.group + "/" + name
	first, taken := cs[id]
	if !taken {
		cs[id] = claim{by, at}
		return
	}
	if first.by.name == by.name {
		return
	}
	c.add(nameCollision, at, note{severity: analysis.Error,
		detail: []string{"the CRD that is created second is not served: its condition NamesAccepted is False"}},
		fmt.Sprintf("%q is already in use in group %s: it is %s of %s", name, by.group, first.at.path(), first.by.name))
}

// ambiguous registers a short name across all groups: kubectl resolves it to only one of
// the resources that share it.
func (cs claims) ambiguous(c *check, by *Names, name string, at *place) {
	if resource := builtinShortName(name); resource != "" {
		c.inform(shortNameAmbiguous, at, fmt.Sprintf("%q is also the short name of the built-in resource %s: kubectl prefers that one",
			name, resource))
	}
	first, taken := cs[name]
	if !taken {
		cs[name] = claim{by, at}
		return
	}
	if first.by.group != by.group {
		c.inform(shortNameAmbiguous, at, fmt.Sprintf("%q is also a short name of %s: kubectl uses only one of them", name,
			first.by.name))
	}
}

// builtinShortName returns the built-in resource that has the short name, or "".
func builtinShortName(name string) string {
	return map[string]string{
		"cj":     "cronjobs",
		"cm":     "configmaps",
		"crd":    "customresourcedefinitions",
		"crds":   "customresourcedefinitions",
		"cs":     "componentstatuses",
		"csr":    "certificatesigningrequests",
		"deploy": "deployments",
		"ds":     "daemonsets",
		"ep":     "endpoints",
		"ev":     "events",
		"hpa":    "horizontalpodautoscalers",
		"ing":    "ingresses",
		"ip":     "ipaddresses",
		"limits": "limitranges",
		"netpol": "networkpolicies",
		"no":     "nodes",
		"ns":     "namespaces",
		"pc":     "priorityclasses",
		"pdb":    "poddisruptionbudgets",
		"po":     "pods",
		"pv":     "persistentvolumes",
		"pvc":    "persistentvolumeclaims",
		"quota":  "resourcequotas",
		"rc":     "replicationcontrollers",
		"rs":     "replicasets",
		"sa":     "serviceaccounts",
		"sc":     "storageclasses",
		"sts":    "statefulsets",
		"svc":    "services",
		"vac":    "volumeattributesclasses",
	}[name]
}

package lint

import (
	"fmt"
	"strings"

	"espalier.dev/analysis"
)

// collisions reports names that several CRDs claim.
func collisions(checks []*check) {
	definitions := map[string]bool{}
	resources := claims{}
	kinds := claims{}
	short := claims{}
	for _, c := range checks {
		if c.d == nil || c.d.meta().Name == "" {
			continue
		}
		name := c.d.meta().Name
		if definitions[name] {
			c.warn(nameCollision, root().child("metadata", "name"), name, " is defined more than once: the last one applied takes effect")
		}
		definitions[name] = true
		names, at := c.d.names(), root().child("spec", "names")
		group := c.d.group()
		resources.claim(c, group, strings.ToLower(names.Plural), at.child("plural"))
		if names.Singular != names.Plural {
			resources.claim(c, group, strings.ToLower(names.Singular), at.child("singular"))
		}
		kinds.claim(c, group, names.Kind, at.child("kind"))
		if names.ListKind != names.Kind {
			kinds.claim(c, group, names.ListKind, at.child("listKind"))
		}
		for i, s := range names.ShortNames {
			resources.claim(c, group, s, at.child("shortNames").index(i))
			short.ambiguous(c, s, at.child("shortNames").index(i))
		}
	}
}

// claims maps each claimed name to its first owner.
type claims map[string]claim

type claim struct {
	by *check
	at *place
}

// claim registers a name in a group. Only the first owner keeps it: the API server does not
// serve the others.
func (cs claims) claim(c *check, group, name string, at *place) {
	if name == "" {
		return
	}
	id := group + "/" + name
	first, taken := cs[id]
	if !taken {
		cs[id] = claim{c, at}
		return
	}
	if first.by.d.meta().Name == c.d.meta().Name {
		return
	}
	c.add(nameCollision, at, note{severity: analysis.Error,
		detail: []string{"the CRD that is created second is not served: its condition NamesAccepted is False"}},
		fmt.Sprintf("%q is already in use in group %s: it is %s of %s", name, group, first.at.path(), first.by.d.meta().Name))
}

// ambiguous registers a short name across all groups: kubectl resolves it to only one of
// the resources that share it.
func (cs claims) ambiguous(c *check, name string, at *place) {
	if resource := builtinShortName(name); resource != "" {
		c.inform(shortNameAmbiguous, at, fmt.Sprintf("%q is also the short name of the built-in resource %s: kubectl prefers that one",
			name, resource))
	}
	first, taken := cs[name]
	if !taken {
		cs[name] = claim{c, at}
		return
	}
	if first.by != c && first.by.d.group() != c.d.group() {
		c.inform(shortNameAmbiguous, at, fmt.Sprintf("%q is also a short name of %s: kubectl uses only one of them", name,
			first.by.d.meta().Name))
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

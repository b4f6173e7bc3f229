// Package timeline describes how stored objects have changed over time, and who has changed them: in
// memory, as text, and as files.
//
// The servers of package espaliertest record it, and write it to a file if a test fails. A file has
// a [Header] and then a [Change] on each line, as JSON, oldest first. [Reader] and [Writer] stream
// files of any size. [Text] writes changes for people, with a [Diff] of the fields that have changed.
//
// Files and text do not have the data of Secrets and of encrypted objects: see [Masker].
package timeline

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
)

// Action is what has happened to an object.
type Action string

// The actions.
const (
	Create Action = "create"
	Update Action = "update"
	Delete Action = "delete"
)

// Change is a change of a stored object.
type Change struct {
	// Revision is the resourceVersion that the change has given to the object. Changes of one
	// transaction have the same.
	Revision int64     `json:"revision"`
	Time     time.Time `json:"time"`
	Action   Action    `json:"action"`
	// Resource is the resource of the object and its group, such as "pods" or "deployments.apps".
	Resource string `json:"resource"`
	// APIVersion and Kind are those of the stored object. They are empty if it is unreadable.
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	// Namespace is empty if the object is cluster-scoped.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Origin    Origin `json:"origin"`
	// Before is the stored object before the change, or nil if it was created. It has its
	// resourceVersion, and is in the version that is stored. A large file may leave it out for deletions.
	Before *unstructured.Unstructured `json:"before,omitempty"`
	// After is the stored object after the change, or nil if it was deleted. It has its
	// resourceVersion, and is in the version that is stored.
	After *unstructured.Unstructured `json:"after,omitempty"`
	// Encrypted is set if the object before or after the change is encrypted in the storage. Files and text then only have the
	// metadata: see [Masker].
	Encrypted bool `json:"encrypted,omitempty"`
	// Unreadable is the reason why the object before or after the change is missing, although the object existed.
	Unreadable string `json:"unreadable,omitempty"`
}

// Origin is who has caused a change: the request of a client, or the server itself.
type Origin struct {
	// User is the user of the request, or the one whose permissions a controller of the server has.
	User string `json:"user,omitempty"`
	// Verb is that of the request, such as "patch". If there is none, it is the action, or "expire" if
	// the time to live of the object has ended.
	Verb string `json:"verb"`
	// Resource is what the request is about, such as "deployments.apps/status". It may be another
	// resource than that of the object: a request that creates a pod also changes resource quotas.
	Resource string `json:"resource,omitempty"`
	// UserAgent is the header of the request.
	UserAgent string `json:"userAgent,omitempty"`
	// Controller is the part of the server that has made the change without a request, such as
	// "garbagecollector".
	Controller string `json:"controller,omitempty"`
}

// Expire is the verb of the deletion of an object whose time to live has ended.
const Expire = "expire"

// String returns the origin for people, such as "alice (patch deployments.apps/status)".
func (o Origin) String() string {
	var out string
	switch {
	case o.Verb == Expire:
		return "the server: its time to live has ended"
	case o.Controller != "":
		out = "controller " + o.Controller
		if o.User != "" {
			out += " as " + o.User
		}
		return out
	case o.Resource == "" && o.User == "":
		return "the server"
	case o.User == "":
		out = "an unknown user"
	default:
		out = o.User
	}
	out += " (" + strings.TrimSpace(o.Verb+" "+o.Resource)
	// The rest is the platform and the commit.
	if agent, _, _ := strings.Cut(o.UserAgent, " "); agent != "" {
		out += ", " + agent
	}
	return out + ")"
}

// Object returns the kind, the namespace and the name of the object, such as "Pod default/a".
func (c *Change) Object() string {
	kind, name := c.Kind, c.Name
	if kind == "" {
		kind = c.Resource
	}
	if c.Namespace != "" {
		name = c.Namespace + "/" + name
	}
	return kind + " " + name
}

// Diff returns the fields that have changed: see the function [Diff].
func (c *Change) Diff() string { return Diff(c.Before, c.After, DiffOptions{}) }

// Filter selects changes. The zero value selects all.
type Filter struct {
	// Kind is the kind or resource of the object, with or without its group: "Deployment",
	// "deployments" or "deployments.apps". Case does not matter.
	Kind string
	// Namespace and Name are those of the object.
	Namespace, Name string
	// User is the user of the origin, or its controller.
	User string
	// Verb is the verb of the origin.
	Verb string
	// From and To are the first and the last revision; zero means no limit.
	From, To int64
	// Since and Until are the first and the last time; zero means no limit.
	Since, Until time.Time
}

// Selects reports whether one of the filters selects a change, or there are none.
func Selects(filters []Filter, c *Change) bool {
	for i := range filters {
		if filters[i].Match(c) {
			return true
		}
	}
	return len(filters) == 0
}

// MayMatch reports whether the filter may select a change whose kind is not known, because its object
// is not decoded. If it is known, it is Match.
func (f *Filter) MayMatch(c *Change) bool {
	if c.Kind != "" {
		return f.Match(c)
	}
	other := *f
	other.Kind = ""
	return other.Match(c)
}

// Revisions returns the first and the last revision that filters may select; zero means no limit.
func Revisions(filters []Filter) (from, to int64) {
	unlimited := len(filters) == 0
	for i, f := range filters {
		if i == 0 || f.From < from {
			from = f.From
		}
		to = max(to, f.To)
		unlimited = unlimited || f.To == 0
	}
	if unlimited {
		to = 0
	}
	return from, to
}

// Match reports whether the filter selects a change.
func (f *Filter) Match(c *Change) bool {
	is := func(want string, have ...string) bool {
		if want == "" {
			return true
		}
		for _, h := range have {
			if h == want {
				return true
			}
		}
		return false
	}
	return f.matchKind(c) && is(f.Namespace, c.Namespace) && is(f.Name, c.Name) &&
		is(f.User, c.Origin.User, c.Origin.Controller) && is(f.Verb, c.Origin.Verb) &&
		c.Revision >= f.From && (f.To == 0 || c.Revision <= f.To) &&
		!c.Time.Before(f.Since) && (f.Until.IsZero() || !c.Time.After(f.Until))
}

// matchKind reports whether the kind or resource is that of a change.
func (f *Filter) matchKind(c *Change) bool {
	if f.Kind == "" {
		return true
	}
	want := runtimeschema.ParseGroupResource(strings.ToLower(f.Kind))
	have := runtimeschema.ParseGroupResource(c.Resource)
	return (want.Resource == have.Resource || want.Resource == strings.ToLower(c.Kind)) && (want.Group == "" || want.Group == have.Group)
}

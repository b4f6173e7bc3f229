// Package keys knows the layout of the keys in etcd, and how values in etcd begin. Nothing else
// builds or parses them.
//
// Objects have the keys that kube-apiserver gives them, so that both can read the same data. With
// the default prefix:
//
//	/registry/configmaps/NAMESPACE/NAME                              Kubernetes' own kinds
//	/registry/services/specs/NAMESPACE/NAME                          a few with another directory
//	/registry/GROUP/RESOURCE/NAMESPACE/NAME                          custom resources
//	/registry/apiextensions.k8s.io/customresourcedefinitions/NAME    CRDs
//
// Cluster-scoped objects have no NAMESPACE. What Espalier needs beside the objects is elsewhere,
// so that no other program takes it for an object:
//
//	espalier.dev/fences/registry/UID                 the fence of a CRD
//	espalier.dev/fences/:namespaces/registry/NAME    the fence of a namespace
//	espalier.dev/fences/:locks/registry/NAME         a lock
//	espalier.dev/semantics/registry                  the schema semantics of the data
//	espalier.dev/format/registry                     the format of the data, unless it is 1
//	espalier.dev/servers/registry/LEASE              a server
//	//espalier.dev/servers/registry/alone            the only server on data in kine
//	espalier.dev/restored/registry/REVISION          a restore from a snapshot
package keys

import (
	"path"
	"strconv"
	"strings"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/api"
)

// DefaultPrefix is the default prefix of the keys of objects.
const DefaultPrefix = "/registry"

// Fences is the prefix of the keys of all fences and locks.
const Fences = Own + "fences/"

// Own is the prefix of keys that are not those of objects. It does not begin with a slash, so it
// is never below a root.
const Own = "espalier.dev/"

// Root is the prefix of the keys of all objects, such as "/registry/". It begins and ends with a
// slash. The prefix of a store is one.
type Root string

// NewRoot returns the root of a prefix as users write it, such as "registry".
func NewRoot(prefix string) Root {
	return Root(strings.TrimSuffix(path.Join("/", prefix), "/") + "/")
}

// Path returns the root without the last slash.
func (r Root) Path() string { return path.Clean(string(r)) }

// Join returns the key of a path below the root, which may begin with a slash.
func (r Root) Join(path string) string { return string(r) + strings.TrimPrefix(path, "/") }

// Health returns the key that health checks read. It does not exist.
func (r Root) Health() string { return string(r) + "health" }

// Fences returns the prefix of the fences of CRDs, which are named by the UIDs of the CRDs.
func (r Root) Fences() string { return Own + "fences" + string(r) }

// NamespaceFences returns the prefix of the fences of namespaces, which have their names. It is
// not below the fences of CRDs.
func (r Root) NamespaceFences() string { return Fences + ":namespaces" + string(r) }

// Lock returns the key of a lock.
func (r Root) Lock(name string) string { return Fences + ":locks" + string(r) + name }

// Semantics returns the key that records the schema semantics of the objects.
func (r Root) Semantics() string { return Own + "semantics" + r.Path() }

// Servers returns the prefix of the registrations of the servers that share the data.
func (r Root) Servers() string { return Own + "servers" + string(r) }

// OnlyServer returns the key of the registration of the only server on data in kine. Kine lets
// only keys expire that begin with a slash. No key of an object begins with two.
func (r Root) OnlyServer() string { return "//" + r.Servers() + "alone" }

// Restored returns the key that records a restore from a snapshot, written at a revision.
func (r Root) Restored(revision int64) string {
	return Own + "restored" + r.Path() + "/" + strconv.FormatInt(revision, 10)
}

// crds is the resource of CRDs.
var crds = runtimeschema.GroupResource{Group: api.GroupName, Resource: "customresourcedefinitions"}

// directories are the resources of Kubernetes whose directories are not named like them.
var directories = map[runtimeschema.GroupResource]string{
	crds:                                 crds.Group + "/" + crds.Resource,
	{Resource: "endpoints"}:              "services/endpoints",
	{Resource: "nodes"}:                  "minions",
	{Resource: "replicationcontrollers"}: "controllers",
	{Resource: "services"}:               "services/specs",
	{Group: "apiregistration.k8s.io", Resource: "apiservices"}: "apiregistration.k8s.io/apiservices",
	{Group: "networking.k8s.io", Resource: "ingresses"}:        "ingress",
}

// BuiltinDirectory returns the directory of one of Kubernetes' own resources below the root, such
// as "configmaps". Resources whose objects are the same have the same directory.
func BuiltinDirectory(r runtimeschema.GroupResource) string {
	if d, ok := directories[r]; ok {
		return d
	}
	return r.Resource
}

// Builtin returns the prefix of one of Kubernetes' own resources.
func (r Root) Builtin(of runtimeschema.GroupResource) Prefix {
	return Prefix(string(r) + BuiltinDirectory(of) + "/")
}

// Custom returns the prefix of a custom resource.
func (r Root) Custom(of runtimeschema.GroupResource) Prefix {
	return Prefix(string(r) + of.Group + "/" + of.Resource + "/")
}

// CRDs returns the prefix of CRDs.
func (r Root) CRDs() Prefix { return r.Builtin(crds) }

// Namespaces returns the prefix of namespaces.
func (r Root) Namespaces() Prefix {
	return r.Builtin(runtimeschema.GroupResource{Resource: "namespaces"})
}

// Prefix is the prefix of the keys of the objects of one resource. It ends with a slash.
type Prefix string

// In returns the prefix of the keys of the objects in a namespace.
func (p Prefix) In(namespace string) string { return string(p) + namespace + "/" }

// Scope returns the prefix of the keys of the objects in a namespace, or of all if it is empty.
func (p Prefix) Scope(namespace string) string {
	if namespace == "" {
		return string(p)
	}
	return p.In(namespace)
}

// Key returns the key of an object. The namespace of a cluster-scoped one is empty.
func (p Prefix) Key(namespace, name string) string { return p.Scope(namespace) + name }

// Has reports whether a key is that of an object of the resource.
func (p Prefix) Has(key string) bool { return strings.HasPrefix(key, string(p)) }

// Cut is the inverse of Key. ok is false if the object is of another resource.
func (p Prefix) Cut(key string) (namespace, name string, ok bool) {
	rest, ok := strings.CutPrefix(key, string(p))
	if ok {
		namespace, name = cut(rest)
	}
	return namespace, name, ok
}

// cut cuts the namespace off the part of a key below the prefix of a resource.
func cut(rest string) (namespace, name string) {
	namespace, name, namespaced := strings.Cut(rest, "/")
	if !namespaced {
		return "", rest
	}
	return namespace, name
}

// Name returns the name of the object that has a key.
func Name(key string) string { return key[strings.LastIndexByte(key, '/')+1:] }

// Object is what the key of an object says about it.
type Object struct {
	// Directory is the directory of the resource below the root.
	Directory string
	// Resource is the resource if the key has its group: that of a custom resource, of a CRD or of
	// an API service. Otherwise, it is empty: the table of Kubernetes' own resources has those of
	// the other directories.
	Resource runtimeschema.GroupResource
	// Namespace is empty if the object is cluster-scoped.
	Namespace, Name string
}

// Parse parses the key of an object. ok is false if it is not one.
func (r Root) Parse(key string) (o Object, ok bool) {
	below, ok := strings.CutPrefix(key, string(r))
	if !ok {
		return Object{}, false
	}
	first, rest, _ := strings.Cut(below, "/")
	o.Directory = first
	// Groups in keys have a dot, and directories without a group have none.
	if grouped := strings.Contains(first, "."); grouped || first == "services" {
		var second string
		second, rest, _ = strings.Cut(rest, "/")
		o.Directory = below[:min(len(below), len(first)+1+len(second))]
		if grouped {
			o.Resource = runtimeschema.GroupResource{Group: first, Resource: second}
		}
	}
	if rest == "" {
		return Object{}, false
	}
	o.Namespace, o.Name = cut(rest)
	return o, true
}

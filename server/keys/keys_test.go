package keys_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/server/keys"
)

const root = keys.Root("/registry/")

func resource(group, resource string) runtimeschema.GroupResource {
	return runtimeschema.GroupResource{Group: group, Resource: resource}
}

// TestLayout pins the keys of objects, which kube-apiserver and earlier releases share, and parses
// them again.
func TestLayout(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		key, directory, group, resource, namespace, name string
		prefix                                           keys.Prefix
	}{
		{key: "/registry/configmaps/default/a", directory: "configmaps", namespace: "default", name: "a", prefix: root.Builtin(resource("", "configmaps"))},
		{key: "/registry/namespaces/default", directory: "namespaces", name: "default", prefix: root.Builtin(resource("", "namespaces"))},
		{key: "/registry/namespaces/default", directory: "namespaces", name: "default", prefix: root.Namespaces()},
		{key: "/registry/minions/node-1", directory: "minions", name: "node-1", prefix: root.Builtin(resource("", "nodes"))},
		{key: "/registry/controllers/default/rc", directory: "controllers", namespace: "default", name: "rc", prefix: root.Builtin(resource("", "replicationcontrollers"))},
		{key: "/registry/services/specs/default/web", directory: "services/specs", namespace: "default", name: "web", prefix: root.Builtin(resource("", "services"))},
		{key: "/registry/services/endpoints/default/web", directory: "services/endpoints", namespace: "default", name: "web", prefix: root.Builtin(resource("", "endpoints"))},
		{key: "/registry/deployments/default/web", directory: "deployments", namespace: "default", name: "web", prefix: root.Builtin(resource("apps", "deployments"))},
		{key: "/registry/ingress/default/web", directory: "ingress", namespace: "default", name: "web", prefix: root.Builtin(resource("networking.k8s.io", "ingresses"))},
		{key: "/registry/ingressclasses/nginx", directory: "ingressclasses", name: "nginx", prefix: root.Builtin(resource("networking.k8s.io", "ingressclasses"))},
		{key: "/registry/events/default/e", directory: "events", namespace: "default", name: "e", prefix: root.Builtin(resource("", "events"))},
		{key: "/registry/events/default/e", directory: "events", namespace: "default", name: "e", prefix: root.Builtin(resource("events.k8s.io", "events"))},
		{key: "/registry/clusterroles/system:node", directory: "clusterroles", name: "system:node", prefix: root.Builtin(resource("rbac.authorization.k8s.io", "clusterroles"))},
		{
			key: "/registry/apiregistration.k8s.io/apiservices/v1.apps", directory: "apiregistration.k8s.io/apiservices",
			group: "apiregistration.k8s.io", resource: "apiservices", name: "v1.apps", prefix: root.Builtin(resource("apiregistration.k8s.io", "apiservices")),
		},
		{
			key: "/registry/apiextensions.k8s.io/customresourcedefinitions/crontabs.example.com", directory: "apiextensions.k8s.io/customresourcedefinitions",
			group: "apiextensions.k8s.io", resource: "customresourcedefinitions", name: "crontabs.example.com", prefix: root.CRDs(),
		},
		{
			key: "/registry/example.com/crontabs/default/a", directory: "example.com/crontabs",
			group: "example.com", resource: "crontabs", namespace: "default", name: "a", prefix: root.Custom(resource("example.com", "crontabs")),
		},
		{
			key: "/registry/example.com/clusters/a", directory: "example.com/clusters",
			group: "example.com", resource: "clusters", name: "a", prefix: root.Custom(resource("example.com", "clusters")),
		},
		{ // a custom resource in a group of Kubernetes
			key: "/registry/networking.k8s.io/ingresses/default/a", directory: "networking.k8s.io/ingresses",
			group: "networking.k8s.io", resource: "ingresses", namespace: "default", name: "a", prefix: root.Custom(resource("networking.k8s.io", "ingresses")),
		},
	} {
		if got := test.prefix.Key(test.namespace, test.name); got != test.key {
			t.Errorf("the key is %s, not %s", got, test.key)
		}
		want := keys.Object{Directory: test.directory, Resource: resource(test.group, test.resource), Namespace: test.namespace, Name: test.name}
		if got, ok := root.Parse(test.key); !ok || got != want {
			t.Errorf("%s is parsed as %+v %t, not %+v", test.key, got, ok, want)
		}
		if namespace, name, ok := test.prefix.Cut(test.key); !ok || namespace != test.namespace || name != test.name {
			t.Errorf("%s is cut into %q %q %t", test.key, namespace, name, ok)
		}
		if _, _, ok := keys.Prefix("/registry/other/").Cut(test.key); ok || !test.prefix.Has(test.key) || keys.Name(test.key) != test.name {
			t.Errorf("%s: the name is %s", test.key, keys.Name(test.key))
		}
	}
}

// TestOwnKeys pins the keys of what Espalier stores beside objects, which earlier releases have
// written. None of them is that of an object.
func TestOwnKeys(t *testing.T) {
	t.Parallel()
	shared := keys.NewRoot("/a/shared")
	for _, test := range []struct{ got, want string }{
		{root.Fences() + "uid", "espalier.dev/fences/registry/uid"},
		{shared.Fences() + "uid", "espalier.dev/fences/a/shared/uid"},
		{root.NamespaceFences() + "default", "espalier.dev/fences/:namespaces/registry/default"},
		{root.Lock("services"), "espalier.dev/fences/:locks/registry/services"},
		{root.Semantics(), "espalier.dev/semantics/registry"},
		{shared.Semantics(), "espalier.dev/semantics/a/shared"},
		{root.Servers() + "1f", "espalier.dev/servers/registry/1f"},
		{root.OnlyServer(), "//espalier.dev/servers/registry/alone"},
		{root.Restored(1000000007), "espalier.dev/restored/registry/1000000007"},
	} {
		if test.got != test.want {
			t.Errorf("the key is %s, not %s", test.got, test.want)
		}
		if o, ok := root.Parse(test.got); ok {
			t.Errorf("%s is parsed as %+v", test.got, o)
		}
	}
	if keys.Fences != "espalier.dev/fences/" || root.Health() != "/registry/health" {
		t.Error(keys.Fences, root.Health())
	}
}

func TestRoot(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string][2]string{
		"/registry": {"/registry/", "/registry"}, "registry": {"/registry/", "/registry"}, "//registry//": {"/registry/", "/registry"},
		"/a/b": {"/a/b/", "/a/b"}, "/": {"/", "/"}, "": {"/", "/"},
	} {
		if r := keys.NewRoot(prefix); string(r) != want[0] || r.Path() != want[1] || keys.NewRoot(r.Path()) != r {
			t.Errorf("the root of %q is %q, and its path %q", prefix, r, r.Path())
		}
	}
	if got := root.Join("/configmaps/a/b"); got != "/registry/configmaps/a/b" || root.Join("configmaps/a/b") != got {
		t.Error(got)
	}
	pods := root.Builtin(resource("", "pods"))
	if pods.In("a") != "/registry/pods/a/" || pods.Scope("a") != "/registry/pods/a/" || pods.Scope("") != "/registry/pods/" {
		t.Error(pods.In("a"), pods.Scope(""))
	}
}

// TestParseOthers parses keys that no object has.
func TestParseOthers(t *testing.T) {
	t.Parallel()
	for _, key := range []string{
		"", "/", "/registry", "/registry/", "/registry/pods", "/registry/pods/", "/registry/services/specs", "/registry/services/specs/",
		"/registry/example.com", "/registry/example.com/", "/registry/example.com/things", "/registry/example.com/things/", "/other/pods/a/b",
		"/registry2/pods/a/b", "registry/pods/a/b",
	} {
		if o, ok := root.Parse(key); ok || o != (keys.Object{}) {
			t.Errorf("%s is parsed as %+v", key, o)
		}
	}
}

// TestUnwrap unwraps what is stored.
func TestUnwrap(t *testing.T) {
	t.Parallel()
	message, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Pod"}, Raw: []byte("x")}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	stored := append([]byte("k8s\x00"), message...)
	if got, ok, err := keys.Unwrap(stored); !ok || err != nil || got.Kind != "Pod" || string(got.Raw) != "x" || !keys.IsProtobuf(stored) {
		t.Errorf("%+v %t %v", got, ok, err)
	}
	if _, ok, err := keys.Unwrap([]byte("k8s\x00\xff")); !ok || err == nil {
		t.Errorf("a damaged envelope: %t %v", ok, err)
	}
	for _, value := range []string{"", "k8s", "k8s:enc:aescbc:v1:key:x", `{"kind":"Pod"}`} {
		if _, ok, err := keys.Unwrap([]byte(value)); ok || err != nil || keys.IsProtobuf([]byte(value)) {
			t.Errorf("%q: %t %v", value, ok, err)
		}
	}
	if !keys.IsEncrypted([]byte("k8s:enc:aescbc:v1:key:x")) || keys.IsEncrypted(stored) {
		t.Error("an encrypted value is not recognized")
	}
}

// TestCheckFormat checks which formats of data are accepted.
func TestCheckFormat(t *testing.T) {
	for recorded, want := range map[string]string{
		"": "", "1": "", "1 v1.0.0": "",
		"2 v2.0.0": "the data has format 2, and this release reads formats up to 1: use espalier v2.0.0 or later; the data was not changed",
		"3":        "the data has format 3, and this release reads formats up to 1: use a newer release of espalier; the data was not changed",
		"0":        "the data has format 0, and this release reads formats up to 1: use a newer release of espalier; the data was not changed",
		"x":        "the data has format x, and this release reads formats up to 1: use a newer release of espalier; the data was not changed",
	} {
		got := ""
		if err := keys.CheckFormat([]byte(recorded)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", recorded, got, want)
		}
	}
	if root.Format() != "espalier.dev/format/registry" {
		t.Error(root.Format())
	}
}

package kubectl

import (
	"testing"

	"espalier.dev/espaliertest"
)

func TestDefinition(t *testing.T) {
	t.Parallel()
	s := newSession(t)

	t.Run("api-resources", func(t *testing.T) {
		out := columns(s.ok(t, "api-resources", "-o", "wide"))
		contains(t, out, "backups bk storage.example.com/v1 true Backup delete,deletecollection,get,list,patch,create,update,watch all,protection",
			"customresourcedefinitions crd,crds apiextensions.k8s.io/v1 false CustomResourceDefinition")
		equal(t, s.ok(t, "api-resources", "--api-group=storage.example.com", "-o", "name"), "backups.storage.example.com\n")
		lacks(t, s.ok(t, "api-resources", "--namespaced=false", "-o", "name"), "backups")
	})
	t.Run("api-versions", func(t *testing.T) {
		contains(t, s.ok(t, "api-versions"), "apiextensions.k8s.io/v1\napiextensions.k8s.io/v1beta1\n", "\napps/v1\n", "\nstorage.example.com/v1\n", "\nv1\n")
	})
	t.Run("version", func(t *testing.T) {
		contains(t, s.ok(t, "version"), "Client Version: v1.37.2\n", "Server Version: v1.37.2")
	})
	t.Run("cluster-scoped", func(t *testing.T) {
		s.ok(t, "apply", "-f", s.write(t, "regions.yaml", `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: regions.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: regions, kind: Region}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`))
		s.ok(t, "wait", "crd", "regions.example.com", "--for=condition=Established", "--timeout=30s")
		equal(t, s.ok(t, "apply", "-f", s.write(t, "region.yaml", "{apiVersion: example.com/v1, kind: Region, metadata: {name: north}}\n")), "region.example.com/north created\n")
		contains(t, columns(s.ok(t, "get", "regions")), "NAME AGE\nnorth ")
	})
	t.Run("invalid", func(t *testing.T) {
		file := s.write(t, "bad-crd.yaml", `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: wrong.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: things, kind: Thing}
  versions: [{name: v1, served: true, storage: true}]
`)
		s.fails(t, `metadata.name: Invalid value: "wrong.example.com": must be spec.names.plural+"."+spec.group`, "create", "-f", file)
		s.fails(t, "spec.versions[0].schema.openAPIV3Schema: Required value", "create", "-f", file)
	})
	t.Run("old version", func(t *testing.T) {
		contains(t, s.ok(t, "get", "customresourcedefinitions.v1beta1.apiextensions.k8s.io", "backups.storage.example.com", "-o", "yaml"),
			"apiVersion: apiextensions.k8s.io/v1beta1\n", "preserveUnknownFields: false\n", "JSONPath: .spec.target\n")
	})
	t.Run("deprecated version", func(t *testing.T) {
		s.ok(t, "apply", "-f", s.write(t, "signals.yaml", `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: signals.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: signals, kind: Signal}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
  - {name: v1beta1, served: true, storage: false, deprecated: true, deprecationWarning: use v1, schema: {openAPIV3Schema: {type: object}}}
`))
		s.ok(t, "wait", "crd", "signals.example.com", "--for=condition=Established", "--timeout=30s")
		contains(t, s.ok(t, "get", "signals.v1beta1.example.com"), "Warning: use v1")
		lacks(t, s.ok(t, "get", "signals"), "Warning")
	})
}

func TestDeleteDefinition(t *testing.T) {
	t.Parallel()
	for _, cascade := range []string{"background", "foreground", "orphan"} {
		t.Run(cascade, func(t *testing.T) {
			s := newSession(t)
			s.created(t, "one", "  target: home")
			s.created(t, "two", "  target: mail")
			args := []string{"delete", "crd", "backups.storage.example.com", "--timeout=30s", "--cascade=" + cascade}
			if cascade != "background" {
				args = append(args, "--wait=false")
			}
			contains(t, s.ok(t, args...), `"backups.storage.example.com" deleted`)
			if cascade != "background" {
				// The garbage collector removes the finalizer.
				out := s.ok(t, "get", "crd", "backups.storage.example.com", "--ignore-not-found", "-o", "jsonpath={.metadata.finalizers}")
				if out != "" {
					s.ok(t, "wait", "crd", "backups.storage.example.com", "--for=condition=Terminating", "--timeout=30s")
					s.fails(t, "not allowed", "create", "-f", s.backup(t, "late", "  target: home"))
				}
				s.run(t, "patch", "crd", "backups.storage.example.com", "--type=merge", "-p", `{"metadata":{"finalizers":["customresourcecleanup.apiextensions.k8s.io"]}}`)
				s.ok(t, "wait", "crd", "backups.storage.example.com", "--for=delete", "--timeout=30s")
			}
			s.fails(t, "NotFound", "get", "backups") // kubectl has cached the discovery
			lacks(t, s.ok(t, "api-resources", "-o", "name"), "backups")
			s.fails(t, `the server doesn't have a resource type "backups"`, "get", "backups")
			// The name is free again, and the old objects are gone.
			s.ok(t, "apply", "-f", s.testdata(t, "crd.yaml"))
			s.ok(t, "wait", "crd", "backups.storage.example.com", "--for=condition=Established", "--timeout=30s")
			equal(t, s.ok(t, "get", "backups", "-o", "name"), "")
		})
	}
}

// TestFirstUse applies a CRD and an object immediately after each other, as users do.
func TestFirstUse(t *testing.T) {
	t.Parallel()
	s := sessionOf(t, espaliertest.Start(t, espaliertest.WithEtcd()))
	s.ok(t, "apply", "-f", s.testdata(t, "crd.yaml"))
	s.ok(t, "apply", "-f", s.backup(t, "daily", "  target: home"))
	equal(t, s.ok(t, "get", "backups", "-o", "name"), "backup.storage.example.com/daily\n")
}

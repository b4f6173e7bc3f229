package layers

// A layer is a part of the module's tree, and what it stands on.
type layer struct {
	// dir is the directory, with all below it that is no layer of its own. The
	// root of the module is the directory ".", without what is below.
	dir string
	// on names the layers right beneath. A layer may import what is beneath it, at
	// any depth, and itself; nothing else of this module.
	on []string
}

// A fence says who may import somebody else's packages.
type fence struct {
	// path is an import path, with all below it.
	path string
	// by names the layers that may import it.
	by []string
	// tests says that the tests of a package are bound by it too, and that the
	// module may not even depend on it through others.
	tests bool
}

// layers and fences return the rules; a package in no layer is a violation, so that
// somebody decides where it belongs.
func layers() []layer {
	return []layer{
		{dir: "internal"},
		{dir: "api", on: []string{"internal"}},
		{dir: "schema", on: []string{"api"}},
		{dir: "schema/rules", on: []string{"schema"}},
		// Rules are injected into schema, crd and analysis, which need no CEL runtime.
		{dir: "crd", on: []string{"schema"}},
		{dir: "crd/cel", on: []string{"crd", "schema/rules"}},
		{dir: "analysis", on: []string{"."}},
		{dir: "openapi", on: []string{"crd"}},
		{dir: ".", on: []string{"crd"}},
		// Bytes and revisions: the store knows nothing of schemas.
		{dir: "store", on: []string{"internal"}},
		{dir: "server", on: []string{"openapi", ".", "crd/cel", "store"}},
		{dir: "espaliertest", on: []string{"server", "analysis"}},
		{dir: "cmd", on: []string{"server", "analysis"}},
	}
}

// browser returns what may run in a browser: the directories whose packages, with all
// below them, are compiled to WebAssembly, and the import paths that those packages
// must not depend on, not even through others. They are megabytes, or need an
// operating system.
func browser() (dirs, without []string) {
	return []string{"analysis"}, []string{"k8s.io/apiserver", "github.com/google/cel-go", "go.etcd.io", "google.golang.org/grpc"}
}

func fences() []fence {
	return []fence{
		// It brings process-global state (feature gates, metrics, the CEL
		// environment), which stays where it is needed.
		{path: "k8s.io/apiserver", by: []string{"server", "schema/rules"}},
		{path: "github.com/google/cel-go", by: []string{"schema/rules"}},
		{path: "go.etcd.io", by: []string{"store", "server"}},
		// The thing that this module implements. Tests compare with it, in modules
		// of their own.
		{path: "k8s.io/apiextensions-apiserver", tests: true},
	}
}

package layers

// A layer is a part of the module's tree, with the layers that it may import.
type layer struct {
	// dir is the directory, including subdirectories that are not layers themselves. The root
	// of the module is ".", without subdirectories.
	dir string
	// on names the layers directly beneath. A layer may import itself and every layer beneath
	// it, directly or indirectly; nothing else of this module.
	on []string
}

// A fence restricts the import of packages of other modules.
type fence struct {
	// path is an import path, including everything below it.
	path string
	// by names the layers that may import it.
	by []string
	// tests extends the restriction to the tests of a package, and to indirect dependencies
	// of the module.
	tests bool
}

// layers and fences return the rules. A package in no layer is a violation, so that every new
// package is assigned to one.
func layers() []layer {
	return []layer{
		{dir: "internal"},
		// What all tests share: nothing of the product imports it.
		{dir: "internal/program"},
		{dir: "api", on: []string{"internal"}},
		{dir: "schema", on: []string{"api"}},
		{dir: "schema/rules", on: []string{"schema"}},
		// Rules are injected into schema, crd and analysis, which need no CEL runtime.
		{dir: "crd", on: []string{"schema"}},
		{dir: "crd/cel", on: []string{"crd", "schema/rules"}},
		{dir: "analysis", on: []string{".", "kinds"}},
		// How objects have changed, which servers record and tools show.
		{dir: "analysis/timeline", on: []string{"internal"}},
		{dir: "openapi", on: []string{"crd"}},
		{dir: ".", on: []string{"crd"}},
		// Kubernetes' own kinds. CEL is injected here, too.
		{dir: "kinds", on: []string{"."}},
		{dir: "kinds/cel", on: []string{"kinds", "schema/rules"}},
		{dir: "kinds/schemas", on: []string{"kinds", "openapi"}},
		// The web page asks questions in JSON, and gets CEL injected like analysis.
		{dir: "web", on: []string{"analysis", "kinds/schemas"}},
		{dir: "web/wasm", on: []string{"web", "crd/cel", "kinds/cel"}},
		// The store handles bytes and revisions, not schemas.
		{dir: "store", on: []string{"internal"}},
		{dir: "server", on: []string{".", "crd/cel", "kinds/cel", "kinds/schemas", "store", "policies", "server/rest", "analysis/timeline"}},
		// Admission policies, for the server and without one.
		{dir: "policies", on: []string{"crd/cel", "kinds/cel", "server/fields", "server/keys"}},
		// What the endpoints of all resources share knows none of them.
		{dir: "server/rest", on: []string{"server/fields"}},
		{dir: "server/fields", on: []string{"server/served"}},
		{dir: "server/served", on: []string{"openapi"}},
		// The layout of keys depends on nothing that uses it.
		{dir: "server/keys", on: []string{"api"}},
		{dir: "espaliertest", on: []string{"server", "analysis"}},
		// What tests of the server share. Nothing of the product imports it.
		{dir: "server/servertest", on: []string{"espaliertest"}},
		{dir: "cmd", on: []string{"server", "analysis", "web"}},
	}
}

// browser returns the directories whose packages, including those below them, are compiled to
// WebAssembly, and the import paths that these packages must not depend on, even indirectly:
// they are megabytes large, or need an operating system.
func browser() (dirs, without []string) {
	return []string{"analysis", "web/protocol"}, []string{"k8s.io/apiserver", "github.com/google/cel-go", "go.etcd.io", "google.golang.org/grpc"}
}

// noServer returns the import paths that the command line with the build tags noserver and grpcnotrace
// must not depend on, even indirectly: its users download it often and start it often.
func noServer() []string {
	return []string{
		"espalier.dev/server/etcd", "espalier.dev/server/kubeapiserver", "espalier.dev/store",
		"go.etcd.io",
		"k8s.io/apiserver/pkg/storage/storagebackend", "k8s.io/apiserver/pkg/server",
		"k8s.io/apiserver/pkg/admission/plugin/policy/generic", "k8s.io/apiserver/pkg/admission/plugin/webhook/generic",
		"k8s.io/apiserver/pkg/admission/metrics", "k8s.io/apiserver/pkg/features",
		"k8s.io/client-go/kubernetes", "k8s.io/client-go/applyconfigurations", "k8s.io/client-go/discovery", "k8s.io/client-go/informers", "k8s.io/client-go/tools/cache",
		"google.golang.org/grpc",
		"html/template", "golang.org/x/net/trace", // they call methods by name, so the linker keeps all methods
	}
}

func fences() []fence {
	return []fence{
		// It brings process-global state (feature gates, metrics, the CEL environment).
		{path: "k8s.io/apiserver", by: []string{"server", "policies", "server/served", "server/fields", "server/rest", "schema/rules", "kinds/cel"}},
		{path: "github.com/google/cel-go", by: []string{"schema/rules", "kinds/cel", "policies"}},
		{path: "go.etcd.io", by: []string{"store", "server", "server/servertest", "internal/program"}},
		// The reference implementation of what this module implements. Tests compare with it,
		// in separate modules.
		{path: "k8s.io/apiextensions-apiserver", tests: true},
	}
}

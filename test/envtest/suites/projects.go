package main

// project is a Go module whose suites use envtest.
type project struct {
	name, module, version string
	// packages are patterns relative to the module. Packages without envtest are left out if
	// there is more than one.
	packages []string
}

// projects returns the projects, the fastest first.
func projects() []project {
	return []project{
		{name: "cert-controller", module: "github.com/open-policy-agent/cert-controller", version: "v0.16.0", packages: []string{"./..."}},
		{name: "constraint", module: "github.com/open-policy-agent/frameworks/constraint", version: "v0.0.0-20260616163050-e1eaa1bf6d62", packages: []string{"./..."}},
		{name: "flux-ssa", module: "github.com/fluxcd/pkg/ssa", version: "v0.78.0", packages: []string{"./..."}},
		{name: "lws", module: "sigs.k8s.io/lws", version: "v0.8.0", packages: []string{"./..."}},
		{name: "jobset", module: "sigs.k8s.io/jobset", version: "v0.10.1", packages: []string{"./..."}},
		{name: "cass-operator", module: "github.com/k8ssandra/cass-operator", version: "v1.28.0", packages: []string{"./..."}},
		{name: "controller-runtime", module: "sigs.k8s.io/controller-runtime", version: "v0.25.2", packages: []string{"./..."}},
		{name: "gatekeeper", module: "github.com/open-policy-agent/gatekeeper/v3", version: "v3.23.1", packages: []string{
			"./pkg/watch", "./pkg/controller/config", "./pkg/controller/mutators/core", "./pkg/readiness",
		}},
	}
}

package espaliertest

import (
	"errors"
	"maps"
	"slices"

	"k8s.io/klog/v2"

	"espalier.dev/server/kubeapiserver"
)

// ControlPlane configures the server of an [Environment].
type ControlPlane struct {
	// APIServer has the flags of the API server.
	APIServer *APIServer
}

// GetAPIServer returns APIServer, which it sets if it is nil.
func (c *ControlPlane) GetAPIServer() *APIServer {
	if c.APIServer == nil {
		c.APIServer = &APIServer{}
	}
	return c.APIServer
}

// APIServer has the flags of the API server.
type APIServer struct{ arguments *Arguments }

// Configure returns the flags, which the caller may change before the start. They are those of
// kube-apiserver. Flags that have no effect in this server are logged.
func (a *APIServer) Configure() *Arguments {
	if a.arguments == nil {
		a.arguments = &Arguments{}
	}
	return a.arguments
}

// Arguments are flags and their values. Names have no leading dashes.
type Arguments struct{ values map[string][]string }

// Set replaces the values of a flag.
func (a *Arguments) Set(name string, values ...string) *Arguments {
	if a.values == nil {
		a.values = map[string][]string{}
	}
	a.values[name] = slices.Clone(values)
	return a
}

// Append adds values to a flag.
func (a *Arguments) Append(name string, values ...string) *Arguments {
	var have []string
	if a.values != nil {
		have = a.values[name]
	}
	return a.Set(name, append(slices.Clone(have), values...)...)
}

// AppendNoDefaults is Append: flags have no other default values here.
func (a *Arguments) AppendNoDefaults(name string, values ...string) *Arguments {
	return a.Append(name, values...)
}

// Enable sets a flag without a value.
func (a *Arguments) Enable(name string) *Arguments { return a.Set(name, "true") }

// Disable removes a flag.
func (a *Arguments) Disable(name string) *Arguments {
	delete(a.values, name)
	return a
}

// flags returns the option that sets the flags.
func (a *APIServer) flags() Option {
	// As envtest starts kube-apiserver.
	args := []string{"--authorization-mode=RBAC", "--anonymous-auth=true"}
	values := a.Configure().values
	for _, name := range slices.Sorted(maps.Keys(values)) {
		for _, v := range values[name] {
			args = append(args, "--"+name+"="+v)
		}
	}
	return func(s *settings) {
		notes, err := kubeapiserver.Apply(s.options, args)
		s.err = errors.Join(s.err, err)
		for _, note := range notes {
			klog.Background().Info(note)
		}
	}
}

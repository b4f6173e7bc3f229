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
type Arguments struct{ values map[string]argument }

// argument has the values of a flag.
type argument struct {
	values []string
	// defaults means that the default values come first.
	defaults bool
	// absent means that the flag is not set.
	absent bool
}

// get returns the values of a flag, and reports whether there are any.
func (a *Arguments) get(name string) (argument, bool) {
	if a.values == nil {
		a.values = map[string]argument{}
	}
	v, ok := a.values[name]
	return v, ok
}

// Set replaces the values of a flag.
func (a *Arguments) Set(name string, values ...string) *Arguments {
	a.get(name)
	a.values[name] = argument{values: slices.Clone(values)}
	return a
}

// Append adds values to a flag: to those that were set, or to the default ones.
func (a *Arguments) Append(name string, values ...string) *Arguments {
	have, ok := a.get(name)
	a.values[name] = argument{values: slices.Concat(have.values, values), defaults: have.defaults || !ok}
	return a
}

// AppendNoDefaults adds values to those of a flag that were set.
func (a *Arguments) AppendNoDefaults(name string, values ...string) *Arguments {
	have, _ := a.get(name)
	a.values[name] = argument{values: slices.Concat(have.values, values), defaults: have.defaults}
	return a
}

// Enable sets a flag without a value.
func (a *Arguments) Enable(name string) *Arguments { return a.Set(name, "true") }

// Disable removes a flag and its default values.
func (a *Arguments) Disable(name string) *Arguments {
	a.get(name)
	a.values[name] = argument{absent: true}
	return a
}

// disabledPlugins is the flag of admission plugins that do not run.
const disabledPlugins = "disable-admission-plugins"

// flags returns the option that sets the flags.
func (a *APIServer) flags() Option {
	// As envtest starts kube-apiserver.
	defaults := map[string][]string{"authorization-mode": {"RBAC"}, disabledPlugins: {"ServiceAccount"}}
	all := maps.Clone(defaults)
	for name, v := range a.Configure().values {
		switch {
		case v.absent:
			delete(all, name)
		case v.defaults:
			all[name] = slices.Concat(defaults[name], v.values)
		default:
			all[name] = v.values
		}
	}
	args := []string{"--anonymous-auth=true"}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, v := range all[name] {
			args = append(args, "--"+name+"="+v)
		}
	}
	return func(s *settings) {
		s.options.DisableAdmissionPlugins = nil
		notes, err := kubeapiserver.Apply(s.options, args)
		s.err = errors.Join(s.err, err)
		for _, note := range notes {
			klog.Background().Info(note)
		}
	}
}

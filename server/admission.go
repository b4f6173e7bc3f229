package server

import (
	"errors"
	"fmt"
	"slices"

	"espalier.dev/server/plugins"
)

// validateAdmission returns an error if the names of plugins are invalid. All of kube-apiserver's
// are accepted on the command line, so that scripts and unit files for kube-apiserver work.
func (o *Options) validateAdmission() error {
	var errs []error
	check := func(flag string, names []string) {
		for _, name := range names {
			if !KnowsAdmissionPlugin(name) {
				errs = append(errs, fmt.Errorf("--%s: unknown admission plugin %q", flag, name))
			}
		}
	}
	check("enable-admission-plugins", o.EnableAdmissionPlugins)
	check("disable-admission-plugins", o.DisableAdmissionPlugins)
	for _, name := range o.EnableAdmissionPlugins {
		if KnowsAdmissionPlugin(name) && !HasAdmissionPlugin(name) {
			// Ignoring the flag would hide that the plugin does not run.
			errs = append(errs, fmt.Errorf("--enable-admission-plugins: kube-apiserver's plugin %q is not part of this server", name))
		}
		if slices.Contains(o.DisableAdmissionPlugins, name) {
			errs = append(errs, fmt.Errorf("the admission plugin %q cannot be both enabled and disabled", name))
		}
	}
	return errors.Join(errs...)
}

// admits reports whether a plugin is enabled.
func (o *Options) admits(p plugins.Plugin) bool {
	return p.New != nil && !slices.Contains(o.DisableAdmissionPlugins, p.Name) &&
		(!p.Optional || slices.Contains(o.EnableAdmissionPlugins, p.Name))
}

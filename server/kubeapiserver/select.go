package kubeapiserver

import (
	_ "embed" // the names of feature gates
	"fmt"
	"maps"
	"slices"
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"espalier.dev/server"
)

// features lists the names of kube-apiserver's feature gates, one in each line.
//
//go:embed features.txt
var features string

// selectGates drops the feature gates that kube-apiserver has and this server does not, and
// returns an error for those that kube-apiserver does not have either.
func (c *command) selectGates() error {
	known := strings.Fields(features)
	var dropped []string
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(c.options.FeatureGates)) {
		short := strings.TrimPrefix(name, "kube:")
		switch {
		case server.HasFeatureGate(short):
		case slices.Contains(known, short):
			delete(c.options.FeatureGates, name)
			dropped = append(dropped, short)
		default:
			errs = append(errs, fmt.Errorf("unrecognized feature gate: %s", short))
		}
	}
	if len(dropped) > 0 {
		c.notes = append(c.notes, "These feature gates of kube-apiserver have no effect in this server: "+strings.Join(dropped, " "))
	}
	return utilerrors.NewAggregate(errs)
}

// selectPlugins drops the admission plugins that kube-apiserver has and this server does not.
func (c *command) selectPlugins() {
	var dropped []string
	c.options.EnableAdmissionPlugins = slices.DeleteFunc(c.options.EnableAdmissionPlugins, func(name string) bool {
		missing := server.KnowsAdmissionPlugin(name) && !server.HasAdmissionPlugin(name)
		if missing {
			dropped = append(dropped, name)
		}
		return missing
	})
	if len(dropped) > 0 {
		c.notes = append(c.notes, "These admission plugins of kube-apiserver do not run in this server: "+strings.Join(dropped, " "))
	}
}

// selectModes drops the mode of authorization that is only about nodes, unless there is no other.
func (c *command) selectModes() {
	const node = "Node"
	modes := &c.options.Authorization.Modes
	if len(*modes) < 2 || !slices.Contains(*modes, node) {
		return
	}
	*modes = slices.DeleteFunc(*modes, func(mode string) bool { return mode == node })
	c.notes = append(c.notes, "The authorization mode Node of kube-apiserver has no effect in this server: the other modes decide about requests of nodes")
}

// selectAnonymous rejects anonymous requests if everything is allowed, as kube-apiserver does.
func (c *command) selectAnonymous() error {
	const anonymous, modes = "anonymous-auth", "authorization-mode"
	if c.flags.ignored[anonymous] || c.flags.ignored[modes] {
		return nil
	}
	if strings.Contains(c.flags.set.Lookup(modes).Value.String(), "AlwaysAllow") && c.flags.set.Lookup(anonymous).Value.String() == "true" {
		c.notes = append(c.notes,
			"AnonymousAuth is not allowed with the AlwaysAllow authorizer. Resetting AnonymousAuth to false. You should use a different authorizer")
		return c.flags.set.Lookup(anonymous).Value.Set("false")
	}
	return nil
}

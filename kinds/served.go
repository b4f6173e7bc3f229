package kinds

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"espalier.dev/api"
	"espalier.dev/internal/upstream"
)

// Served returns the resources that are served with kube-apiserver's setting --runtime-config,
// which maps api/all, api/ga, api/beta, api/alpha, group/version and group/version/resource to
// true or false. More specific keys have precedence. Errors are those of kube-apiserver. It also
// returns the keys that enable versions or resources of Kubernetes that this server does not have.
func Served(config map[string]string) (served []*Resource, missing []string, err error) {
	if len(config) == 0 {
		return Resources(), nil, nil
	}
	c, err := parseEnablement(config)
	if err != nil {
		return nil, nil, err
	}
	found := map[string]bool{}
	for _, r := range All() {
		gv := r.GroupVersionKind().GroupVersion().String()
		if r.Group == "" {
			gv = "/" + r.Version
		}
		found[gv], found[gv+"/"+r.Plural] = true, true
		if c.serves(r, gv) {
			served = append(served, r)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c.keys)) {
		if c.keys[key] && !found[key] {
			missing = append(missing, key)
		}
	}
	return served, missing, nil
}

// Optional returns the resources that are not served by default.
func Optional(resources []*Resource) []*Resource {
	return slices.DeleteFunc(slices.Clone(resources), func(r *Resource) bool { return !r.Optional })
}

// enablement is the parsed setting --runtime-config.
type enablement struct {
	// stages are the values of api/all, api/ga, api/beta and api/alpha.
	stages map[string]bool
	// keys are the values of versions and resources.
	keys map[string]bool
}

// Stages of versions in --runtime-config.
const allStages, ga, beta, alpha = "api/all", "api/ga", "api/beta", "api/alpha"

var (
	betaVersion  = regexp.MustCompile(`^v\d+beta\d+$`)
	alphaVersion = regexp.MustCompile(`^v\d+alpha\d+$`)
)

// stage returns the stage of a version.
func stage(version string) string {
	switch {
	case betaVersion.MatchString(version):
		return beta
	case alphaVersion.MatchString(version):
		return alpha
	}
	return ga
}

// serves reports whether a resource is served. gv is its version as in keys.
func (c *enablement) serves(r *Resource, gv string) bool {
	served := !r.Optional
	for _, stage := range []string{allStages, stage(r.Version)} {
		if value, ok := c.stages[stage]; ok {
			served = value
		}
	}
	for _, key := range []string{gv, gv + "/" + r.Plural} {
		if value, ok := c.keys[key]; ok {
			served = value
		}
	}
	return served
}

func parseEnablement(config map[string]string) (*enablement, error) {
	if config[allStages] == "false" && len(config) == 1 {
		return nil, fmt.Errorf("invalid runtime-config with only %s=false", allStages)
	}
	c := &enablement{stages: map[string]bool{}, keys: map[string]bool{}}
	var unknown []string
	for _, key := range slices.Sorted(maps.Keys(config)) {
		value := config[key]
		// Older names of the core group.
		if name := strings.TrimPrefix(key, "api/"); name == "v1" || strings.HasPrefix(name, "v1/") {
			key = "/v1"
		}
		switch key {
		case "api/legacy":
			continue
		case allStages, ga, beta, alpha:
			if value != "true" && value != "false" {
				return nil, fmt.Errorf("invalid value %s=%s", key, value)
			}
			c.stages[key] = value == "true"
			continue
		}
		parts := strings.Split(key, "/")
		if len(parts) != 2 && len(parts) != 3 {
			return nil, fmt.Errorf("runtime-config invalid key %s", key)
		}
		gv := runtimeschema.GroupVersion{Group: parts[0], Version: parts[1]}
		switch exists, registered := registeredVersion(gv); {
		case !exists:
			unknown = append(unknown, gv.String())
			continue
		case !registered:
			return nil, fmt.Errorf("group version %s that has not been registered", gv)
		}
		if len(parts) == 3 && strings.ToLower(parts[2]) != parts[2] {
			return nil, fmt.Errorf("invalid key %s: group/version/resource and resource is always lowercase plural, not %q", key, parts[2])
		}
		enabled := value == ""
		if !enabled {
			var err error
			if enabled, err = strconv.ParseBool(value); err != nil {
				return nil, fmt.Errorf("invalid value of %s: %s, err: %w", key, value, err)
			}
		}
		c.keys[key] = enabled
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("unknown api groups %s", strings.Join(unknown, ","))
	}
	return c, nil
}

// registeredVersion reports whether Kubernetes has a group, and this version of it. Versions that
// it no longer serves are registered, too.
func registeredVersion(gv runtimeschema.GroupVersion) (group, version bool) {
	switch gv.Group {
	case apiregistrationv1.GroupName, api.GroupName:
		return true, gv.Version == "v1" || gv.Version == "v1beta1"
	}
	return upstream.Scheme().IsGroupRegistered(gv.Group), upstream.Scheme().IsVersionRegistered(gv)
}

package lookup

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/analysis"
	"espalier.dev/kinds/releases"
)

// RuleRelease is the rule of findings about what a release of Kubernetes does not have.
const RuleRelease = "kubernetes-version"

// ReleaseRules returns the rules of findings about releases of Kubernetes.
func ReleaseRules() []analysis.Rule {
	return []analysis.Rule{{ID: RuleRelease, Severity: analysis.Error,
		Summary: "The release of Kubernetes does not serve the version of the kind, or does not have a feature of the CRD.",
		Help:    "Use a version that it serves. The findings name it, and the release that has added or removed what is used."}}
}

// AtRelease returns the findings about the version of an object if a release of Kubernetes does not
// serve it, or warns of it. served is false if the release rejects the object. Kinds that are not
// Kubernetes' own have no findings.
func AtRelease(apiVersion, kind string, r releases.Release) (findings []analysis.Finding, served bool) {
	k := releases.Find(schema.FromAPIVersionAndKind(apiVersion, kind))
	if k == nil {
		return nil, true
	}
	f := analysis.Finding{Rule: RuleRelease, Severity: analysis.Error, Path: "apiVersion", Pointer: "/apiVersion"}
	switch k.In(r) {
	case releases.Future:
		f.Message = fmt.Sprintf("Kubernetes %s does not serve %s %s, which was added in %s", r, apiVersion, kind, k.From) + use(k, r, ": ")
	case releases.Removed:
		f.Message = fmt.Sprintf("Kubernetes %s does not serve %s %s, which was removed in %s", r, apiVersion, kind, k.To+1) + use(k, r, ": ")
	case releases.Optional:
		f.Severity = analysis.Warning
		f.Message = fmt.Sprintf("Kubernetes %s does not serve %s %s by default: enable it with --runtime-config=%s=true",
			r, apiVersion, kind, apiVersion) + use(k, r, ", or ")
		return []analysis.Finding{f}, true
	default:
		if f.Message = k.Warning(r); f.Message == "" {
			return nil, true
		}
		f.Rule, f.Severity = "server-warning", analysis.Warning
		return []analysis.Finding{f}, true
	}
	return []analysis.Finding{f}, false
}

// use says what to use instead of a kind, after a separator, or nothing if there is no such kind.
func use(k *releases.Kind, r releases.Release, separator string) string {
	other := k.Instead(r)
	if other == nil || k.In(r) == releases.Optional && other.In(r) == releases.Optional {
		return ""
	}
	text := fmt.Sprintf("%suse %s", separator, other.GroupVersion())
	if other.Kind != k.Kind {
		text += " " + other.Kind
	}
	if other.In(r) == releases.Optional {
		text += ", which is not served by default"
	}
	return text
}

package networking

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	v1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"espalier.dev/kinds/rules"
)

// classAnnotation is the name of an ingress class, from the time before ingresses had a field for
// it.
const classAnnotation = "kubernetes.io/ingress.class"

func validateIngress(obj, old *v1.Ingress) (errs field.ErrorList) {
	meta, path := field.NewPath("metadata"), field.NewPath("spec")
	secrets, wildcards := false, false
	if old != nil {
		errs = rules.ObjectMetaUpdate(&obj.ObjectMeta, &old.ObjectMeta, meta)
		secrets = slices.ContainsFunc(old.Spec.TLS, func(t v1.IngressTLS) bool { return len(validateSecretName(t.SecretName, nil)) > 0 })
		wildcards = slices.ContainsFunc(old.Spec.Rules, func(r v1.IngressRule) bool {
			return strings.Contains(r.Host, "*") && len(validateHTTP(r.HTTP, false, nil)) > 0
		})
	}
	errs = append(errs, rules.ObjectMeta(&obj.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, meta)...)
	if len(obj.Spec.Rules) == 0 && obj.Spec.DefaultBackend == nil {
		errs = append(errs, field.Invalid(path, obj.Spec.Rules, "either `defaultBackend` or `rules` must be specified"))
	}
	if obj.Spec.DefaultBackend != nil {
		errs = append(errs, validateBackend(*obj.Spec.DefaultBackend, true, path.Child("defaultBackend"))...)
	}
	for i, r := range obj.Spec.Rules {
		errs = append(errs, validateIngressRule(r, wildcards, path.Child("rules").Index(i))...)
	}
	for i, t := range obj.Spec.TLS {
		path := path.Child("tls").Index(i)
		for j, host := range t.Hosts {
			errs = append(errs, validateHost(host, path.Child("hosts").Index(j))...)
		}
		if !secrets {
			errs = append(errs, validateSecretName(t.SecretName, path.Child("secretName"))...)
		}
	}
	class := obj.Spec.IngressClassName
	if class != nil {
		errs = append(errs, rules.Subdomain(*class, path.Child("ingressClassName"))...)
	}
	if value, ok := obj.Annotations[classAnnotation]; ok && old == nil && class != nil && value != *class {
		errs = append(errs, field.Invalid(field.NewPath("annotations").Child(classAnnotation), value,
			"must match `ingressClassName` when both are specified"))
	}
	return errs
}

func validateSecretName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return nil
	}
	return rules.Subdomain(name, path)
}

func validateHost(host string, path *field.Path) field.ErrorList {
	if strings.Contains(host, "*") {
		return rules.Invalid(host, path, validation.IsWildcardDNS1123Subdomain(host))
	}
	return rules.Subdomain(host, path)
}

// validateIngressRule checks a rule. wildcards tolerates errors in rules with wildcard hosts.
func validateIngressRule(r v1.IngressRule, wildcards bool, path *field.Path) (errs field.ErrorList) {
	if r.Host != "" {
		if netutils.ParseIPSloppy(r.Host) != nil {
			errs = append(errs, field.Invalid(path.Child("host"), r.Host, "must be a DNS name, not an IP address"))
		}
		errs = append(errs, validateHost(r.Host, path.Child("host"))...)
	}
	if wildcards && strings.Contains(r.Host, "*") {
		return errs
	}
	return append(errs, validateHTTP(r.HTTP, true, path)...)
}

// validateHTTP checks the paths of a rule. relaxed allows names of services that begin with a
// digit.
func validateHTTP(http *v1.HTTPIngressRuleValue, relaxed bool, path *field.Path) (errs field.ErrorList) {
	if http == nil {
		return nil
	}
	paths := path.Child("http", "paths")
	if len(http.Paths) == 0 {
		errs = append(errs, field.Required(paths, ""))
	}
	for i, p := range http.Paths {
		path := paths.Index(i)
		if p.PathType == nil {
			errs = append(errs, field.Required(path.Child("pathType"), "pathType must be specified"))
			continue
		}
		errs = append(errs, validatePath(p, path)...)
		errs = append(errs, validateBackend(p.Backend, relaxed, path.Child("backend"))...)
	}
	return errs
}

func validatePath(p v1.HTTPIngressPath, path *field.Path) (errs field.ErrorList) {
	invalid := func(detail string) { errs = append(errs, field.Invalid(path.Child("path"), p.Path, detail)) }
	switch *p.PathType {
	case v1.PathTypeExact, v1.PathTypePrefix:
		if !strings.HasPrefix(p.Path, "/") {
			invalid("must be an absolute path")
		}
		for _, s := range []string{"//", "/./", "/../", "%2f", "%2F"} {
			if strings.Contains(p.Path, s) {
				invalid(fmt.Sprintf("must not contain '%s'", s))
			}
		}
		for _, s := range []string{"/..", "/."} {
			if strings.HasSuffix(p.Path, s) {
				invalid(fmt.Sprintf("cannot end with '%s'", s))
			}
		}
	case v1.PathTypeImplementationSpecific:
		if p.Path != "" && !strings.HasPrefix(p.Path, "/") {
			invalid("must be an absolute path")
		}
	default:
		return rules.Enum(*p.PathType, path.Child("pathType"), v1.PathTypeExact, v1.PathTypeImplementationSpecific, v1.PathTypePrefix)
	}
	return errs
}

func validateBackend(b v1.IngressBackend, relaxed bool, path *field.Path) (errs field.ErrorList) {
	switch {
	case b.Resource != nil && b.Service != nil:
		return field.ErrorList{field.Invalid(path, "", "cannot set both resource and service backends")}
	case b.Resource != nil:
		return validateTypedReference(b.Resource, path.Child("resource"))
	case b.Service == nil:
		return field.ErrorList{field.Invalid(path, "", "resource or service backend is required")}
	}
	name := apivalidation.NameIsDNS1035Label
	if relaxed {
		name = apivalidation.NameIsDNSLabel
	}
	if b.Service.Name == "" {
		errs = append(errs, field.Required(path.Child("service", "name"), ""))
	} else {
		errs = append(errs, rules.Invalid(b.Service.Name, path.Child("service", "name"), name(b.Service.Name, false))...)
	}
	port := b.Service.Port
	switch {
	case port.Name != "" && port.Number != 0:
		errs = append(errs, field.Invalid(path, "", "cannot set both port name & port number"))
	case port.Name != "":
		errs = append(errs, rules.Invalid(port.Name, path.Child("service", "port", "name"), validation.IsValidPortName(port.Name))...)
	case port.Number != 0:
		errs = append(errs, rules.Port(port.Number, path.Child("service", "port", "number"))...)
	default:
		errs = append(errs, field.Required(path, "port name or number is required"))
	}
	return errs
}

func validateTypedReference(ref *corev1.TypedLocalObjectReference, path *field.Path) (errs field.ErrorList) {
	if ref.APIGroup != nil {
		errs = rules.Subdomain(*ref.APIGroup, path.Child("apiGroup"))
	}
	errs = append(errs, requiredSegment(ref.Kind, path.Child("kind"))...)
	return append(errs, requiredSegment(ref.Name, path.Child("name"))...)
}

// requiredSegment checks a name that must not be empty and can be a segment of a URL path.
func requiredSegment(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return rules.Invalid(name, path, content.IsPathSegmentName(name))
}

func ingressWarnings(obj, old *v1.Ingress) []string {
	if _, ok := obj.Annotations[classAnnotation]; ok && old == nil && obj.Spec.IngressClassName == nil {
		return []string{fmt.Sprintf("annotation %q is deprecated, please use 'spec.ingressClassName' instead", classAnnotation)}
	}
	return nil
}

func validateIngressStatus(obj, old *v1.Ingress) field.ErrorList {
	errs := rules.ObjectMetaUpdate(&obj.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	var existing []string
	for _, in := range old.Status.LoadBalancer.Ingress {
		if in.IP != "" {
			existing = append(existing, in.IP)
		}
	}
	for i, in := range obj.Status.LoadBalancer.Ingress {
		path := field.NewPath("status", "loadBalancer", "ingress").Index(i)
		if in.IP != "" {
			errs = append(errs, rules.IP(in.IP, path.Child("ip"), existing)...)
		}
		if in.Hostname != "" {
			errs = append(errs, rules.Subdomain(in.Hostname, path.Child("hostname"))...)
			if netutils.ParseIPSloppy(in.Hostname) != nil {
				errs = append(errs, field.Invalid(path.Child("hostname"), in.Hostname, "must be a DNS name, not an IP address"))
			}
		}
	}
	return errs
}

func ingressStatusWarnings(obj, _ *v1.Ingress) (warnings []string) {
	for i, in := range obj.Status.LoadBalancer.Ingress {
		if in.IP != "" {
			warnings = append(warnings, validation.GetWarningsForIP(field.NewPath("status", "loadBalancer", "ingress").Index(i), in.IP)...)
		}
	}
	return warnings
}

func defaultIngressClass(c *v1.IngressClass) {
	if c.Spec.Parameters != nil {
		rules.SetDefaultPointer(&c.Spec.Parameters.Scope, v1.IngressClassParametersReferenceScopeCluster)
	}
}

func validateIngressClass(obj, old *v1.IngressClass) (errs field.ErrorList) {
	const longest = 250
	path := field.NewPath("spec")
	if old != nil {
		errs = rules.ObjectMetaUpdate(&obj.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
		errs = append(errs, rules.Immutable(obj.Spec.Controller, old.Spec.Controller, path.Child("controller"))...)
	}
	errs = append(errs, rules.ObjectMeta(&obj.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))...)
	if len(obj.Spec.Controller) > longest {
		errs = append(errs, field.TooLong(path.Child("controller"), "", longest))
	}
	errs = append(errs, validation.IsDomainPrefixedPath(path.Child("controller"), obj.Spec.Controller)...)
	if obj.Spec.Parameters != nil {
		errs = append(errs, validateParameters(*obj.Spec.Parameters, path.Child("parameters"))...)
	}
	return errs
}

func validateParameters(p v1.IngressClassParametersReference, path *field.Path) field.ErrorList {
	errs := validateTypedReference(&corev1.TypedLocalObjectReference{APIGroup: p.APIGroup, Kind: p.Kind, Name: p.Name}, path)
	if p.Scope == nil {
		return append(errs, field.Required(path.Child("scope"), ""))
	}
	switch *p.Scope {
	case v1.IngressClassParametersReferenceScopeNamespace:
		if p.Namespace == nil {
			return append(errs, field.Required(path.Child("namespace"), "`parameters.scope` is set to 'Namespace'"))
		}
		return append(errs, rules.Label(*p.Namespace, path.Child("namespace"))...)
	case v1.IngressClassParametersReferenceScopeCluster:
		if p.Namespace != nil {
			errs = append(errs, field.Forbidden(path.Child("namespace"), "`parameters.scope` is set to 'Cluster'"))
		}
		return errs
	}
	return append(errs, rules.Enum(*p.Scope, path.Child("scope"),
		v1.IngressClassParametersReferenceScopeCluster, v1.IngressClassParametersReferenceScopeNamespace)...)
}

package pods

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/node/util/sysctl"

	"espalier.dev/kinds/rules"
)

func isPrivileged(security *corev1.SecurityContext) bool {
	return security != nil && security.Privileged != nil && *security.Privileged
}

// checkPodSecurity validates the security context of the pod. Privileged containers are allowed.
func (c *checker) checkPodSecurity(path *field.Path) {
	security := c.spec.SecurityContext
	if security == nil {
		return
	}
	c.checkID(security.FSGroup, validation.IsValidGroupID, path.Child("fsGroup"))
	c.checkID(security.RunAsUser, validation.IsValidUserID, path.Child("runAsUser"))
	c.checkID(security.RunAsGroup, validation.IsValidGroupID, path.Child("runAsGroup"))
	for i := range security.SupplementalGroups {
		c.checkID(&security.SupplementalGroups[i], validation.IsValidGroupID, path.Child("supplementalGroups").Index(i))
	}
	if share := c.spec.ShareProcessNamespace; share != nil && *share && c.spec.HostPID {
		c.add(field.Invalid(path.Child("shareProcessNamespace"), *share, "ShareProcessNamespace and HostPID cannot both be enabled"))
	}
	c.checkSysctls(path.Child("sysctls"))
	if policy := security.FSGroupChangePolicy; policy != nil {
		c.add(rules.Enum(*policy, path.Child("fsGroupChangePolicy"), corev1.FSGroupChangeAlways, corev1.FSGroupChangeOnRootMismatch)...)
	}
	c.checkSeccomp(security.SeccompProfile, path.Child("seccompProfile"))
	c.checkWindowsOptions(security.WindowsOptions, path.Child("windowsOptions"))
	c.add(validateAppArmor(security.AppArmorProfile, path.Child("appArmorProfile"))...)
	if policy := security.SupplementalGroupsPolicy; policy != nil {
		c.add(rules.Enum(*policy, path.Child("supplementalGroupsPolicy"),
			corev1.SupplementalGroupsPolicyMerge, corev1.SupplementalGroupsPolicyStrict)...)
	}
	if policy := security.SELinuxChangePolicy; policy != nil {
		supported := []corev1.PodSELinuxChangePolicy{corev1.SELinuxChangePolicyRecursive}
		if c.seLinuxPolicies {
			supported = []corev1.PodSELinuxChangePolicy{corev1.SELinuxChangePolicyMountOption, corev1.SELinuxChangePolicyRecursive}
		}
		c.add(rules.Enum(*policy, path.Child("seLinuxChangePolicy"), supported...)...)
	}
}

func (c *checker) checkID(id *int64, validate func(int64) []string, path *field.Path) {
	if id != nil {
		c.add(rules.Invalid(*id, path, validate(*id))...)
	}
}

// checkSecurity validates the security context of a container.
func (c *checker) checkSecurity(security *corev1.SecurityContext, path *field.Path) {
	if security == nil {
		return
	}
	c.checkID(security.RunAsUser, validation.IsValidUserID, path.Child("runAsUser"))
	c.checkID(security.RunAsGroup, validation.IsValidGroupID, path.Child("runAsGroup"))
	if mount := security.ProcMount; mount != nil {
		c.add(rules.Enum(*mount, path.Child("procMount"), corev1.DefaultProcMount, corev1.UnmaskedProcMount)...)
		if *mount == corev1.UnmaskedProcMount && !hasUserNamespace(c.spec) {
			c.add(field.Invalid(path.Child("procMount"), mount, "`hostUsers` must be false to use `Unmasked`"))
		}
	}
	c.checkSeccomp(security.SeccompProfile, path.Child("seccompProfile"))
	if escalation := security.AllowPrivilegeEscalation; escalation != nil && !*escalation {
		if isPrivileged(security) {
			c.add(field.Invalid(path, rules.Internal(security), "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"))
		}
		if security.Capabilities != nil {
			for _, capability := range security.Capabilities.Add {
				if capability == "CAP_SYS_ADMIN" {
					c.add(field.Invalid(path, rules.Internal(security),
						"cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"))
				}
			}
		}
	}
	c.checkWindowsOptions(security.WindowsOptions, path.Child("windowsOptions"))
	c.add(validateAppArmor(security.AppArmorProfile, path.Child("appArmorProfile"))...)
}

func (c *checker) checkSeccomp(profile *corev1.SeccompProfile, path *field.Path) {
	if profile == nil {
		return
	}
	if profile.Type == "" {
		c.add(field.Required(path.Child("type"), "type is required when seccompProfile is set"))
	} else {
		c.add(rules.Enum(profile.Type, path.Child("type"),
			corev1.SeccompProfileTypeLocalhost, corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined)...)
	}
	file, at := profile.LocalhostProfile, path.Child("localhostProfile")
	switch local := profile.Type == corev1.SeccompProfileTypeLocalhost; {
	case local && file == nil:
		c.add(field.Required(at, "must be set when seccomp type is Localhost"))
	case local:
		c.add(rules.RelativePath(*file, at)...)
	case file != nil:
		c.add(field.Invalid(at, rules.Internal(profile), "can only be set when seccomp type is Localhost"))
	}
}

func validateAppArmor(profile *corev1.AppArmorProfile, path *field.Path) (errs field.ErrorList) {
	const (
		maxLength = 4095
		required  = "must be set when AppArmor type is Localhost"
	)
	if profile == nil {
		return nil
	}
	name, at := profile.LocalhostProfile, path.Child("localhostProfile")
	switch profile.Type {
	case corev1.AppArmorProfileTypeLocalhost:
		switch {
		case name == nil:
			return field.ErrorList{field.Required(at, required)}
		case strings.TrimSpace(*name) != *name:
			errs = append(errs, field.Invalid(at, *name, "must not be padded with whitespace"))
		case *name == "":
			errs = append(errs, field.Required(at, required))
		}
		if len(*name) > maxLength {
			errs = append(errs, field.TooLong(at, "", maxLength))
		}
	case corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined:
		if name != nil {
			errs = append(errs, field.Invalid(at, name, "can only be set when AppArmor type is Localhost"))
		}
	case "":
		errs = append(errs, field.Required(path.Child("type"), "type is required when appArmorProfile is set"))
	default:
		errs = append(errs, rules.Enum(profile.Type, path.Child("type"),
			corev1.AppArmorProfileTypeLocalhost, corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined)...)
	}
	return errs
}

const maxSysctl = 253

var sysctlName = sync.OnceValue(func() *regexp.Regexp {
	const segment = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
	return regexp.MustCompile("^(" + segment + "[\\./])*" + segment + "$")
})

func (c *checker) checkSysctls(path *field.Path) {
	seen := sets.New[string]()
	for i, s := range c.spec.SecurityContext.Sysctls {
		at := path.Index(i).Child("name")
		switch {
		case s.Name == "":
			c.add(field.Required(at, ""))
		case len(s.Name) > maxSysctl || !sysctlName().MatchString(s.Name):
			c.add(field.Invalid(at, s.Name, fmt.Sprintf("must have at most %d characters and match regex %s", maxSysctl, sysctlName())))
		case seen.Has(s.Name):
			c.add(field.Duplicate(at, s.Name))
		}
		if !c.hostSysctls {
			c.add(hostSysctl(s.Name, c.spec, at)...)
		}
		seen.Insert(s.Name)
	}
}

// hostSysctl rejects a sysctl that would change the host, because the pod shares the namespace.
func hostSysctl(name string, spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	switch namespace, _, _ := sysctl.GetNamespace(name); {
	case spec.HostNetwork && namespace == sysctl.NetNamespace:
		return field.ErrorList{field.Invalid(path, name, "may not be specified when 'hostNetwork' is true")}
	case spec.HostIPC && namespace == sysctl.IPCNamespace:
		return field.ErrorList{field.Invalid(path, name, "may not be specified when 'hostIPC' is true")}
	}
	return nil
}

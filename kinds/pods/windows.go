package pods

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/rules"
)

func isWindows(spec *corev1.PodSpec) bool {
	return spec.OS != nil && spec.OS.Name == corev1.Windows
}

// windowsNames are the regular expressions of names of Windows users.
var windowsNames = sync.OnceValue(func() (r struct{ control, netBIOS, domain, special, dots *regexp.Regexp }) {
	const label = `[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?`
	r.control = regexp.MustCompile(`[[:cntrl:]]+`)
	r.netBIOS = regexp.MustCompile(`^[^\\/:\*\?"<>|\.][^\\/:\*\?"<>|]{0,14}$`)
	r.domain = regexp.MustCompile(`^` + label + `(?:\.` + label + `)*$`)
	r.special = regexp.MustCompile(`["/\\:;|=,\+\*\?<>@\[\]]`)
	r.dots = regexp.MustCompile(`^[\. ]+$`)
	return r
})

func (c *checker) checkWindowsOptions(options *corev1.WindowsSecurityContextOptions, path *field.Path) {
	const maxSpecKiB = 64
	if options == nil {
		return
	}
	if name := options.GMSACredentialSpecName; name != nil {
		c.add(rules.Invalid(name, path.Child("gmsaCredentialSpecName"), validation.IsDNS1123Subdomain(*name))...)
	}
	if spec := options.GMSACredentialSpec; spec != nil {
		at := path.Child("gmsaCredentialSpec")
		if *spec == "" {
			c.add(field.Invalid(at, spec, "gmsaCredentialSpec cannot be an empty string"))
		} else if len(*spec) > maxSpecKiB*1024 {
			c.add(field.Invalid(at, spec, fmt.Sprintf("gmsaCredentialSpec size must be under %d KiB", maxSpecKiB)))
		}
	}
	if name := options.RunAsUserName; name != nil {
		for _, message := range windowsUserName(*name) {
			c.add(field.Invalid(path.Child("runAsUserName"), name, message))
		}
	}
}

// windowsUserName returns what is wrong with the name of a user, which may have a domain.
func windowsUserName(name string) (messages []string) {
	const (
		maxDomain = 256
		maxUser   = 104
	)
	domain, user, hasDomain := strings.Cut(name, `\`)
	switch {
	case name == "":
		return []string{"runAsUserName cannot be an empty string"}
	case windowsNames().control.MatchString(name):
		return []string{"runAsUserName cannot contain control characters"}
	case strings.Contains(user, `\`):
		return []string{"runAsUserName cannot contain more than one backslash"}
	case !hasDomain:
		domain, user = "", name
	}
	if len(domain) >= maxDomain {
		messages = append(messages, fmt.Sprintf("runAsUserName's Domain length must be under %d characters", maxDomain))
	}
	if hasDomain && !windowsNames().netBIOS.MatchString(domain) && !windowsNames().domain.MatchString(domain) {
		messages = append(messages, "runAsUserName's Domain doesn't match the NetBios nor the DNS format")
	}
	if user == "" {
		messages = append(messages, "runAsUserName's User cannot be empty")
	} else if len(user) > maxUser {
		messages = append(messages, fmt.Sprintf("runAsUserName's User length must not be longer than %d characters", maxUser))
	}
	if windowsNames().dots.MatchString(user) {
		messages = append(messages, `runAsUserName's User cannot contain only periods or spaces`)
	}
	if windowsNames().special.MatchString(user) {
		messages = append(messages, `runAsUserName's User cannot contain the following characters: "/\:;|=,+*?<>@[]`)
	}
	return messages
}

// checkHostProcesses validates pods with processes of a Windows host: all containers have to be
// such processes.
func (c *checker) checkHostProcesses(path *field.Path) {
	var ofPod *bool
	if security := c.spec.SecurityContext; security != nil && security.WindowsOptions != nil {
		ofPod = security.WindowsOptions.HostProcess
	}
	total, processes := 0, 0
	for at, container := range containers(c.spec, path) {
		total++
		process := ofPod
		if security := container.SecurityContext; security != nil &&
			security.WindowsOptions != nil && security.WindowsOptions.HostProcess != nil {
			process = security.WindowsOptions.HostProcess
			if ofPod != nil && *ofPod != *process {
				c.add(field.Invalid(at.Child("securityContext", "windowsOptions", "hostProcess"), *process,
					fmt.Sprintf("pod hostProcess value must be identical if both are specified, was %v", *ofPod)))
			}
		}
		if process != nil && *process {
			processes++
		}
	}
	if processes == 0 {
		return
	}
	if processes != total {
		c.add(field.Invalid(path, "", "If pod contains any hostProcess containers then all containers must be HostProcess containers"))
	}
	if !c.spec.HostNetwork {
		c.add(field.Invalid(path.Child("hostNetwork"), false, "hostNetwork must be true if pod contains any hostProcess containers"))
	}
}

// checkOS rejects fields of another operating system than that of the pod.
func (c *checker) checkOS(path *field.Path) {
	if c.spec.OS == nil {
		return
	}
	switch c.spec.OS.Name {
	case "":
		c.add(field.Required(path.Child("os", "name"), ""))
	case corev1.Linux:
		c.checkLinux(path)
	case corev1.Windows:
		c.checkWindows(path)
	default:
		c.add(rules.Enum(c.spec.OS.Name, path.Child("os"), corev1.Linux, corev1.Windows)...)
	}
}

func (c *checker) checkLinux(path *field.Path) {
	const detail = "windows options cannot be set for a linux pod"
	if security := c.spec.SecurityContext; security != nil && security.WindowsOptions != nil {
		c.add(field.Forbidden(path.Child("securityContext", "windowsOptions"), detail))
	}
	for at, container := range containers(c.spec, path) {
		if security := container.SecurityContext; security != nil && security.WindowsOptions != nil {
			c.add(field.Forbidden(at.Child("securityContext", "windowsOptions"), detail))
		}
	}
}

func (c *checker) checkWindows(path *field.Path) {
	forbid := func(set bool, at *field.Path) {
		if set {
			c.add(field.Forbidden(at, "cannot be set for a windows pod"))
		}
	}
	if s, at := c.spec.SecurityContext, path.Child("securityContext"); s != nil {
		forbid(s.AppArmorProfile != nil, at.Child("appArmorProfile"))
		forbid(s.SELinuxOptions != nil, at.Child("seLinuxOptions"))
		forbid(c.spec.HostUsers != nil, path.Child("hostUsers"))
		forbid(c.spec.HostPID, path.Child("hostPID"))
		forbid(c.spec.HostIPC, path.Child("hostIPC"))
		forbid(s.SeccompProfile != nil, at.Child("seccompProfile"))
		forbid(s.FSGroup != nil, at.Child("fsGroup"))
		forbid(s.FSGroupChangePolicy != nil, at.Child("fsGroupChangePolicy"))
		forbid(len(s.Sysctls) > 0, at.Child("sysctls"))
		forbid(c.spec.ShareProcessNamespace != nil, path.Child("shareProcessNamespace"))
		forbid(s.RunAsUser != nil, at.Child("runAsUser"))
		forbid(s.RunAsGroup != nil, at.Child("runAsGroup"))
		forbid(s.SupplementalGroups != nil, at.Child("supplementalGroups"))
		forbid(s.SupplementalGroupsPolicy != nil, at.Child("supplementalGroupsPolicy"))
		forbid(s.SELinuxChangePolicy != nil, at.Child("seLinuxChangePolicy"))
	}
	for containerPath, container := range containers(c.spec, path) {
		s, at := container.SecurityContext, containerPath.Child("securityContext")
		if s == nil {
			continue
		}
		forbid(s.AppArmorProfile != nil, at.Child("appArmorProfile"))
		forbid(s.SELinuxOptions != nil, at.Child("seLinuxOptions"))
		forbid(s.SeccompProfile != nil, at.Child("seccompProfile"))
		forbid(s.Capabilities != nil, at.Child("capabilities"))
		forbid(s.ReadOnlyRootFilesystem != nil, at.Child("readOnlyRootFilesystem"))
		forbid(s.Privileged != nil, at.Child("privileged"))
		forbid(s.AllowPrivilegeEscalation != nil, at.Child("allowPrivilegeEscalation"))
		forbid(s.ProcMount != nil, at.Child("procMount"))
		forbid(s.RunAsUser != nil, at.Child("runAsUser"))
		forbid(s.RunAsGroup != nil, at.Child("runAsGroup"))
	}
}

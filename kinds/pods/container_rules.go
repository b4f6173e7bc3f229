package pods

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/rules"
)

func (c *checker) checkContainers(path *field.Path) {
	if len(c.spec.Containers) == 0 {
		c.add(field.Required(path, ""))
		return
	}
	names := sets.New[string]()
	for i := range c.spec.Containers {
		container, at := &c.spec.Containers[i], path.Index(i)
		c.checkContainer(container, at)
		if names.Has(container.Name) {
			c.add(field.Duplicate(at.Child("name"), container.Name))
		}
		names.Insert(container.Name)
		c.checkHooks(container, at)
		c.checkRestartPolicy(container, false, at)
	}
	c.checkHostPortConflicts(c.spec.Containers, path)
}

func (c *checker) checkInitContainers(path *field.Path) {
	names := sets.New[string]()
	for _, container := range c.spec.Containers {
		names.Insert(container.Name)
	}
	for i := range c.spec.InitContainers {
		container, at := &c.spec.InitContainers[i], path.Index(i)
		c.checkContainer(container, at)
		c.checkRestartPolicy(container, true, at)
		if names.Has(container.Name) {
			c.add(field.Duplicate(at.Child("name"), container.Name))
		} else if container.Name != "" {
			names.Insert(container.Name)
		}
		c.checkHostPortConflicts([]corev1.Container{*container}, path)
		if isSidecar(container) {
			c.checkHooks(container, at)
			continue
		}
		hooks := []struct {
			name string
			set  bool
		}{
			{"lifecycle", container.Lifecycle != nil},
			{"livenessProbe", container.LivenessProbe != nil},
			{"readinessProbe", container.ReadinessProbe != nil},
			{"startupProbe", container.StartupProbe != nil},
		}
		for _, hook := range hooks {
			if hook.set {
				c.add(field.Forbidden(at.Child(hook.name), "may not be set for init containers without restartPolicy=Always"))
			}
		}
		for j, policy := range container.ResizePolicy {
			if policy.RestartPolicy == corev1.RestartContainer && !c.initRestarts {
				c.add(field.Invalid(at.Child("resizePolicy").Index(j).Child("restartPolicy"), policy.RestartPolicy,
					"must not be set to 'RestartContainer' for non-sidecar initContainers"))
			}
		}
	}
}

// ephemeralFields are the fields of containers that ephemeral containers have too.
var ephemeralFields = sets.New("Name", "Image", "Command", "Args", "WorkingDir", "EnvFrom", "Env", "VolumeMounts", "VolumeDevices",
	"TerminationMessagePath", "TerminationMessagePolicy", "ImagePullPolicy", "SecurityContext", "Stdin", "StdinOnce", "TTY")

func (c *checker) checkEphemeralContainers(path *field.Path) {
	const detail = "cannot be set for an Ephemeral Container"
	others, names := sets.New[string](), sets.New[string]()
	for _, list := range [][]corev1.Container{c.spec.Containers, c.spec.InitContainers} {
		for _, container := range list {
			others.Insert(container.Name)
			names.Insert(container.Name)
		}
	}
	for i := range c.spec.EphemeralContainers {
		ephemeral, at := &c.spec.EphemeralContainers[i], path.Index(i)
		c.checkContainer(common(ephemeral), at)
		c.add(trimmedImage(ephemeral.Image, at)...)
		if names.Has(ephemeral.Name) {
			c.add(field.Duplicate(at.Child("name"), ephemeral.Name))
		}
		names.Insert(ephemeral.Name)
		if target := ephemeral.TargetContainerName; target != "" && !others.Has(target) {
			c.add(field.NotFound(at.Child("targetContainerName"), target))
		}
		c.add(rules.OnlyFields(ephemeral.EphemeralContainerCommon, ephemeralFields, detail, at)...)
		for j, mount := range ephemeral.VolumeMounts {
			mountPath := at.Child("volumeMounts").Index(j)
			if mount.SubPath != "" {
				c.add(field.Forbidden(mountPath.Child("subPath"), detail))
			}
			if mount.SubPathExpr != "" {
				c.add(field.Forbidden(mountPath.Child("subPathExpr"), detail))
			}
		}
	}
}

func trimmedImage(image string, path *field.Path) field.ErrorList {
	if strings.TrimSpace(image) != image {
		return field.ErrorList{field.Invalid(path.Child("image"), image, "must not have leading or trailing whitespace")}
	}
	return nil
}

// checkContainer validates what all containers have in common.
func (c *checker) checkContainer(container *corev1.Container, path *field.Path) {
	if container.Name == "" {
		c.add(field.Required(path.Child("name"), ""))
	} else {
		c.add(rules.Label(container.Name, path.Child("name"))...)
	}
	c.add(rules.Required(container.Image, path.Child("image"))...)
	c.add(rules.RequiredEnum(container.TerminationMessagePolicy, path.Child("terminationMessagePolicy"),
		corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)...)
	c.checkPorts(container.Ports, path.Child("ports"))
	c.checkEnv(container.Env, path.Child("env"))
	c.checkEnvFrom(container.EnvFrom, path.Child("envFrom"))
	c.checkMounts(container, path.Child("volumeMounts"))
	c.checkDevices(container, path.Child("volumeDevices"))
	c.add(validatePullPolicy(container.ImagePullPolicy, path.Child("imagePullPolicy"))...)
	c.checkResources(&container.Resources, rules.ContainerResourceName, c.claims, path.Child("resources"))
	c.checkResizePolicy(container.ResizePolicy, path.Child("resizePolicy"))
	c.checkSecurity(container.SecurityContext, path.Child("securityContext"))
}

func validatePullPolicy(policy corev1.PullPolicy, path *field.Path) field.ErrorList {
	return rules.RequiredEnum(policy, path, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
}

func (c *checker) checkPorts(ports []corev1.ContainerPort, path *field.Path) {
	names := sets.New[string]()
	for i, port := range ports {
		at := path.Index(i)
		if port.Name != "" {
			if invalid := rules.Invalid(port.Name, at.Child("name"), validation.IsValidPortName(port.Name)); len(invalid) > 0 {
				c.add(invalid...)
			} else if names.Has(port.Name) {
				c.add(field.Duplicate(at.Child("name"), port.Name))
			} else {
				names.Insert(port.Name)
			}
		}
		if port.ContainerPort == 0 {
			c.add(field.Required(at.Child("containerPort"), ""))
		} else {
			c.add(rules.Invalid(port.ContainerPort, at.Child("containerPort"), validation.IsValidPortNum(int(port.ContainerPort)))...)
		}
		if port.HostPort != 0 {
			c.add(rules.Invalid(port.HostPort, at.Child("hostPort"), validation.IsValidPortNum(int(port.HostPort)))...)
		}
		c.add(rules.RequiredEnum(port.Protocol, at.Child("protocol"), corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)...)
	}
}

func (c *checker) checkHostPortConflicts(list []corev1.Container, path *field.Path) {
	used := sets.New[string]()
	for i, container := range list {
		for j, port := range container.Ports {
			if port.HostPort == 0 {
				continue
			}
			key := fmt.Sprintf("%s/%s/%d", port.Protocol, port.HostIP, port.HostPort)
			if used.Has(key) {
				c.add(field.Duplicate(path.Index(i).Child("ports").Index(j).Child("hostPort"), key))
			}
			used.Insert(key)
		}
	}
}

func (c *checker) checkMounts(container *corev1.Container, path *field.Path) {
	devices := map[string]string{} // of several with the same name, the last one counts
	for _, device := range container.VolumeDevices {
		devices[device.Name] = device.DevicePath
	}
	used := sets.New[string]()
	for i, mount := range container.VolumeMounts {
		name, mountPath := path.Index(i).Child("name"), path.Index(i).Child("mountPath")
		c.add(rules.Required(mount.Name, name)...)
		if c.volumes[mount.Name] == nil {
			c.add(field.NotFound(name, mount.Name))
		}
		c.add(rules.Required(mount.MountPath, mountPath)...)
		if used.Has(mount.MountPath) {
			c.add(field.Invalid(mountPath, mount.MountPath, "must be unique"))
		}
		used.Insert(mount.MountPath)
		if _, ok := devices[mount.Name]; ok {
			c.add(field.Invalid(name, mount.Name, "must not already exist in volumeDevices"))
		}
		if hasValue(devices, mount.MountPath) {
			c.add(field.Invalid(mountPath, mount.MountPath, "must not already exist as a path in volumeDevices"))
		}
		if mount.SubPath != "" {
			c.add(rules.RelativePath(mount.SubPath, path.Child("subPath"))...)
		}
		if mount.SubPathExpr != "" {
			if mount.SubPath != "" {
				c.add(field.Invalid(path.Index(i).Child("subPathExpr"), mount.SubPathExpr,
					"subPathExpr and subPath are mutually exclusive"))
			}
			c.add(rules.RelativePath(mount.SubPathExpr, path.Child("subPathExpr"))...)
		}
		if mode := mount.MountPropagation; mode != nil {
			c.add(rules.Enum(*mode, path.Child("mountPropagation"),
				corev1.MountPropagationBidirectional, corev1.MountPropagationHostToContainer, corev1.MountPropagationNone)...)
			if *mode == corev1.MountPropagationBidirectional && !isPrivileged(container.SecurityContext) {
				c.add(field.Forbidden(path.Child("mountPropagation"),
					"Bidirectional mount propagation is available only to privileged containers"))
			}
		}
		c.checkRecursiveReadOnly(&mount, path.Child("recursiveReadOnly"))
	}
}

func hasValue(m map[string]string, value string) bool {
	for _, v := range m {
		if v == value {
			return true
		}
	}
	return false
}

func (c *checker) checkRecursiveReadOnly(mount *corev1.VolumeMount, path *field.Path) {
	if mount.RecursiveReadOnly == nil {
		return
	}
	switch mode := *mount.RecursiveReadOnly; mode {
	case corev1.RecursiveReadOnlyDisabled:
	case corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible:
		if !mount.ReadOnly {
			c.add(field.Forbidden(path, "may only be specified when readOnly is true"))
		}
		if mount.MountPropagation != nil && *mount.MountPropagation != corev1.MountPropagationNone {
			c.add(field.Forbidden(path, "may only be specified when mountPropagation is None or not specified"))
		}
	default:
		c.add(rules.Enum(mode, path, corev1.RecursiveReadOnlyDisabled,
			corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible)...)
	}
}

func (c *checker) checkDevices(container *corev1.Container, path *field.Path) {
	mounts := map[string]string{} // of several with the same name, the last one counts
	for _, mount := range container.VolumeMounts {
		mounts[mount.Name] = mount.MountPath
	}
	names, paths := sets.New[string](), sets.New[string]()
	for i, device := range container.VolumeDevices {
		name, devicePath := path.Index(i).Child("name"), path.Index(i).Child("devicePath")
		c.add(rules.Required(device.Name, name)...)
		if names.Has(device.Name) {
			c.add(field.Invalid(name, device.Name, "must be unique"))
		}
		switch volume := c.volumes[device.Name]; {
		case volume == nil:
			c.add(field.NotFound(name, device.Name))
		case volume.PersistentVolumeClaim == nil && volume.Ephemeral == nil:
			c.add(field.Invalid(name, device.Name, "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"))
		}
		c.add(rules.Required(device.DevicePath, devicePath)...)
		if paths.Has(device.DevicePath) {
			c.add(field.Invalid(devicePath, device.DevicePath, "must be unique"))
		}
		if len(rules.NoBacksteps(device.DevicePath, nil)) > 0 {
			c.add(field.Invalid(devicePath, device.DevicePath, "can not contain backsteps ('..')"))
		} else {
			paths.Insert(device.DevicePath)
		}
		if _, ok := mounts[device.Name]; ok {
			c.add(field.Invalid(name, device.Name, "must not already exist in volumeMounts"))
		}
		if hasValue(mounts, device.DevicePath) {
			c.add(field.Invalid(devicePath, device.DevicePath, "must not already exist as a path in volumeMounts"))
		}
		if device.Name != "" {
			names.Insert(device.Name)
		}
	}
}

func (c *checker) checkResizePolicy(policies []corev1.ContainerResizePolicy, path *field.Path) {
	seen := sets.New[corev1.ResourceName]()
	for i, policy := range policies {
		if seen.Has(policy.ResourceName) {
			c.add(field.Duplicate(path.Index(i), policy.ResourceName))
		}
		seen.Insert(policy.ResourceName)
		c.add(rules.RequiredEnum(policy.ResourceName, path, corev1.ResourceCPU, corev1.ResourceMemory)...)
		c.add(rules.RequiredEnum(policy.RestartPolicy, path, corev1.NotRequired, corev1.RestartContainer)...)
		if c.spec.RestartPolicy == corev1.RestartPolicyNever && policy.RestartPolicy != corev1.NotRequired {
			c.add(field.Invalid(path, policy.RestartPolicy, "must be 'NotRequired' when pod `restartPolicy` is 'Never'"))
		}
	}
}

// checkRestartPolicy validates the restart policy of a container that is different from that of
// the pod. The rules of init containers without a policy are not validated.
func (c *checker) checkRestartPolicy(container *corev1.Container, init bool, path *field.Path) {
	const (
		maxRules = 20
		maxCodes = 255
	)
	policy, list := container.RestartPolicy, container.RestartPolicyRules
	if policy == nil {
		if len(list) == 0 {
			return
		}
		c.add(field.Required(path.Child("restartPolicy"), "must specify restartPolicy when restart rules are used"))
		if init {
			return
		}
	} else {
		c.add(rules.Enum(*policy, path.Child("restartPolicy"),
			corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure)...)
	}
	if len(list) > maxRules {
		c.add(field.TooMany(path.Child("restartPolicyRules"), len(list), maxRules))
	}
	for i, rule := range list {
		at := path.Child("restartPolicyRules").Index(i)
		c.add(rules.Enum(rule.Action, at.Child("action"), corev1.ContainerRestartRuleActionRestart,
			corev1.ContainerRestartRuleActionRestartAllContainers)...)
		codes := at.Child("exitCodes")
		if rule.ExitCodes == nil {
			c.add(field.Required(codes, "must be specified"))
			continue
		}
		c.add(rules.Enum(rule.ExitCodes.Operator, codes.Child("operator"),
			corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn)...)
		if len(rule.ExitCodes.Values) > maxCodes {
			c.add(field.TooMany(codes.Child("values"), len(rule.ExitCodes.Values), maxCodes))
		}
	}
}

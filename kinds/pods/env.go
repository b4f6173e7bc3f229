package pods

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/rules"
)

func (c *checker) checkEnv(env []corev1.EnvVar, path *field.Path) {
	for i, variable := range env {
		at := path.Index(i)
		if variable.Name == "" {
			c.add(field.Required(at.Child("name"), ""))
		} else {
			c.add(rules.Invalid(variable.Name, at.Child("name"), validation.IsRelaxedEnvVarName(variable.Name))...)
		}
		if variable.ValueFrom != nil {
			c.checkValueFrom(&variable, at.Child("valueFrom"))
		}
	}
}

func (c *checker) checkValueFrom(variable *corev1.EnvVar, path *field.Path) {
	from, sources := variable.ValueFrom, 0
	if from.FieldRef != nil {
		sources++
		c.checkFieldRef(from.FieldRef, envFields, path.Child("fieldRef"))
	}
	if from.ResourceFieldRef != nil {
		sources++
		c.checkResourceFieldRef(from.ResourceFieldRef, false, path.Child("resourceFieldRef"))
	}
	if ref := from.ConfigMapKeyRef; ref != nil {
		sources++
		c.checkKeyRef(ref.Name, ref.Key, path.Child("configMapKeyRef"))
	}
	if ref := from.SecretKeyRef; ref != nil {
		sources++
		c.checkKeyRef(ref.Name, ref.Key, path.Child("secretKeyRef"))
	}
	if from.FileKeyRef != nil {
		sources++
		c.checkFileKeyRef(from.FileKeyRef, path.Child("fileKeyRef"))
	}
	switch {
	case sources == 0:
		c.add(field.Invalid(path, "",
			"must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"))
	case variable.Value != "":
		c.add(field.Invalid(path, "", "may not be specified when `value` is not empty"))
	case sources > 1:
		c.add(field.Invalid(path, "", "may not have more than one field specified at a time"))
	}
}

func (c *checker) checkEnvFrom(list []corev1.EnvFromSource, path *field.Path) {
	for i, from := range list {
		at, sources := path.Index(i), 0
		if from.Prefix != "" {
			c.add(rules.Invalid(from.Prefix, at.Child("prefix"), validation.IsRelaxedEnvVarName(from.Prefix))...)
		}
		if from.ConfigMapRef != nil {
			sources++
			c.checkReference(from.ConfigMapRef.Name, at.Child("configMapRef", "name"))
		}
		if from.SecretRef != nil {
			sources++
			c.checkReference(from.SecretRef.Name, at.Child("secretRef", "name"))
		}
		switch sources {
		case 0:
			c.add(field.Invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
		case 2:
			c.add(field.Invalid(path, "", "may not have more than one field specified at a time"))
		}
	}
}

// checkReference validates the name of a config map or a secret. A dash at the end is accepted,
// as in prefixes of names.
func (c *checker) checkReference(name string, path *field.Path) {
	if name == "" {
		c.add(field.Required(path, ""))
		return
	}
	c.add(rules.Invalid(name, path, apivalidation.NameIsDNSSubdomain(name, true))...)
}

// checkKeyRef validates a reference to a key of a config map or a secret.
func (c *checker) checkKeyRef(name, key string, path *field.Path) {
	c.add(rules.Invalid(name, path.Child("name"), apivalidation.NameIsDNSSubdomain(name, false))...)
	if key == "" {
		c.add(field.Required(path.Child("key"), ""))
		return
	}
	c.add(rules.Invalid(key, path.Child("key"), validation.IsConfigMapKey(key))...)
}

func (c *checker) checkFileKeyRef(ref *corev1.FileKeySelector, path *field.Path) {
	if ref.Key == "" {
		c.add(field.Required(path.Child("key"), ""))
	} else {
		c.add(rules.Invalid(ref.Key, path.Child("key"), validation.IsRelaxedEnvVarName(ref.Key))...)
	}
	if ref.VolumeName == "" {
		c.add(field.Required(path.Child("volumeName"), ""))
	} else {
		c.add(rules.Label(ref.VolumeName, path.Child("volumeName"))...)
	}
	if ref.Path == "" {
		c.add(field.Required(path.Child("path"), ""))
	} else {
		c.add(rules.NoBacksteps(ref.Path, path.Child("path"))...)
	}
}

// checkEnvFiles rejects files of environment variables in other volumes than empty directories.
func (c *checker) checkEnvFiles(path *field.Path) {
	for at, container := range containers(c.spec, path) {
		for i, variable := range container.Env {
			if variable.ValueFrom == nil || variable.ValueFrom.FileKeyRef == nil {
				continue
			}
			name := variable.ValueFrom.FileKeyRef.VolumeName
			namePath := at.Child("env").Index(i).Child("valueFrom", "fileKeyRef", "volumeName")
			switch volume := c.lastVolume(name); {
			case volume == nil:
				c.add(field.NotFound(namePath, name))
			case volume.EmptyDir == nil:
				c.add(field.Invalid(namePath, name, "referenced volume must be of type emptyDir"))
			}
		}
	}
}

// lastVolume returns the last volume with a name, also if it is not valid.
func (c *checker) lastVolume(name string) (found *corev1.Volume) {
	for i := range c.spec.Volumes {
		if c.spec.Volumes[i].Name == name {
			found = &c.spec.Volumes[i]
		}
	}
	return found
}

// The fields of pods that containers can see: in environment variables, in volumes, and those
// whose names are known but not supported in one of them.
var (
	envFields = sets.New("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs")
	volumeFields = sets.New("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
	otherFields  = sets.New("spec.restartPolicy", "spec.schedulerName", "status.phase")
)

// checkFieldRef validates a reference to a field of the pod.
func (c *checker) checkFieldRef(ref *corev1.ObjectFieldSelector, supported sets.Set[string], path *field.Path) {
	at := path.Child("fieldPath")
	switch {
	case ref.APIVersion == "":
		c.add(field.Required(path.Child("apiVersion"), ""))
		return
	case ref.FieldPath == "":
		c.add(field.Required(at, ""))
		return
	case ref.APIVersion != "v1":
		c.add(field.Invalid(at, ref.FieldPath, "error converting fieldPath: unsupported pod version: "+ref.APIVersion))
		return
	}
	if name, key, ok := splitSubscript(ref.FieldPath); ok {
		switch name {
		case "metadata.annotations":
			c.add(rules.QualifiedName(strings.ToLower(key), path)...)
		case "metadata.labels":
			c.add(rules.QualifiedName(key, path)...)
		default:
			c.add(field.Invalid(at, ref.FieldPath, "error converting fieldPath: field label does not support subscript: "+ref.FieldPath))
		}
		return
	}
	name := ref.FieldPath
	if name == "spec.host" {
		name = "spec.nodeName"
	}
	if !envFields.Has(name) && !volumeFields.Has(name) && !otherFields.Has(name) {
		c.add(field.Invalid(at, ref.FieldPath, "error converting fieldPath: field label not supported: "+ref.FieldPath))
	} else if !supported.Has(name) {
		c.add(field.NotSupported(at, name, sets.List(supported)))
	}
}

// splitSubscript splits a path such as metadata.labels['key'].
func splitSubscript(path string) (name, key string, ok bool) {
	rest, ok := strings.CutSuffix(path, "']")
	if !ok {
		return path, "", false
	}
	name, key, ok = strings.Cut(rest, "['")
	if !ok || name == "" {
		return path, "", false
	}
	return name, key, true
}

var (
	containerResources = sets.New("limits.cpu", "limits.memory", "limits.ephemeral-storage",
		"requests.cpu", "requests.memory", "requests.ephemeral-storage")
	byteDivisors = sets.New("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
	cpuDivisors  = sets.New("1", "1m")
)

// checkResourceFieldRef validates a reference to a resource of a container. Volumes have to name
// the container.
func (c *checker) checkResourceFieldRef(ref *corev1.ResourceFieldSelector, volume bool, path *field.Path) {
	hugePages := strings.HasPrefix(ref.Resource, "limits.hugepages-") || strings.HasPrefix(ref.Resource, "requests.hugepages-")
	switch {
	case volume && ref.ContainerName == "":
		c.add(field.Required(path.Child("containerName"), ""))
	case ref.Resource == "":
		c.add(field.Required(path.Child("resource"), ""))
	case !containerResources.Has(ref.Resource) && !hugePages:
		c.add(field.NotSupported(path.Child("resource"), ref.Resource, sets.List(containerResources)))
	}

	if ref.Divisor.Cmp(resource.Quantity{}) == 0 {
		return
	}
	const bytes = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei"
	divisors, list, kind := byteDivisors, bytes, ""
	switch {
	case hugePages:
		kind = "hugepages"
	case strings.HasSuffix(ref.Resource, "s.cpu"):
		divisors, list, kind = cpuDivisors, "1m and 1", "cpu"
	case strings.HasSuffix(ref.Resource, "s.memory"):
		kind = "memory"
	case strings.HasSuffix(ref.Resource, "s.ephemeral-storage"):
		kind = "local ephemeral storage"
	}
	known := hugePages || containerResources.Has(ref.Resource)
	if known && !divisors.Has(ref.Divisor.String()) {
		c.add(field.Invalid(path.Child("divisor"), ref.Resource,
			fmt.Sprintf("only divisor's values %s are supported with the %s resource", list, kind)))
	}
}

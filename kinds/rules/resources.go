package rules

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// standardResources are the names of resources without a domain.
var standardResources = sets.New(
	corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourceStorage,
	corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsEphemeralStorage, corev1.ResourceRequestsStorage,
	corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceLimitsEphemeralStorage,
	corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers,
	corev1.ResourceSecrets, corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims,
	corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers,
)

// countedResources are the standard resources that have whole numbers only.
var countedResources = sets.New(
	corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers,
	corev1.ResourceSecrets, corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims,
	corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers,
)

// IsHugePages reports whether a resource are huge pages of some size.
func IsHugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// IsNativeResource reports whether Kubernetes itself defines a resource.
func IsNativeResource(name corev1.ResourceName) bool {
	return !strings.Contains(string(name), "/") || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

// IsExtendedResource reports whether name is a valid name of a resource that nodes advertise.
func IsExtendedResource(name corev1.ResourceName) bool {
	if IsNativeResource(name) || strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix) {
		return false
	}
	return len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+string(name))) == 0
}

// IsOvercommitAllowed reports whether the limit of a resource may be above its request.
func IsOvercommitAllowed(name corev1.ResourceName) bool {
	return IsNativeResource(name) && !IsHugePages(name)
}

// IsStandardResource reports whether name is one of the names without a domain.
func IsStandardResource(name corev1.ResourceName) bool {
	return standardResources.Has(name) || IsHugePages(name) || strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix)
}

// ResourceName validates the name of a resource.
func ResourceName(name corev1.ResourceName, path *field.Path) field.ErrorList {
	if errs := Invalid(name, path, validation.IsQualifiedName(string(name))); len(errs) > 0 {
		return errs
	}
	if !strings.Contains(string(name), "/") && !IsStandardResource(name) {
		return field.ErrorList{field.Invalid(path, name, "must be a standard resource type or fully qualified")}
	}
	return nil
}

// ContainerResourceName validates the name of a resource that containers use.
func ContainerResourceName(name corev1.ResourceName, path *field.Path) field.ErrorList {
	errs := ResourceName(name, path)
	switch {
	case !strings.Contains(string(name), "/"):
		if name != corev1.ResourceCPU && name != corev1.ResourceMemory && name != corev1.ResourceEphemeralStorage && !IsHugePages(name) {
			errs = append(errs, field.Invalid(path, name, "must be a standard resource for containers"))
		}
	case !IsNativeResource(name) && !IsExtendedResource(name):
		errs = append(errs, field.Invalid(path, name, "doesn't follow extended resource name standard"))
	}
	return errs
}

// NonnegativeQuantity rejects quantities below zero.
func NonnegativeQuantity(value resource.Quantity, path *field.Path) field.ErrorList {
	if value.Sign() < 0 {
		return field.ErrorList{field.Invalid(path, value.String(), apivalidation.IsNegativeErrorMsg)}
	}
	return nil
}

// PositiveQuantity rejects quantities that are not above zero.
func PositiveQuantity(value resource.Quantity, path *field.Path) field.ErrorList {
	if value.Sign() <= 0 {
		return field.ErrorList{field.Invalid(path, value.String(), "must be greater than zero")}
	}
	return nil
}

// ResourceQuantity validates the quantity of a resource.
func ResourceQuantity(name corev1.ResourceName, value resource.Quantity, path *field.Path) field.ErrorList {
	errs := NonnegativeQuantity(value, path)
	if (countedResources.Has(name) || IsExtendedResource(name)) && value.MilliValue()%1000 != 0 {
		errs = append(errs, field.Invalid(path, value, "must be an integer"))
	}
	return errs
}

// HugePages rejects quantities of huge pages that are no multiple of the size in their name.
func HugePages(name corev1.ResourceName, value resource.Quantity, path *field.Path) field.ErrorList {
	if IsDivisibleHugePages(name, value) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value.String(), fmt.Sprintf("%s is not positive integer multiple of %s", value.String(), name))}
}

// IsDivisibleHugePages reports whether a quantity of huge pages is a multiple of their size.
func IsDivisibleHugePages(name corev1.ResourceName, value resource.Quantity) bool {
	size, err := resource.ParseQuantity(strings.TrimPrefix(string(name), corev1.ResourceHugePagesPrefix))
	if err != nil || size.Sign() <= 0 || size.MilliValue()%1000 != 0 {
		return false
	}
	return value.Value()%size.Value() == 0
}

// RoundUp rounds quantities up to the smallest unit that is stored, a thousandth.
func RoundUp(list corev1.ResourceList) {
	for name, value := range list {
		value.RoundUp(resource.Milli)
		list[name] = value
	}
}

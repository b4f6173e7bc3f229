package quota

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The resources that devices are claimed with.
const (
	countDeviceClaims corev1.ResourceName = "count/resourceclaims.resource.k8s.io"
	ofDevices                             = corev1.ResourceClaimsPerClass
)

// devices measures resource claims.
type devices struct{ list List }

// deviceClaims returns the evaluator of resource claims.
func deviceClaims(list List) *evaluator {
	d := devices{list}
	return &evaluator{resource: schema.GroupResource{Group: "resource.k8s.io",
		Resource: "resourceclaims"}, handles: writes, usage: d.usage, matches: d.matches}
}

func (d devices) matches(name corev1.ResourceName) bool {
	if name == countDeviceClaims || strings.HasSuffix(string(name), ofDevices) {
		return true
	}
	if class, ok := strings.CutPrefix(string(name), corev1.ResourceImplicitExtendedClaimsPerClass); ok {
		return d.extended(class) != ""
	}
	if !extendedRequest(name) {
		return false
	}
	return d.hasClass(strings.TrimPrefix(string(name), corev1.DefaultResourceRequestsPrefix))
}

// classes returns the stored device classes.
func (d devices) classes() (all []*resourcev1.DeviceClass) {
	if d.list == nil {
		return nil
	}
	objects, err := d.list(schema.GroupResource{Group: "resource.k8s.io", Resource: "deviceclasses"}, "")
	if err != nil {
		return nil
	}
	for _, obj := range objects {
		if c, ok := obj.(*resourcev1.DeviceClass); ok {
			all = append(all, c)
		}
	}
	return all
}

// extended returns the extended resource by which pods get the devices of a class, if the class
// names one.
func (d devices) extended(class string) string {
	for _, c := range d.classes() {
		if c.Name == class && c.Spec.ExtendedResourceName != nil {
			return *c.Spec.ExtendedResourceName
		}
	}
	return ""
}

// hasClass reports whether pods get the devices of a class by an extended resource.
func (d devices) hasClass(extended string) bool {
	return slices.ContainsFunc(d.classes(), func(c *resourcev1.DeviceClass) bool {
		return extended == resourcev1.ResourceDeviceClassPrefix+c.Name ||
			c.Spec.ExtendedResourceName != nil && extended == *c.Spec.ExtendedResourceName
	})
}

func (d devices) usage(obj runtime.Object) (corev1.ResourceList, error) {
	claim, err := as[*resourcev1.ResourceClaim](obj)
	if err != nil {
		return nil, err
	}
	used := corev1.ResourceList{countDeviceClaims: whole(1)}
	for _, r := range claim.Spec.Devices.Requests {
		// Of alternatives, the one with the most devices of a class counts.
		most := corev1.ResourceList{}
		for _, sub := range r.FirstAvailable {
			name := corev1.ResourceName(sub.DeviceClassName + ofDevices)
			if n := deviceNumber(sub.AllocationMode, sub.Count); n.Cmp(most[name]) > 0 {
				most[name] = n
			}
		}
		if r.Exactly != nil && len(r.FirstAvailable) == 0 {
			most[corev1.ResourceName(r.Exactly.DeviceClassName+ofDevices)] = deviceNumber(r.Exactly.AllocationMode, r.Exactly.Count)
		}
		for name, n := range most {
			n.Add(used[name])
			used[name] = n
		}
	}
	d.addExtended(claim, used)
	return used, nil
}

func deviceNumber(mode resourcev1.DeviceAllocationMode, count int64) resource.Quantity {
	switch mode {
	case resourcev1.DeviceAllocationModeExactCount:
		return whole(count)
	case resourcev1.DeviceAllocationModeAll:
		return whole(resourcev1.AllocationResultsMaxSize)
	}
	return whole(0)
}

// addExtended adds the devices as extended resources, unless the pod for which the claim was made
// is charged for them.
func (d devices) addExtended(claim *resourcev1.ResourceClaim, used corev1.ResourceList) {
	charged := d.chargedToPod(claim)
	more := corev1.ResourceList{}
	for name, n := range used {
		class, ok := strings.CutSuffix(string(name), ofDevices)
		if !ok || class == "" {
			continue
		}
		more[corev1.ResourceName(corev1.ResourceImplicitExtendedClaimsPerClass+class)] = n.DeepCopy()
		if extended := d.extended(class); extended != "" {
			more[corev1.ResourceName(corev1.DefaultResourceRequestsPrefix+extended)] = n.DeepCopy()
		}
	}
	for name, n := range more {
		if q, ok := charged[name]; ok {
			n.Sub(q)
		}
		if n.Sign() > 0 {
			used[name] = n
		}
	}
}

// chargedToPod returns what the pod for which a claim was made is charged for.
func (d devices) chargedToPod(claim *resourcev1.ResourceClaim) corev1.ResourceList {
	owner := extendedOwner(claim)
	if owner == nil || d.list == nil {
		return nil
	}
	all, err := d.list(schema.GroupResource{Resource: "pods"}, claim.Namespace)
	if err != nil {
		return nil
	}
	i := slices.IndexFunc(all, func(obj runtime.Object) bool {
		pod, ok := obj.(*corev1.Pod)
		return ok && pod.Name == owner.Name && pod.UID == owner.UID
	})
	if i < 0 {
		return nil
	}
	pod := all[i].(*corev1.Pod)
	switch s := pod.Status.ExtendedResourceClaimStatus; {
	case s != nil && s.ResourceClaimName != claim.Name, s == nil && !d.first(claim, owner):
		return nil
	}
	used, err := pods().usage(pod)
	if err != nil {
		return nil
	}
	return used
}

// extendedOwner returns the pod for whose extended resources a claim was made, or nil.
func extendedOwner(claim *resourcev1.ResourceClaim) *metav1.OwnerReference {
	if claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] != "true" {
		return nil
	}
	if owner := metav1.GetControllerOfNoCopy(claim); owner != nil && owner.Kind == "Pod" && owner.APIVersion == "v1" {
		return owner
	}
	return nil
}

// first reports whether no other claim was made earlier for the same pod.
func (d devices) first(claim *resourcev1.ResourceClaim, owner *metav1.OwnerReference) bool {
	all, err := d.list(schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceclaims"}, claim.Namespace)
	return err == nil && !slices.ContainsFunc(all, func(obj runtime.Object) bool {
		other, ok := obj.(*resourcev1.ResourceClaim)
		if !ok {
			return false
		}
		if o := extendedOwner(other); o == nil || o.UID != owner.UID {
			return false
		}
		order := other.CreationTimestamp.Compare(claim.CreationTimestamp.Time)
		return order < 0 || order == 0 && other.Name < claim.Name
	})
}

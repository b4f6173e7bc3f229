package rules

import (
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
)

// internalField is a field of an internal type, with its value.
type internalField struct {
	name     string
	embedded bool
	value    reflect.Value
}

// orders are the fields of the internal types that have another order than those of k8s.io/api,
// or other fields.
var orders = map[reflect.Type]string{
	reflect.TypeFor[corev1.VolumeSource](): `HostPath EmptyDir GCEPersistentDisk AWSElasticBlockStore GitRepo Secret NFS ISCSI Glusterfs
		PersistentVolumeClaim RBD Quobyte FlexVolume Cinder CephFS Flocker DownwardAPI FC AzureFile ConfigMap VsphereVolume AzureDisk
		PhotonPersistentDisk Projected PortworxVolume ScaleIO StorageOS CSI Ephemeral Image`,
	reflect.TypeFor[corev1.PersistentVolumeSource](): `GCEPersistentDisk AWSElasticBlockStore HostPath Glusterfs NFS RBD Quobyte ISCSI
		FlexVolume Cinder CephFS FC Flocker AzureFile VsphereVolume AzureDisk PhotonPersistentDisk PortworxVolume ScaleIO Local StorageOS CSI`,
	reflect.TypeFor[corev1.PodSpec](): `Volumes InitContainers Containers EphemeralContainers RestartPolicy TerminationGracePeriodSeconds
		ActiveDeadlineSeconds DNSPolicy NodeSelector ServiceAccountName AutomountServiceAccountToken NodeName SecurityContext ImagePullSecrets
		Hostname Subdomain SetHostnameAsFQDN Affinity SchedulerName Tolerations HostAliases PriorityClassName Priority PreemptionPolicy DNSConfig
		ReadinessGates RuntimeClassName Overhead EnableServiceLinks TopologySpreadConstraints OS SchedulingGates ResourceClaims Resources
		HostnameOverride SchedulingGroup`,
	reflect.TypeFor[podSecurity](): `HostNetwork HostPID HostIPC ShareProcessNamespace HostUsers SELinuxOptions WindowsOptions RunAsUser
		RunAsGroup RunAsNonRoot SupplementalGroups SupplementalGroupsPolicy FSGroup FSGroupChangePolicy Sysctls SeccompProfile AppArmorProfile
		SELinuxChangePolicy`,
}

// podSecurity is the internal security context of a pod, with fields that the API has in the
// spec.
type podSecurity struct {
	HostNetwork, HostPID, HostIPC    bool
	ShareProcessNamespace, HostUsers *bool
	corev1.PodSecurityContext
}

// newFields are the fields that the internal types of version 1.36 do not have. All belong to
// alpha features: objects do not have them.
var newFields = map[reflect.Type]string{
	reflect.TypeFor[corev1.EmptyDirVolumeSource]():          "Mode",
	reflect.TypeFor[corev1.SecretVolumeSource]():            "DefaultUser",
	reflect.TypeFor[corev1.ConfigMapVolumeSource]():         "DefaultUser",
	reflect.TypeFor[corev1.ProjectedVolumeSource]():         "DefaultUser",
	reflect.TypeFor[corev1.DownwardAPIVolumeSource]():       "DefaultUser",
	reflect.TypeFor[corev1.ServiceAccountTokenProjection](): "User",
	reflect.TypeFor[corev1.KeyToPath]():                     "User",
	reflect.TypeFor[corev1.DownwardAPIVolumeFile]():         "User",
	reflect.TypeFor[corev1.VolumeMount]():                   "BindMountOptions",
	reflect.TypeFor[corev1.HTTPGetAction]():                 "Protocol",
	reflect.TypeFor[corev1.GRPCAction]():                    "Mode",

	reflect.TypeFor[resourcev1.ExactDeviceRequest]():            "DerivedAttributes",
	reflect.TypeFor[resourcev1.DeviceSubRequest]():              "DerivedAttributes",
	reflect.TypeFor[resourcev1.DeviceRequestAllocationResult](): "SkipNodeOperations",
}

// internalFields returns the fields of a struct in the order of its internal type.
func internalFields(v reflect.Value) (fields []internalField) {
	if spec, ok := v.Interface().(corev1.PodSpec); ok {
		security := podSecurity{spec.HostNetwork, spec.HostPID, spec.HostIPC,
			spec.ShareProcessNamespace, spec.HostUsers, corev1.PodSecurityContext{}}
		if spec.SecurityContext != nil {
			security.PodSecurityContext = *spec.SecurityContext
		}
		for name := range strings.FieldsSeq(orders[v.Type()]) {
			value := v.FieldByName(name)
			if name == "SecurityContext" {
				value = reflect.ValueOf(security)
			}
			fields = append(fields, internalField{name: name, value: value})
		}
		return fields
	}
	if order, ok := orders[v.Type()]; ok {
		for name := range strings.FieldsSeq(order) {
			fields = append(fields, internalField{name: name, value: v.FieldByName(name)})
		}
		return fields
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.IsExported() && f.Name != newFields[v.Type()] {
			fields = append(fields, internalField{f.Name, f.Anonymous, v.Field(i)})
		}
	}
	return fields
}

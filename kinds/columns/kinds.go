package columns

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// columnsOf returns the columns of an object's kind, or nil. Tables are cheap to make compared
// with what they show, so none is kept.
func columnsOf(obj runtime.Object) []column {
	switch obj.(type) {
	case *corev1.Pod:
		return podColumns()
	case *corev1.PodTemplate:
		return podTemplateColumns()
	case *corev1.ReplicationController:
		return replicationControllerColumns()
	case *corev1.Service:
		return serviceColumns()
	case *corev1.Endpoints:
		return endpointsColumns()
	case *corev1.Node:
		return nodeColumns()
	case *corev1.Event:
		return eventColumns(func(e *corev1.Event) *corev1.Event { return e })
	case *eventsv1.Event:
		return eventColumns(coreEvent)
	case *corev1.Namespace:
		return namespaceColumns()
	case *corev1.Secret:
		return secretColumns()
	case *corev1.ConfigMap:
		return configMapColumns()
	case *corev1.PersistentVolume:
		return persistentVolumeColumns()
	case *corev1.PersistentVolumeClaim:
		return persistentVolumeClaimColumns()
	case *corev1.ResourceQuota:
		return resourceQuotaColumns()
	case *corev1.ComponentStatus:
		return componentStatusColumns()
	case *corev1.ServiceAccount, *resourcev1.DeviceClass, *resourcev1.ResourceClaimTemplate:
		return []column{name(), age()}

	case *appsv1.Deployment:
		return deploymentColumns()
	case *appsv1.ReplicaSet:
		return replicaSetColumns()
	case *appsv1.StatefulSet:
		return statefulSetColumns()
	case *appsv1.DaemonSet:
		return daemonSetColumns()
	case *appsv1.ControllerRevision:
		return controllerRevisionColumns()
	case *batchv1.Job:
		return jobColumns()
	case *batchv1.CronJob:
		return cronJobColumns()
	case *autoscalingv2.HorizontalPodAutoscaler:
		return horizontalPodAutoscalerColumns()
	case *autoscalingv1.Scale:
		return scaleColumns()
	case *policyv1.PodDisruptionBudget:
		return podDisruptionBudgetColumns()
	case *schedulingv1.PriorityClass:
		return priorityClassColumns()

	case *networkingv1.Ingress:
		return ingressColumns()
	case *networkingv1.IngressClass:
		return ingressClassColumns()
	case *networkingv1.NetworkPolicy:
		return networkPolicyColumns()
	case *networkingv1.ServiceCIDR:
		return serviceCIDRColumns()
	case *networkingv1.IPAddress:
		return ipAddressColumns()
	case *discoveryv1.EndpointSlice:
		return endpointSliceColumns()

	case *storagev1.StorageClass:
		return storageClassColumns()
	case *storagev1.VolumeAttributesClass:
		return volumeAttributesClassColumns()
	case *storagev1.VolumeAttachment:
		return volumeAttachmentColumns()
	case *storagev1.CSINode:
		return csiNodeColumns()
	case *storagev1.CSIDriver:
		return csiDriverColumns()
	case *storagemigrationv1.StorageVersionMigration:
		return storageVersionMigrationColumns()

	case *rbacv1.RoleBinding:
		return bindingColumns("roleBinding", rbacv1.RoleBinding{}.SwaggerDoc(),
			func(b *rbacv1.RoleBinding) (rbacv1.RoleRef, []rbacv1.Subject) { return b.RoleRef, b.Subjects })
	case *rbacv1.ClusterRoleBinding:
		return bindingColumns("clusterRoleBinding", rbacv1.ClusterRoleBinding{}.SwaggerDoc(),
			func(b *rbacv1.ClusterRoleBinding) (rbacv1.RoleRef, []rbacv1.Subject) { return b.RoleRef, b.Subjects })
	case *certificatesv1.CertificateSigningRequest:
		return certificateSigningRequestColumns()
	case *certificatesv1.ClusterTrustBundle:
		return clusterTrustBundleColumns()
	case *certificatesv1.PodCertificateRequest:
		return podCertificateRequestColumns()
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		return webhookColumns(func(c *admissionregistrationv1.MutatingWebhookConfiguration) any { return count(c.Webhooks) })
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		return webhookColumns(func(c *admissionregistrationv1.ValidatingWebhookConfiguration) any { return count(c.Webhooks) })
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		return validatingAdmissionPolicyColumns()
	case *admissionregistrationv1.MutatingAdmissionPolicy:
		return mutatingAdmissionPolicyColumns()
	case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
		return policyBindingColumns(func(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) (string,
			*admissionregistrationv1.ParamRef) {
			return b.Spec.PolicyName, b.Spec.ParamRef
		})
	case *admissionregistrationv1.MutatingAdmissionPolicyBinding:
		return policyBindingColumns(func(b *admissionregistrationv1.MutatingAdmissionPolicyBinding) (string,
			*admissionregistrationv1.ParamRef) {
			return b.Spec.PolicyName, b.Spec.ParamRef
		})

	case *apiregistrationv1.APIService:
		return apiServiceColumns()
	case *coordinationv1.Lease:
		return leaseColumns()
	case *nodev1.RuntimeClass:
		return runtimeClassColumns()
	case *flowcontrolv1.FlowSchema:
		return flowSchemaColumns()
	case *flowcontrolv1.PriorityLevelConfiguration:
		return priorityLevelColumns()
	case *resourcev1.ResourceClaim:
		return resourceClaimColumns()
	case *resourcev1.ResourceSlice:
		return resourceSliceColumns()
	case *resourcev1.DeviceTaintRule:
		return deviceTaintRuleColumns()
	}
	return nil
}

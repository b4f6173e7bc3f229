package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/registry/rest"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/install"
	"k8s.io/kube-aggregator/pkg/registry/apiservice"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingadmissionpolicy"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingadmissionpolicybinding"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingwebhookconfiguration"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/resolver"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicy"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicybinding"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingwebhookconfiguration"
	"k8s.io/kubernetes/pkg/registry/apps/controllerrevision"
	"k8s.io/kubernetes/pkg/registry/apps/daemonset"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/apps/replicaset"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/autoscaling/horizontalpodautoscaler"
	"k8s.io/kubernetes/pkg/registry/batch/cronjob"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	"k8s.io/kubernetes/pkg/registry/certificates/certificates"
	"k8s.io/kubernetes/pkg/registry/coordination/lease"
	"k8s.io/kubernetes/pkg/registry/core/configmap"
	"k8s.io/kubernetes/pkg/registry/core/endpoint"
	"k8s.io/kubernetes/pkg/registry/core/event"
	"k8s.io/kubernetes/pkg/registry/core/limitrange"
	"k8s.io/kubernetes/pkg/registry/core/namespace"
	"k8s.io/kubernetes/pkg/registry/core/node"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolume"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/registry/core/podtemplate"
	"k8s.io/kubernetes/pkg/registry/core/replicationcontroller"
	"k8s.io/kubernetes/pkg/registry/core/resourcequota"
	"k8s.io/kubernetes/pkg/registry/core/secret"
	"k8s.io/kubernetes/pkg/registry/core/service"
	"k8s.io/kubernetes/pkg/registry/core/serviceaccount"
	"k8s.io/kubernetes/pkg/registry/discovery/endpointslice"
	"k8s.io/kubernetes/pkg/registry/flowcontrol/flowschema"
	"k8s.io/kubernetes/pkg/registry/flowcontrol/prioritylevelconfiguration"
	"k8s.io/kubernetes/pkg/registry/networking/ingress"
	"k8s.io/kubernetes/pkg/registry/networking/ingressclass"
	"k8s.io/kubernetes/pkg/registry/networking/ipaddress"
	"k8s.io/kubernetes/pkg/registry/networking/networkpolicy"
	"k8s.io/kubernetes/pkg/registry/networking/servicecidr"
	"k8s.io/kubernetes/pkg/registry/node/runtimeclass"
	"k8s.io/kubernetes/pkg/registry/policy/poddisruptionbudget"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrole"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrolebinding"
	"k8s.io/kubernetes/pkg/registry/rbac/role"
	"k8s.io/kubernetes/pkg/registry/rbac/rolebinding"
	"k8s.io/kubernetes/pkg/registry/resource/deviceclass"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaim"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaimtemplate"
	"k8s.io/kubernetes/pkg/registry/resource/resourceslice"
	"k8s.io/kubernetes/pkg/registry/scheduling/priorityclass"
	"k8s.io/kubernetes/pkg/registry/storage/csidriver"
	"k8s.io/kubernetes/pkg/registry/storage/csinode"
	"k8s.io/kubernetes/pkg/registry/storage/csistoragecapacity"
	"k8s.io/kubernetes/pkg/registry/storage/storageclass"
	"k8s.io/kubernetes/pkg/registry/storage/volumeattachment"
	"k8s.io/kubernetes/pkg/registry/storage/volumeattributesclass"

	// The types, their defaults and conversions.
	_ "k8s.io/kubernetes/pkg/apis/admissionregistration/install"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/certificates/install"
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/discovery/install"
	_ "k8s.io/kubernetes/pkg/apis/events/install"
	_ "k8s.io/kubernetes/pkg/apis/flowcontrol/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/node/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
)

// strategy is what a registry does to an object before it is stored.
type strategy interface {
	rest.RESTCreateStrategy
	rest.RESTUpdateStrategy
}

// resource is a resource of the API server.
type resource struct {
	kind     string
	strategy strategy

	// subresources are the strategies of updates of subresources that have the kind of the
	// resource itself.
	subresources map[string]rest.RESTUpdateStrategy
}

type subresources = map[string]rest.RESTUpdateStrategy

// resources are the resources by group. Each is stored in version v1 unless
// storageVersion says otherwise.
var resources = map[schema.GroupResource]resource{
	{Group: "", Resource: "namespaces"}:                                                  {"Namespace", namespace.Strategy, subresources{"status": namespace.StatusStrategy, "finalize": namespace.FinalizeStrategy}},
	{Group: "", Resource: "configmaps"}:                                                  {"ConfigMap", configmap.Strategy, nil},
	{Group: "", Resource: "secrets"}:                                                     {"Secret", secret.Strategy, nil},
	{Group: "", Resource: "serviceaccounts"}:                                             {"ServiceAccount", serviceaccount.Strategy, nil},
	{Group: "", Resource: "events"}:                                                      {"Event", event.Strategy, nil},
	{Group: "", Resource: "services"}:                                                    {"Service", service.Strategy, subresources{"status": service.StatusStrategy}},
	{Group: "", Resource: "pods"}:                                                        {"Pod", pod.Strategy, subresources{"status": pod.StatusStrategy, "ephemeralcontainers": pod.EphemeralContainersStrategy, "resize": pod.ResizeStrategy}},
	{Group: "", Resource: "podtemplates"}:                                                {"PodTemplate", podtemplate.Strategy, nil},
	{Group: "", Resource: "replicationcontrollers"}:                                      {"ReplicationController", replicationcontroller.Strategy, subresources{"status": replicationcontroller.StatusStrategy}},
	{Group: "", Resource: "persistentvolumeclaims"}:                                      {"PersistentVolumeClaim", persistentvolumeclaim.Strategy, subresources{"status": persistentvolumeclaim.StatusStrategy}},
	{Group: "", Resource: "persistentvolumes"}:                                           {"PersistentVolume", persistentvolume.Strategy, subresources{"status": persistentvolume.StatusStrategy}},
	{Group: "", Resource: "nodes"}:                                                       {"Node", node.Strategy, subresources{"status": node.StatusStrategy}},
	{Group: "", Resource: "endpoints"}:                                                   {"Endpoints", endpoint.Strategy, nil},
	{Group: "", Resource: "limitranges"}:                                                 {"LimitRange", limitrange.Strategy, nil},
	{Group: "", Resource: "resourcequotas"}:                                              {"ResourceQuota", resourcequota.Strategy, subresources{"status": resourcequota.StatusStrategy}},
	{Group: "apps", Resource: "deployments"}:                                             {"Deployment", deployment.Strategy, subresources{"status": deployment.StatusStrategy}},
	{Group: "apps", Resource: "statefulsets"}:                                            {"StatefulSet", statefulset.Strategy, subresources{"status": statefulset.StatusStrategy}},
	{Group: "apps", Resource: "daemonsets"}:                                              {"DaemonSet", daemonset.Strategy, subresources{"status": daemonset.StatusStrategy}},
	{Group: "apps", Resource: "replicasets"}:                                             {"ReplicaSet", replicaset.Strategy, subresources{"status": replicaset.StatusStrategy}},
	{Group: "apps", Resource: "controllerrevisions"}:                                     {"ControllerRevision", controllerrevision.Strategy, nil},
	{Group: "batch", Resource: "jobs"}:                                                   {"Job", job.Strategy, subresources{"status": job.StatusStrategy}},
	{Group: "batch", Resource: "cronjobs"}:                                               {"CronJob", cronjob.Strategy, subresources{"status": cronjob.StatusStrategy}},
	{Group: "autoscaling", Resource: "horizontalpodautoscalers"}:                         {"HorizontalPodAutoscaler", horizontalpodautoscaler.Strategy, subresources{"status": horizontalpodautoscaler.StatusStrategy}},
	{Group: "policy", Resource: "poddisruptionbudgets"}:                                  {"PodDisruptionBudget", poddisruptionbudget.Strategy, subresources{"status": poddisruptionbudget.StatusStrategy}},
	{Group: "coordination.k8s.io", Resource: "leases"}:                                   {"Lease", lease.Strategy, nil},
	{Group: "rbac.authorization.k8s.io", Resource: "roles"}:                              {"Role", role.Strategy, nil},
	{Group: "rbac.authorization.k8s.io", Resource: "rolebindings"}:                       {"RoleBinding", rolebinding.Strategy, nil},
	{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}:                       {"ClusterRole", clusterrole.Strategy, nil},
	{Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"}:                {"ClusterRoleBinding", clusterrolebinding.Strategy, nil},
	{Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"}:   {"MutatingWebhookConfiguration", mutatingwebhookconfiguration.Strategy, nil},
	{Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"}: {"ValidatingWebhookConfiguration", validatingwebhookconfiguration.Strategy, nil},
	{Group: "networking.k8s.io", Resource: "ingresses"}:                                  {"Ingress", ingress.Strategy, subresources{"status": ingress.StatusStrategy}},
	{Group: "networking.k8s.io", Resource: "ingressclasses"}:                             {"IngressClass", ingressclass.Strategy, nil},
	{Group: "networking.k8s.io", Resource: "networkpolicies"}:                            {"NetworkPolicy", networkpolicy.Strategy, nil},
	{Group: "networking.k8s.io", Resource: "ipaddresses"}:                                {"IPAddress", ipaddress.Strategy, nil},
	{Group: "networking.k8s.io", Resource: "servicecidrs"}:                               {"ServiceCIDR", servicecidr.Strategy, subresources{"status": servicecidr.StatusStrategy}},
	{Group: "discovery.k8s.io", Resource: "endpointslices"}:                              {"EndpointSlice", endpointslice.Strategy, nil},
	{Group: "scheduling.k8s.io", Resource: "priorityclasses"}:                            {"PriorityClass", priorityclass.Strategy, nil},
	{Group: "node.k8s.io", Resource: "runtimeclasses"}:                                   {"RuntimeClass", runtimeclass.Strategy, nil},
	{Group: "storage.k8s.io", Resource: "storageclasses"}:                                {"StorageClass", storageclass.Strategy, nil},
	{Group: "storage.k8s.io", Resource: "csidrivers"}:                                    {"CSIDriver", csidriver.Strategy, nil},
	{Group: "storage.k8s.io", Resource: "csinodes"}:                                      {"CSINode", csinode.Strategy, nil},
	{Group: "storage.k8s.io", Resource: "csistoragecapacities"}:                          {"CSIStorageCapacity", csistoragecapacity.Strategy, nil},
	{Group: "storage.k8s.io", Resource: "volumeattachments"}:                             {"VolumeAttachment", volumeattachment.Strategy, subresources{"status": volumeattachment.StatusStrategy}},
	{Group: "storage.k8s.io", Resource: "volumeattributesclasses"}:                       {"VolumeAttributesClass", volumeattributesclass.Strategy, nil},
	{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}:               {"CertificateSigningRequest", certificates.Strategy, subresources{"status": certificates.StatusStrategy, "approval": certificates.ApprovalStrategy}},
	{Group: "flowcontrol.apiserver.k8s.io", Resource: "flowschemas"}:                     {"FlowSchema", flowschema.Strategy, subresources{"status": flowschema.StatusStrategy}},
	{Group: "flowcontrol.apiserver.k8s.io", Resource: "prioritylevelconfigurations"}:     {"PriorityLevelConfiguration", prioritylevelconfiguration.Strategy, subresources{"status": prioritylevelconfiguration.StatusStrategy}},
	{Group: "apiregistration.k8s.io", Resource: "apiservices"}:                           apiServices(),
	{Group: "resource.k8s.io", Resource: "deviceclasses"}:                                {"DeviceClass", deviceclass.Strategy, nil},
	{Group: "resource.k8s.io", Resource: "resourceclaims"}:                               {"ResourceClaim", claims, subresources{"status": resourceclaim.NewStatusStrategy(claims)}},
	{Group: "resource.k8s.io", Resource: "resourceclaimtemplates"}:                       {"ResourceClaimTemplate", resourceclaimtemplate.NewStrategy(adminNamespaces{}), nil},
	{Group: "resource.k8s.io", Resource: "resourceslices"}:                               {"ResourceSlice", resourceslice.Strategy, nil},

	// Their authorization of params is left out: the user may read everything.
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"}:       {"ValidatingAdmissionPolicy", validatingPolicies, subresources{"status": validatingadmissionpolicy.NewStatusStrategy(validatingPolicies)}},
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicybindings"}: {"ValidatingAdmissionPolicyBinding", validatingadmissionpolicybinding.NewStrategy(nil, nil, noResources), nil},
	{Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicies"}:         {"MutatingAdmissionPolicy", mutatingadmissionpolicy.NewStrategy(nil, noResources), nil},
	{Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicybindings"}:   {"MutatingAdmissionPolicyBinding", mutatingadmissionpolicybinding.NewStrategy(nil, nil, noResources), nil},
}

// apiServices returns the resource of API services, whose types are not among those of all others.
func apiServices() resource {
	apiregistration.Install(legacyscheme.Scheme)
	scheme := legacyscheme.Scheme
	return resource{"APIService", apiservice.NewStrategy(scheme), subresources{"status": apiservice.NewStatusStrategy(scheme)}}
}

// noResources is required by the strategies, which only use it for authorization.
var noResources resolver.ResourceResolverFunc = func(gvk schema.GroupVersionKind) (schema.GroupVersionResource, error) {
	return schema.GroupVersionResource{}, &meta.NoKindMatchError{GroupKind: gvk.GroupKind()}
}

var validatingPolicies = validatingadmissionpolicy.NewStrategy(nil, noResources)

var claims = resourceclaim.NewStrategy(adminNamespaces{}, authorizerfactory.NewAlwaysAllowAuthorizer())

// adminNamespaces are namespaces that all exist, and allow admin access to devices.
type adminNamespaces struct {
	corev1client.NamespaceInterface
}

func (adminNamespaces) Get(_ context.Context, name string, _ metav1.GetOptions) (*corev1.Namespace, error) {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{resourcev1.DRAAdminNamespaceLabelKey: "true"}}}, nil
}

// cohabitants are resources that are stored as those of another group.
var cohabitants = map[schema.GroupResource]schema.GroupResource{
	{Group: "events.k8s.io", Resource: "events"}: {Resource: "events"},
}

// storageVersion returns the version that objects of a group are stored in. It is that of the
// next minor version for the kinds that became stable in this one.
func storageVersion(group string) schema.GroupVersion {
	if group == "autoscaling" {
		return schema.GroupVersion{Group: group, Version: "v2"}
	}
	return schema.GroupVersion{Group: group, Version: "v1"}
}

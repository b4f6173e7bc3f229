package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	appsapply "k8s.io/client-go/applyconfigurations/apps/v1"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const (
	// fieldOwner is the field manager of the objects that the controller applies.
	fieldOwner = client.FieldOwner("website-controller")
	// finalizer keeps a Website until its entry in the directory is removed.
	finalizer = "example.com/directory"
	// directory is the ConfigMap with an entry for each Website of the namespace. It outlives
	// them, so it has no owner, and entries are removed by a finalizer.
	directory = "websites"
	// resync is the time after which a Website is reconciled again if nothing has changed: somebody may
	// have changed the directory, which the controller does not watch.
	resync = 24 * time.Hour
	// ready is the type of the condition that reports whether all pods serve the page.
	ready = "Ready"
)

// reconciler makes the objects of a Website: a ConfigMap with the page, a Deployment that serves
// it, and a Service.
type reconciler struct {
	client.Client
	events events.EventRecorder
}

func (r *reconciler) setUp(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&Website{}).
		Owns(&corev1.ConfigMap{}).
		Owns(&corev1.Service{}).
		Owns(&appsv1.Deployment{}).
		Complete(r)
}

// Reconcile brings the objects of a Website to the state that its spec asks for.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	site := &Website{}
	if err := r.Get(ctx, request.NamespacedName, site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !site.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.finalize(ctx, site)
	}
	if before := site.deepCopy(); controllerutil.AddFinalizer(site, finalizer) {
		// The resource version makes the patch fail if somebody else changed the finalizers.
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := r.Patch(ctx, site, patch); err != nil {
			return ctrl.Result{}, fmt.Errorf("add the finalizer: %w", err)
		}
	}
	if err := r.addEntry(ctx, site); err != nil {
		return ctrl.Result{}, err
	}
	configMap, service, deployment := owned(site)
	for _, object := range []runtime.ApplyConfiguration{configMap, service, deployment} {
		// The object becomes what the API server answers.
		if err := r.Apply(ctx, object, fieldOwner, client.ForceOwnership); err != nil {
			return ctrl.Result{}, fmt.Errorf("apply an owned object: %w", err)
		}
	}
	if err := r.report(ctx, site, deployment); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: resync}, nil
}

// owned returns the objects of a Website, to be applied. The garbage collector deletes them with
// the Website.
func owned(site *Website) (*coreapply.ConfigMapApplyConfiguration,
	*coreapply.ServiceApplyConfiguration, *appsapply.DeploymentApplyConfiguration) {
	owner := metaapply.OwnerReference().
		WithAPIVersion(groupVersion.String()).WithKind("Website").
		WithName(site.Name).WithUID(site.UID).
		WithController(true).WithBlockOwnerDeletion(true)
	labels := map[string]string{"example.com/website": site.Name}
	hash := fnv.New64a()
	hash.Write([]byte(site.Spec.Page))
	container := coreapply.Container().WithName("web").WithImage("nginx").
		WithPorts(coreapply.ContainerPort().WithName("http").WithContainerPort(80)).
		WithVolumeMounts(coreapply.VolumeMount().WithName("page").WithMountPath("/usr/share/nginx/html"))
	volume := coreapply.Volume().WithName("page").
		WithConfigMap(coreapply.ConfigMapVolumeSource().WithName(site.Name))
	pods := coreapply.PodTemplateSpec().
		WithLabels(labels).
		// A changed page restarts the pods.
		WithAnnotations(map[string]string{"example.com/page": fmt.Sprintf("%x", hash.Sum64())}).
		WithSpec(coreapply.PodSpec().WithContainers(container).WithVolumes(volume))
	configMap := coreapply.ConfigMap(site.Name, site.Namespace).WithLabels(labels).WithOwnerReferences(owner).
		WithData(map[string]string{"index.html": site.Spec.Page})
	service := coreapply.Service(site.Name, site.Namespace).WithLabels(labels).WithOwnerReferences(owner).
		WithSpec(coreapply.ServiceSpec().WithSelector(labels).
			WithPorts(coreapply.ServicePort().WithName("http").WithPort(80)))
	deployment := appsapply.Deployment(site.Name, site.Namespace).WithLabels(labels).WithOwnerReferences(owner).
		WithSpec(appsapply.DeploymentSpec().WithReplicas(site.Spec.Replicas).
			WithSelector(metaapply.LabelSelector().WithMatchLabels(labels)).
			WithTemplate(pods))
	return configMap, service, deployment
}

// report writes the status, and an event if the condition has changed.
func (r *reconciler) report(ctx context.Context, site *Website, deployment *appsapply.DeploymentApplyConfiguration) error {
	var available int32
	current := false // whether the status of the Deployment describes its spec
	if s := deployment.Status; s != nil {
		available = ptr.Deref(s.AvailableReplicas, 0)
		current = ptr.Deref(s.ObservedGeneration, 0) == *deployment.Generation
	}
	condition := metav1.Condition{
		Type: ready, Status: metav1.ConditionFalse, Reason: "Progressing", ObservedGeneration: site.Generation,
		Message: fmt.Sprintf("%d of %d pods serve the page", available, site.Spec.Replicas),
	}
	if current && available == site.Spec.Replicas {
		condition.Status, condition.Reason = metav1.ConditionTrue, "Available"
	}
	before := site.deepCopy()
	site.Status.ObservedGeneration = site.Generation
	if meta.SetStatusCondition(&site.Status.Conditions, condition) {
		r.events.Eventf(site, nil, corev1.EventTypeNormal, condition.Reason, "Deploy", "%s", condition.Message)
	}
	if err := r.Status().Patch(ctx, site, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	return nil
}

// finalize removes the entry of a deleted Website from the directory, and then the finalizer.
func (r *reconciler) finalize(ctx context.Context, site *Website) error {
	if !controllerutil.ContainsFinalizer(site, finalizer) {
		return nil
	}
	if err := r.removeEntry(ctx, site); err != nil {
		return err
	}
	r.events.Eventf(site, nil, corev1.EventTypeNormal, "Removed", "Delete", "removed from the directory")
	before := site.deepCopy()
	controllerutil.RemoveFinalizer(site, finalizer)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Patch(ctx, site, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove the finalizer: %w", err)
	}
	return nil
}

// addEntry adds a Website to the directory.
func (r *reconciler) addEntry(ctx context.Context, site *Website) error {
	entries := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: site.Namespace, Name: directory}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, entries, func() error {
		if entries.Data == nil {
			entries.Data = map[string]string{}
		}
		entries.Data[site.Name] = fmt.Sprintf("http://%s.%s.svc", site.Name, site.Namespace)
		return nil
	})
	if err != nil {
		return fmt.Errorf("add to the directory: %w", err)
	}
	return nil
}

// removeEntry removes a Website from the directory. It creates nothing, because that fails in
// a namespace that is being deleted.
func (r *reconciler) removeEntry(ctx context.Context, site *Website) error {
	entries := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: site.Namespace, Name: directory}}
	patch := fmt.Appendf(nil, `{"data": {%q: null}}`, site.Name)
	if err := r.Patch(ctx, entries, client.RawPatch(types.MergePatchType, patch)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove from the directory: %w", err)
	}
	return nil
}

package main

import (
	"context"
	"fmt"
	"path"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

const (
	// provisioner is the name of the provisioner in StorageClasses.
	provisioner = "espalier.dev/simulated"

	// The annotations of kube-controller-manager and kube-scheduler for provisioners.
	annotationProvisioner   = "volume.kubernetes.io/storage-provisioner"
	annotationProvisionedBy = "pv.kubernetes.io/provisioned-by"
	annotationSelectedNode  = "volume.kubernetes.io/selected-node"
)

// volumes creates PersistentVolumes for the claims that kube-controller-manager leaves to the
// provisioner, and deletes released ones. Nothing is stored in them.
type volumes struct {
	clients kubernetes.Interface
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	classes storagelisters.StorageClassLister
	queue   workqueue.TypedRateLimitingInterface[volumeKey]
}

// volumeKey is a claim, or a volume if the namespace is empty.
type volumeKey struct{ namespace, name string }

// provisionVolumes runs the provisioner until the context is done.
func provisionVolumes(ctx context.Context, kubeconfig string) error {
	config, err := client(kubeconfig)
	if err != nil {
		return err
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(clients, 0)
	core, storage := factory.Core().V1(), factory.Storage().V1()
	v := &volumes{
		clients: clients,
		claims:  core.PersistentVolumeClaims().Lister(),
		volumes: core.PersistentVolumes().Lister(),
		classes: storage.StorageClasses().Lister(),
		queue:   workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[volumeKey]()),
	}
	enqueue := func(object any) {
		if m, ok := object.(metav1.Object); ok { // deleted objects need nothing
			v.queue.Add(volumeKey{m.GetNamespace(), m.GetName()})
		}
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: enqueue, UpdateFunc: func(_, object any) { enqueue(object) }}
	for _, informer := range []cache.SharedIndexInformer{core.PersistentVolumeClaims().Informer(), core.PersistentVolumes().Informer()} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return err
		}
	}
	storage.StorageClasses().Informer()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	var workers sync.WaitGroup
	for range writers {
		workers.Go(func() {
			for v.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	v.queue.ShutDown()
	workers.Wait()
	factory.Shutdown()
	return nil
}

// next handles an item of the queue, and reports whether there may be more.
func (v *volumes) next(ctx context.Context) bool {
	key, done := v.queue.Get()
	if done {
		return false
	}
	defer v.queue.Done(key)
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	handle := v.provision
	if key.namespace == "" {
		handle = v.remove
	}
	if err := handle(limited, key); err != nil && ctx.Err() == nil {
		utilruntime.HandleErrorWithContext(ctx, err, "Failed to provision a volume", "namespace", key.namespace, "name", key.name)
		v.queue.AddRateLimited(key)
		return true
	}
	v.queue.Forget(key)
	return true
}

// provision creates the volume of a claim, if kube-controller-manager waits for it.
func (v *volumes) provision(ctx context.Context, key volumeKey) error {
	claim, err := v.claims.PersistentVolumeClaims(key.namespace).Get(key.name)
	if apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return err
	}
	name := claim.Spec.StorageClassName
	if name == nil || claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil || claim.Annotations[annotationProvisioner] != provisioner {
		return nil
	}
	class, err := v.classes.Get(*name)
	if err != nil {
		return fmt.Errorf("get StorageClass: %w", err)
	}
	waits := class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
	if class.Provisioner != provisioner || waits && claim.Annotations[annotationSelectedNode] == "" {
		return nil
	}
	_, err = v.clients.CoreV1().PersistentVolumes().Create(ctx, newVolume(claim, class), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// newVolume returns the volume of a claim.
func newVolume(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) *corev1.PersistentVolume {
	name := "pvc-" + string(claim.UID)
	directory := corev1.HostPathDirectoryOrCreate
	policy := corev1.PersistentVolumeReclaimDelete
	if class.ReclaimPolicy != nil {
		policy = *class.ReclaimPolicy
	}
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{annotationProvisionedBy: provisioner}},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:                   claim.Spec.AccessModes,
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			VolumeMode:                    claim.Spec.VolumeMode,
			StorageClassName:              class.Name,
			MountOptions:                  class.MountOptions,
			PersistentVolumeReclaimPolicy: policy,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: path.Join("/var/lib/simulated-volumes", name), Type: &directory},
			},
		},
	}
}

// remove deletes a volume that its claim has released, if its reclaim policy says so.
func (v *volumes) remove(ctx context.Context, key volumeKey) error {
	volume, err := v.volumes.Get(key.name)
	if apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return err
	}
	if volume.Annotations[annotationProvisionedBy] != provisioner || volume.Status.Phase != corev1.VolumeReleased ||
		volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete || volume.DeletionTimestamp != nil {
		return nil
	}
	err = v.clients.CoreV1().PersistentVolumes().Delete(ctx, volume.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &volume.UID}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

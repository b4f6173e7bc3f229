// Package controller reconciles shops.
package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	v2 "example.com/shop/api/v2"
)

// ShopReconciler makes a config map for each shop.
type ShopReconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

// Reconcile makes the config map of a shop, and reports it in the status.
func (r *ShopReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	shop := &v2.Shop{}
	if err := r.Get(ctx, req.NamespacedName, shop); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: shop.Name, Namespace: shop.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, config, func() error {
		tills := int32(0)
		if shop.Spec.Tills != nil {
			tills = *shop.Spec.Tills
		}
		config.Data = map[string]string{"tills": fmt.Sprint(tills)}
		return controllerutil.SetControllerReference(shop, config, r.Scheme)
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	if meta.SetStatusCondition(&shop.Status.Conditions, metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Configured", ObservedGeneration: shop.Generation}) {
		return ctrl.Result{}, r.Status().Update(ctx, shop)
	}
	return ctrl.Result{}, nil
}

// SetupWithManager adds the controller to a manager.
func (r *ShopReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&v2.Shop{}).Owns(&corev1.ConfigMap{}).Named("shop").Complete(r)
}

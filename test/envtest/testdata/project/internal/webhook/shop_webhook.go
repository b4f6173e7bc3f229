// Package webhook has the webhooks of shops.
package webhook

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	v2 "example.com/shop/api/v2"
)

const maxTills = 10

// SetupShopWebhookWithManager adds the webhooks to a manager.
func SetupShopWebhookWithManager(mgr ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(mgr, &v2.Shop{}).WithValidator(&ShopValidator{}).WithDefaulter(&ShopDefaulter{}).Complete()
}

// ShopDefaulter sets defaults.
type ShopDefaulter struct{}

// Default gives a shop a till.
func (*ShopDefaulter) Default(_ context.Context, shop *v2.Shop) error {
	if shop.Spec.Tills == nil {
		one := int32(1)
		shop.Spec.Tills = &one
	}
	return nil
}

// ShopValidator validates shops.
type ShopValidator struct{}

// ValidateCreate validates a new shop.
func (v *ShopValidator) ValidateCreate(_ context.Context, shop *v2.Shop) (admission.Warnings, error) {
	if shop.Spec.Tills != nil && *shop.Spec.Tills > maxTills {
		return nil, fmt.Errorf("%d tills are too many", *shop.Spec.Tills)
	}
	return nil, nil
}

// ValidateUpdate validates a changed shop.
func (v *ShopValidator) ValidateUpdate(ctx context.Context, _, shop *v2.Shop) (admission.Warnings, error) {
	return v.ValidateCreate(ctx, shop)
}

// ValidateDelete allows everything.
func (v *ShopValidator) ValidateDelete(context.Context, *v2.Shop) (admission.Warnings, error) {
	return nil, nil
}

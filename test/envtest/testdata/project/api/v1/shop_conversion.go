package v1

import (
	"sigs.k8s.io/controller-runtime/pkg/conversion"

	v2 "example.com/shop/api/v2"
)

// ConvertTo converts this shop to version v2.
func (src *Shop) ConvertTo(hub conversion.Hub) error {
	dst := hub.(*v2.Shop)
	dst.ObjectMeta = src.ObjectMeta
	dst.Spec.Tills = src.Spec.Counters
	dst.Status.Conditions = src.Status.Conditions
	return nil
}

// ConvertFrom converts a shop of version v2 to this one.
func (dst *Shop) ConvertFrom(hub conversion.Hub) error {
	src := hub.(*v2.Shop)
	dst.ObjectMeta = src.ObjectMeta
	dst.Spec.Counters = src.Spec.Tills
	dst.Status.Conditions = src.Status.Conditions
	return nil
}

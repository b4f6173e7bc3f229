package controller

import (
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v2 "example.com/shop/api/v2"
)

// listShops lists shops as a user.
func listShops(config *rest.Config) error {
	c, err := client.New(config, client.Options{Scheme: scheme.Scheme})
	if err != nil {
		return err
	}
	return c.List(ctx, &v2.ShopList{})
}

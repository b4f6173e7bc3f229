package controller

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v2 "example.com/shop/api/v2"
)

var _ = Describe("Shop Controller", func() {
	Context("When reconciling a resource", func() {
		name := types.NamespacedName{Name: "test-resource", Namespace: "default"}

		BeforeEach(func() {
			By("creating the custom resource for the Kind Shop")
			shop := &v2.Shop{}
			err := k8sClient.Get(ctx, name, shop)
			if err != nil && errors.IsNotFound(err) {
				Expect(k8sClient.Create(ctx, &v2.Shop{ObjectMeta: metav1.ObjectMeta{Name: name.Name, Namespace: name.Namespace}})).To(Succeed())
			}
		})

		AfterEach(func() {
			shop := &v2.Shop{}
			Expect(k8sClient.Get(ctx, name, shop)).To(Succeed())
			By("Cleanup the specific resource instance Shop")
			Expect(k8sClient.Delete(ctx, shop)).To(Succeed())
		})

		It("should successfully reconcile the resource", func() {
			By("Reconciling the created resource")
			reconciler := &ShopReconciler{Client: k8sClient, Scheme: k8sClient.Scheme()}
			_, err := reconciler.Reconcile(ctx, reconcile.Request{NamespacedName: name})
			Expect(err).NotTo(HaveOccurred())

			config := &corev1.ConfigMap{}
			Expect(k8sClient.Get(ctx, name, config)).To(Succeed())
			Expect(config.OwnerReferences).To(HaveLen(1))
			shop := &v2.Shop{}
			Expect(k8sClient.Get(ctx, name, shop)).To(Succeed())
			Expect(meta.IsStatusConditionTrue(shop.Status.Conditions, "Ready")).To(BeTrue())
		})

		It("should reject users without permission", func() {
			user, err := testEnv.AddUser(envtest.User{Name: "visitor", Groups: []string{"visitors"}}, nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(listShops(user.Config())).To(Satisfy(errors.IsForbidden))
		})
	})
})

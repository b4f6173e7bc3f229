package webhook

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "example.com/shop/api/v1"
	v2 "example.com/shop/api/v2"
)

func shop(name string, tills *int32) *v2.Shop {
	return &v2.Shop{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: v2.ShopSpec{Tills: tills}}
}

var _ = Describe("Shop Webhook", func() {
	two, many := int32(2), int32(11)

	It("should apply defaults", func() {
		obj := shop("defaulted", nil)
		Expect(k8sClient.Create(ctx, obj)).To(Succeed())
		Expect(obj.Spec.Tills).To(HaveValue(BeEquivalentTo(1)))
	})

	It("should deny creation and update of invalid objects", func() {
		err := k8sClient.Create(ctx, shop("rejected", &many))
		Expect(err).To(Satisfy(errors.IsForbidden))
		Expect(err).To(MatchError(`admission webhook "vshop-v2.kb.io" denied the request: 11 tills are too many`))

		obj := shop("changed", &two)
		Expect(k8sClient.Create(ctx, obj)).To(Succeed())
		Eventually(func() error {
			Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(obj), obj)).To(Succeed())
			obj.Spec.Tills = &many
			return k8sClient.Update(ctx, obj)
		}, time.Minute).Should(Satisfy(errors.IsForbidden))
	})

	It("should convert between versions", func() {
		old := &v1.Shop{ObjectMeta: metav1.ObjectMeta{Name: "older", Namespace: "default"}, Spec: v1.ShopSpec{Counters: &two}}
		Expect(k8sClient.Create(ctx, old)).To(Succeed())
		obj := &v2.Shop{}
		Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(old), obj)).To(Succeed())
		Expect(obj.Spec.Tills).To(HaveValue(BeEquivalentTo(2)))
		Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(old), old)).To(Succeed())
		Expect(old.Spec.Counters).To(HaveValue(BeEquivalentTo(2)))
	})

	It("should reconcile objects", func() {
		obj := shop("reconciled", &two)
		Expect(k8sClient.Create(ctx, obj)).To(Succeed())
		Eventually(func(g Gomega) {
			config := &corev1.ConfigMap{}
			g.Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(obj), config)).To(Succeed())
			g.Expect(config.Data).To(HaveKeyWithValue("tills", "2"))
			g.Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(obj), obj)).To(Succeed())
			g.Expect(meta.IsStatusConditionTrue(obj.Status.Conditions, "Ready")).To(BeTrue())
		}, time.Minute).Should(Succeed())
	})
})

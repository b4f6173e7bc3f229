package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ShopSpec is the desired state of a shop.
type ShopSpec struct {
	// +optional
	Counters *int32 `json:"counters,omitempty"`
}

// ShopStatus is the observed state of a shop.
type ShopStatus struct {
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Shop sells things.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type Shop struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ShopSpec   `json:"spec,omitempty"`
	Status ShopStatus `json:"status,omitempty"`
}

// ShopList is a list of shops.
// +kubebuilder:object:root=true
type ShopList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Shop `json:"items"`
}

func init() { SchemeBuilder.Register(&Shop{}, &ShopList{}) }

// DeepCopyInto copies a shop.
func (in *Shop) DeepCopyInto(out *Shop) {
	*out = *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	if in.Spec.Counters != nil {
		n := *in.Spec.Counters
		out.Spec.Counters = &n
	}
	if in.Status.Conditions != nil {
		out.Status.Conditions = make([]metav1.Condition, len(in.Status.Conditions))
		for i := range in.Status.Conditions {
			in.Status.Conditions[i].DeepCopyInto(&out.Status.Conditions[i])
		}
	}
}

// DeepCopyObject copies a shop.
func (in *Shop) DeepCopyObject() runtime.Object {
	out := &Shop{}
	in.DeepCopyInto(out)
	return out
}

// DeepCopyObject copies a list.
func (in *ShopList) DeepCopyObject() runtime.Object {
	out := &ShopList{TypeMeta: in.TypeMeta}
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	if in.Items != nil {
		out.Items = make([]Shop, len(in.Items))
		for i := range in.Items {
			in.Items[i].DeepCopyInto(&out.Items[i])
		}
	}
	return out
}

package rest

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/handlers"
)

// NewScope returns the scope of the requests for one version of a resource: s with what is the same
// for all resources.
func NewScope(namespaced bool, s handlers.RequestScope) handlers.RequestScope {
	s.Namer = handlers.ContextBasedNaming{Namer: meta.NewAccessor(), ClusterScoped: !namespaced}
	s.ParameterCodec, s.MetaGroupVersion = metav1.ParameterCodec, metav1.SchemeGroupVersion
	s.Convertor = copyConvertor{s.UnsafeConvertor}
	return s
}

// copyConvertor is a convertor whose results share no memory with its input.
type copyConvertor struct{ runtime.ObjectConvertor }

func (c copyConvertor) ConvertToVersion(in runtime.Object, to runtime.GroupVersioner) (runtime.Object, error) {
	return c.ObjectConvertor.ConvertToVersion(in.DeepCopyObject(), to)
}

func (c copyConvertor) Convert(in, out, context any) error {
	if obj, ok := in.(runtime.Object); ok {
		in = obj.DeepCopyObject()
	}
	return c.ObjectConvertor.Convert(in, out, context)
}

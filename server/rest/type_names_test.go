package rest

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// TestNameTypes checks the Go types in messages, in each media type.
func TestNameTypes(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	const list, object = "you requested PartialObjectMetadata, but the requested object is a list (*v1.PodList)",
		"you requested PartialObjectMetadataList, but the requested object is not a list (*v1.Pod)"
	for _, c := range []struct {
		code          int32
		message, want string
	}{
		{http.StatusNotAcceptable, list, strings.Replace(list, "*v1.", "*core.", 1)},
		{http.StatusNotAcceptable, object, strings.Replace(object, "*v1.", "*core.", 1)},
		{http.StatusNotAcceptable, "only (*v1.Pod)", "only (*v1.Pod)"},
		{http.StatusBadRequest, list, list},
	} {
		for _, info := range NameTypes(StreamLists(serializer.NewCodecFactory(scheme).SupportedMediaTypes()), "core") {
			for _, s := range []runtime.Serializer{info.Serializer, info.PrettySerializer} {
				if s == nil {
					continue
				}
				status := &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Code: c.code, Message: c.message}
				var plain, allocated bytes.Buffer
				if err := s.Encode(status, &plain); err != nil {
					t.Fatal(err)
				}
				if err := s.(runtime.EncoderWithAllocator).EncodeWithAllocator(status, &allocated, &runtime.SimpleAllocator{}); err != nil {
					t.Fatal(err)
				}
				if text := strings.Join(strings.Fields(plain.String()), " "); !strings.Contains(text, c.want) || allocated.String() != plain.String() {
					t.Errorf("%s, %d, %q: %q, %q", info.MediaType, c.code, c.message, text, allocated.String())
				}
				if status.Message != c.message {
					t.Errorf("the status is changed: %q", status.Message)
				}
			}
		}
	}
}

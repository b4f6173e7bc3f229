package objects

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"espalier.dev/store"
)

// TestMetadata checks that the metadata of both encodings is read, and that an object without
// readable metadata is an error, not an object without owners.
func TestMetadata(t *testing.T) {
	t.Parallel()
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u", Finalizers: []string{"orphan"}, OwnerReferences: []metav1.OwnerReference{{Name: "b", UID: "v"}}},
		Spec:       corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c"}}},
	}
	raw, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	envelope, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Pod"}, Raw: raw}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	binary := append([]byte("k8s\x00"), envelope...)
	for name, value := range map[string][]byte{
		"protobuf": binary,
		"JSON":     []byte(`{"spec":{"metadata":{"uid":"w"}},"metadata":{"name":"a","uid":"u","finalizers":["orphan"],"ownerReferences":[{"name":"b","uid":"v"}]}}`),
	} {
		m, err := Metadata(&store.Entry{Key: name, Value: value})
		if err != nil || m.UID != "u" || len(m.Finalizers) != 1 || len(m.OwnerReferences) != 1 || m.OwnerReferences[0].UID != "v" {
			t.Errorf("%s: %+v %v", name, m, err)
		}
	}
	for name, value := range map[string][]byte{"cut protobuf": binary[:len(binary)-20], "cut JSON": []byte(`{"metadata":{"name"`), "no metadata": []byte(`{}`), "wrong type": []byte(`{"metadata":{"ownerReferences":1}}`)} {
		if m, err := Metadata(&store.Entry{Key: name, Value: value}); err == nil {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

package server_test

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"espalier.dev/server"
	"espalier.dev/server/servertest"
)

// TestHistoryEnds writes more than the history may have with --history=all. Objects and recent revisions can still
// be read, and older ones get an error that says so.
func TestHistoryEnds(t *testing.T) {
	t.Parallel()
	o := servertest.Options(t)
	o.Storage, o.Memory, o.History, o.MaxHistory = server.StorageMemory, nil, server.HistoryAll, 4<<20
	s := servertest.Start(t, o)
	config, err := s.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default")
	for range 32 {
		large := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "large-"}, Data: map[string]string{"x": strings.Repeat("x", 256<<10)}}
		if _, err := client.Create(t.Context(), large, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := client.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) < 32 {
		t.Fatalf("%d objects are left: %v", len(list.Items), err)
	}
	fork := server.ForkOptions{DataDir: filepath.Join(t.TempDir(), "data")}
	if _, err := s.At(t.Context(), 2, fork); err == nil || !strings.Contains(err.Error(), "is compacted, and revision 2 with it: keep 4 GiB") {
		t.Errorf("the first revision: %v", err)
	}
}

package espaliertest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"espalier.dev/schema"
	"espalier.dev/server"
)

// TestSave saves the state of servers in memory and in etcd, and starts servers with it.
func TestSave(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]Option{"memory": nil, "etcd": {WithEtcd()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := Start(t, append(options, WithCRDs("testdata/crds"))...)
			oak := plant(t, s.Config(), "oak")
			client := kubernetes.NewForConfigOrDie(s.Config())
			maps := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Data: map[string]string{"a": "b"}}
			if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), maps, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "state")
			s.Save(t, file)
			s.Save(t, file) // again replaces it
			for range 2 {
				again := Start(t, WithState(file))
				same(t, "the custom resources", names(t, again.Config()), "oak")
				got, err := trees(t, again.Config()).Get(t.Context(), "oak", metav1.GetOptions{})
				if err != nil || got.GetUID() != oak.GetUID() || got.GetResourceVersion() != oak.GetResourceVersion() {
					t.Errorf("the object is %v, %v", got, err)
				}
				mine, err := kubernetes.NewForConfigOrDie(again.Config()).CoreV1().ConfigMaps("default").Get(t.Context(), "mine", metav1.GetOptions{})
				if err != nil || mine.Data["a"] != "b" {
					t.Errorf("the config map is %v, %v", mine, err)
				}
				if elm := plant(t, again.Config(), "elm"); version(t, elm) <= version(t, oak) {
					t.Error("a later object has the resourceVersion", elm.GetResourceVersion())
				}
				again.Reset(t)
				same(t, "the custom resources after Reset", names(t, again.Config()), "oak")
				same(t, "those of a fork", names(t, again.Fork(t).Config()), "oak")
			}
			o := server.NewOptions()
			o.DataDir = t.TempDir()
			restored, err := server.Restore(t.Context(), o, server.RestoreOptions{Path: file, Bump: 1000})
			if err != nil || restored.Manifest.CRDs != 2 || restored.Manifest.Objects < 2 {
				t.Fatalf("restored %+v, %v", restored, err)
			}
			etcd := Start(t, WithEtcd(), WithFlags("--data-dir="+o.DataDir))
			same(t, "the custom resources of the restored etcd", names(t, etcd.Config()), "oak")
		})
	}
}

// TestStateSeed checks that a server with a state and a seed does not repeat the UIDs of the server that has
// saved it with the same seed.
func TestStateSeed(t *testing.T) {
	t.Parallel()
	s := Start(t, WithCRDs("testdata/crds"), WithSeed(1))
	oak := plant(t, s.Config(), "oak")
	if err := trees(t, s.Config()).Delete(t.Context(), "oak", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "state")
	s.Save(t, file)
	var first types.UID
	for range 2 {
		again := Start(t, WithState(file), WithSeed(1))
		id := plant(t, again.Config(), "oak").GetUID()
		if id == oak.GetUID() || first != "" && id != first {
			t.Errorf("the UID is %s, after %s and %s", id, oak.GetUID(), first)
		}
		first = id
		_, err := again.server.At(t.Context(), 1, forkOptions(t.TempDir()))
		if err == nil || !strings.Contains(err.Error(), "with the state file or the start of the server") {
			t.Error("a revision before the state:", err)
		}
	}
}

// TestStateErrors checks the errors about state files, which say what to do.
func TestStateErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	s, err := Run(WithSemantics(schema.KEP))
	if err != nil {
		t.Fatal(err)
	}
	s.Save(t, file("kep"))
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := s.SaveState(file("stopped")); err == nil || !strings.Contains(err.Error(), "the server has stopped: save its state before") {
		t.Error("a stopped server:", err)
	}
	data, err := os.ReadFile(file("kep"))
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	for name, data := range map[string][]byte{"damaged": data, "text": []byte("hello")} {
		if err := os.WriteFile(file(name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for want, options := range map[string][]Option{
		"the data has the semantics kep, not kubernetes: use WithSemantics(schema.KEP)": {WithState(file("kep"))},
		"does not match its checksum: it is cut off or altered: write it again with":    {WithState(file("damaged"))},
		"not a snapshot of etcd 3":                             {WithState(file("text"))},
		"no such file or directory: write the file with":       {WithState(file("missing"))},
		`use WithFlags("--etcd-prefix=/registry")`:             {WithState(file("kep")), WithSemantics(schema.KEP), WithFlags("--etcd-prefix=/other")},
		"can only be loaded with --storage memory: for an emb": {WithState(file("kep")), WithSemantics(schema.KEP), WithEtcd()},
		"--history all needs --storage memory":                 {WithEtcd(), WithFlags("--history=all")},
		`--history "some": must be recent or all`:              {WithFlags("--history=some")},
	} {
		if _, err := run(context.Background(), t.TempDir(), options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

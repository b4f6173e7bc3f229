package data

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apiextensions-apiserver/test/integration/fixtures"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"espalier.dev/internal/program"
	"espalier.dev/server/etcd"
)

// jobsCRD is a CRD whose storage version has changed from v1 to v2.
const jobsCRD = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"jobs.example.com"},"spec":{"group":"example.com",
"names":{"kind":"Job","listKind":"JobList","plural":"jobs","singular":"job"},"scope":"Namespaced","versions":[
{"name":"v1","served":true,"storage":false,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"n":{"type":"integer"}}}}}}},
{"name":"v2","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","properties":{
"spec":{"type":"object","properties":{"n":{"type":"integer","maximum":5},"d":{"type":"string","default":"x"}}},"status":{"type":"object","properties":{"phase":{"type":"string"}}}}}}}]}}`

// TestMigrate migrates the objects of the reference with espalier migrate.
func TestMigrate(t *testing.T) {
	espalier := program.Path(t, program.Complete)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	m, err := etcd.Start(ctx, etcd.Config{Dir: t.TempDir(), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	store, err := clientv3.New(clientv3.Config{Endpoints: []string{m.Endpoint()}})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	const prefix = "/registry/example.com/jobs/default/"
	objects := map[string]string{}
	for name, o := range map[string]struct{ version, rest string }{
		"normal":        {"v2", `"spec":{"d":"x","n":1}`},
		"unspecified":   {"v2", `"spec":{"d":"x","privileged":true}`},
		"version":       {"v1", `"spec":{"n":1,"privileged":true}`},
		"default":       {"v2", `"spec":{"n":1}`},
		"invalid":       {"v2", `"spec":{"d":"x","n":9,"privileged":true}`},
		"contradiction": {"v2", `"spec":{"d":"x","n":"nine","privileged":true}`},
		"status":        {"v2", `"spec":{"d":"x"},"status":{"phase":"Done","privileged":true}`},
	} {
		objects[name] = fmt.Sprintf(`{"apiVersion":"example.com/%s","kind":"Job","metadata":{"creationTimestamp":"2026-01-01T00:00:00Z","generation":1,"name":%q,"namespace":"default","uid":"uid-%s"},%s}`+"\n", o.version, name, name, o.rest)
		if _, err := store.Put(ctx, prefix+name, objects[name]); err != nil {
			t.Fatal(err)
		}
	}
	stop, config, _, err := fixtures.StartDefaultServer(t, "--etcd-prefix=/registry", "--etcd-servers="+m.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	client := connect(t, config)
	crd := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(jobsCRD), &crd.Object); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Resource(crds).Create(ctx, crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	jobs := crds
	jobs.Group, jobs.Version, jobs.Resource = "example.com", "v2", "jobs"
	for {
		list, err := client.Resource(jobs).List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) == len(objects) {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("the CRD is not served: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["reference"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData, TLSServerName: config.ServerName}
	kubeconfig.AuthInfos["admin"] = &clientcmdapi.AuthInfo{Token: config.BearerToken}
	kubeconfig.Contexts["reference"] = &clientcmdapi.Context{Cluster: "reference", AuthInfo: "admin"}
	kubeconfig.CurrentContext = "reference"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*kubeconfig, path); err != nil {
		t.Fatal(err)
	}

	var report struct {
		CRDs []struct {
			Complete      bool
			Results       map[string]int
			DroppedFields int
		}
	}
	migrate := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(ctx, espalier, append([]string{"migrate", "jobs.example.com", "--kubeconfig", path, "--etcd-servers", m.Endpoint(), "--semantics", "kubernetes", "-o", "json"}, args...)...).Output()
		report.CRDs = nil
		if err == nil {
			err = json.Unmarshal(out, &report)
		}
		if err != nil || len(report.CRDs) != 1 {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	out := migrate()
	if got, want := report.CRDs[0].Results, map[string]int{"rewritten": 6, "unchanged": 1}; !reflect.DeepEqual(got, want) || report.CRDs[0].DroppedFields != 5 {
		t.Errorf("the dry run has the results %v: %s", got, out)
	}
	out = migrate("--write")
	if got, want := report.CRDs[0].Results, map[string]int{"rewritten": 6, "unchanged": 1}; !reflect.DeepEqual(got, want) || !report.CRDs[0].Complete {
		t.Errorf("the migration has the results %v: %s", got, out)
	}
	for name := range objects {
		got, err := store.Get(ctx, prefix+name)
		if err != nil || len(got.Kvs) != 1 {
			t.Fatalf("%s: %v, %v", name, got, err)
		}
		if text := string(got.Kvs[0].Value); strings.Contains(text, "privileged") || !strings.Contains(text, `"apiVersion":"example.com/v2"`) || !strings.Contains(text, `"d":"x"`) {
			t.Errorf("%s is stored as %s", name, text)
		}
	}
	out = migrate("--write")
	if got := report.CRDs[0].Results; got["unchanged"] != len(objects) {
		t.Errorf("the second migration has the results %v: %s", got, out)
	}
	after, err := client.Resource(crds).Get(ctx, "jobs.example.com", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if stored, _, _ := unstructured.NestedStringSlice(after.Object, "status", "storedVersions"); !reflect.DeepEqual(stored, []string{"v2"}) {
		t.Errorf("storedVersions is %v", stored)
	}
}

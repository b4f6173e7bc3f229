package server_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"espalier.dev/server"
	"espalier.dev/server/servertest"
)

// crontabCRD returns a CRD with two versions, of which one is the storage version.
func crontabCRD(storage string) string {
	version := func(name string) string {
		return fmt.Sprintf(`{"name":%q,"served":true,"storage":%v,"subresources":{"status":{},"scale":{"specReplicasPath":".spec.replicas","statusReplicasPath":".status.replicas"}},
			"additionalPrinterColumns":[{"name":"Schedule","type":"string","jsonPath":".spec.schedule"}],
			"schema":{"openAPIV3Schema":{"type":"object","properties":{
			"spec":{"type":"object","properties":{"schedule":{"type":"string"},"replicas":{"type":"integer","default":1},
				"containers":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],"items":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"image":{"type":"string"}}}},
				"raw":{"type":"object","x-kubernetes-preserve-unknown-fields":true}},
				"x-kubernetes-validations":[{"rule":"self.replicas < 100","message":"too many"}]},
			"status":{"type":"object","properties":{"replicas":{"type":"integer"},"message":{"type":"string"}}}}}}}`, name, name == storage)
	}
	return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"crontabs.example.com"},"spec":{
		"group":"example.com","scope":"Namespaced","names":{"plural":"crontabs","singular":"crontab","kind":"CronTab","shortNames":["ct"],"categories":["all"]},
		"versions":[` + version("v1") + `,` + version("v1alpha1") + `]}}`
}

// fixtureReads are the requests whose answers are recorded, and whether they need the webhook.
func fixtureReads() (plain, converted []string) {
	const beta = "/apis/apiextensions.k8s.io/v1beta1/customresourcedefinitions"
	for _, name := range []string{"crontabs", "gadgets", "widgets"} {
		plain = append(plain, servertest.CRDs+"/"+name+".example.com", beta+"/"+name+".example.com")
	}
	for _, version := range []string{"v1", "v1alpha1"} {
		at := "/apis/example.com/" + version + crontabs
		plain = append(plain, at, at+"/old", at+"/applied", at+"/leaving", at+"/applied/status", at+"/applied/scale", at+"/deleted")
	}
	plain = append(plain, "/apis/example.com/v1/gadgets/big", "/apis/example.com/v1/namespaces/team/widgets/beta",
		"/api/v1/namespaces/team", team+"/configmaps/settings", team+"/secrets/plain", team+"/secrets/first", team+"/secrets/second",
		team+"/services/web", team+"/serviceaccounts/robot", team+"/resourcequotas/limit", team+"/persistentvolumeclaims/disk", team+"/pods/idle",
		"/apis/apps/v1/namespaces/team/deployments/web", "/apis/batch/v1/namespaces/team/cronjobs/nightly",
		"/apis/networking.k8s.io/v1/namespaces/team/ingresses/web", "/apis/autoscaling/v1/namespaces/team/horizontalpodautoscalers/web",
		"/apis/autoscaling/v2/namespaces/team/horizontalpodautoscalers/web", "/apis/coordination.k8s.io/v1/namespaces/team/leases/leader",
		"/apis/rbac.authorization.k8s.io/v1/namespaces/team/roles/reader", "/apis/rbac.authorization.k8s.io/v1/namespaces/team/rolebindings/reader",
		"/apis/rbac.authorization.k8s.io/v1/clusterroles/example", "/apis/storage.k8s.io/v1/storageclasses/fast", "/apis/scheduling.k8s.io/v1/priorityclasses/high",
		"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/example.com", "/openid/v1/jwks")
	return plain, []string{"/apis/example.com/v2/gadgets/big", "/apis/example.com/v2/gadgets"}
}

// fixtureObjects are objects of Kubernetes' own kinds, by the path of their collections.
func fixtureObjects() [][2]string {
	const meta = `"metadata":{"name":%q,"labels":{"app":"example"}}`
	object := func(kind, name, rest string) string {
		return fmt.Sprintf(`{"kind":%q,`+meta+`%s}`, kind, name, rest)
	}
	const template = `{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"nginx:1","ports":[{"containerPort":80}]}]}}`
	return [][2]string{
		{team + "/configmaps", object("ConfigMap", "settings", `,"data":{"a":"1"},"binaryData":{"b":"AAEC"}`)},
		{team + "/serviceaccounts", object("ServiceAccount", "robot", "")},
		{team + "/services", object("Service", "web", `,"spec":{"selector":{"app":"web"},"ports":[{"port":80}]}`)},
		{team + "/resourcequotas", object("ResourceQuota", "limit", `,"spec":{"hard":{"count/crontabs.example.com":"10","configmaps":"20"}}`)},
		{team + "/persistentvolumeclaims", object("PersistentVolumeClaim", "disk", `,"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}`)},
		{team + "/pods", object("Pod", "idle", `,"spec":{"serviceAccountName":"robot","containers":[{"name":"a","image":"busybox"}]}`)},
		{"/apis/apps/v1/namespaces/team/deployments", object("Deployment", "web", `,"spec":{"replicas":2,"selector":{"matchLabels":{"app":"web"}},"template":`+template+`}`)},
		{"/apis/batch/v1/namespaces/team/cronjobs", object("CronJob", "nightly", `,"spec":{"schedule":"@daily","jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"a","image":"busybox"}]}}}}}`)},
		{"/apis/networking.k8s.io/v1/namespaces/team/ingresses", object("Ingress", "web", `,"spec":{"defaultBackend":{"service":{"name":"web","port":{"number":80}}}}`)},
		{"/apis/autoscaling/v2/namespaces/team/horizontalpodautoscalers", object("HorizontalPodAutoscaler", "web", `,"spec":{"maxReplicas":3,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}}`)},
		{"/apis/coordination.k8s.io/v1/namespaces/team/leases", object("Lease", "leader", `,"spec":{"holderIdentity":"a","leaseDurationSeconds":15}`)},
		{"/apis/rbac.authorization.k8s.io/v1/namespaces/team/roles", object("Role", "reader", `,"rules":[{"apiGroups":["example.com"],"resources":["crontabs"],"verbs":["get","list"]}]`)},
		{"/apis/rbac.authorization.k8s.io/v1/namespaces/team/rolebindings", object("RoleBinding", "reader", `,"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"reader"},
			"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"jane"},{"kind":"ServiceAccount","namespace":"team","name":"robot"}]`)},
		{"/apis/rbac.authorization.k8s.io/v1/clusterroles", object("ClusterRole", "example", `,"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]`)},
		{"/apis/storage.k8s.io/v1/storageclasses", object("StorageClass", "fast", `,"provisioner":"example.com/fast"`)},
		{"/apis/scheduling.k8s.io/v1/priorityclasses", object("PriorityClass", "high", `,"value":1000`)},
		{"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", object("ValidatingAdmissionPolicy", "example.com", `,"spec":{
			"matchConstraints":{"resourceRules":[{"apiGroups":["example.com"],"apiVersions":["*"],"resources":["crontabs"],"operations":["CREATE"]}]},
			"validations":[{"expression":"object.spec.schedule != ''"}]}`)},
	}
}

// writeFixture writes the data of a release with a server from this tree.
func writeFixture(t *testing.T, dir, release string) {
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatalf("the data of a release is written once: %v", err)
	}
	write := func(name string, text []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	secrets := func(providers ...string) []byte {
		return []byte(servertest.EncryptionRules(servertest.EncryptionRule("secrets", providers...), servertest.EncryptionRule("widgets.example.com", providers...)))
	}
	hook := newReleaseHook(t)
	o := releaseOptions(t, "")
	// run runs a server. The data is written by several, with other encryption configurations.
	run := func(providers []string, do func(s *servertest.Running)) {
		t.Helper()
		if providers != nil {
			write(encryptionFile, secrets(providers...))
			o.EncryptionProviderConfig = filepath.Join(dir, encryptionFile)
		}
		running, err := servertest.TryStart(t, o)
		if err != nil {
			t.Fatal(err)
		}
		s := servertest.Use(t, running, o)
		do(s)
		s.Client.CloseIdleConnections()
		if err := running.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	stored := func(s *servertest.Running, key, part string) {
		t.Helper()
		if got := s.Stored(key); !strings.Contains(got, part) {
			t.Fatalf("%s is stored as %.200q, without %s", key, got, part)
		}
	}
	create := func(s *servertest.Running, path, body string) {
		t.Helper()
		version := strings.TrimPrefix(strings.TrimPrefix(path, "/apis/"), "/api/")
		version, _, _ = strings.Cut(version, "/namespaces/")
		if strings.HasPrefix(path, "/apis/") {
			parts := strings.Split(path, "/")
			version = parts[2] + "/" + parts[3]
		}
		s.Must(http.StatusCreated, http.MethodPost, path, `{"apiVersion":"`+version+`",`+strings.TrimPrefix(body, "{"))
	}
	established := func(s *servertest.Running, name string) {
		t.Helper()
		servertest.Eventually(t, func() error {
			if !servertest.IsEstablished(t, s.Server, s.Client, name) {
				return fmt.Errorf("%s is not established", name)
			}
			return nil
		})
	}
	secret := func(s *servertest.Running, name string) {
		t.Helper()
		create(s, team+"/secrets", fmt.Sprintf(`{"kind":"Secret","metadata":{"name":%q},"stringData":{"password":"example"}}`, name))
	}

	run(nil, func(s *servertest.Running) {
		s.Must(http.StatusCreated, http.MethodPost, "/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"team","labels":{"a":"b"}}}`)
		servertest.Eventually(t, func() error {
			if code, text := servertest.Get(t, s.Server, s.Client, team+"/serviceaccounts/default"); code != http.StatusOK {
				return errors.New(text)
			}
			return nil
		})
		s.Must(http.StatusCreated, http.MethodPost, servertest.CRDs, crontabCRD("v1alpha1"))
		established(s, "crontabs.example.com")
		for _, name := range []string{"old", "leaving", "deleted"} {
			create(s, "/apis/example.com/v1alpha1"+crontabs, fmt.Sprintf(`{"kind":"CronTab","metadata":{"name":%q,"finalizers":["example.com/wait"]},"spec":{"schedule":"@daily"}}`, name))
		}
		stored(s, "example.com/crontabs/team/old", `"example.com/v1alpha1"`)
		secret(s, "plain")
		if _, err := servertest.Etcd(t, o).Compact(t.Context(), 20); err != nil {
			t.Fatal(err)
		}
	})
	first, second := servertest.EncryptionProvider("aescbc", 'a'), servertest.EncryptionProvider("aesgcm", 'b')
	run([]string{first, `{"identity":{}}`}, func(s *servertest.Running) {
		secret(s, "first")
		stored(s, "secrets/team/first", "k8s:enc:aescbc:v1:key-a:")
		stored(s, "secrets/team/plain", "k8s\x00")
	})
	run([]string{second, first, `{"identity":{}}`}, func(s *servertest.Running) {
		secret(s, "second")
		s.Must(http.StatusCreated, http.MethodPost, "/apis/apiextensions.k8s.io/v1beta1/customresourcedefinitions", `{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"CustomResourceDefinition",
			"metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","version":"v1","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},
			"validation":{"openAPIV3Schema":{"properties":{"spec":{"properties":{"size":{"type":"integer"}}}}}}}}`)
		established(s, "widgets.example.com")
		create(s, "/apis/example.com/v1/namespaces/team/widgets", `{"kind":"Widget","metadata":{"name":"beta"},"spec":{"size":1,"unknown":true},"extra":[1,"a"]}`)
		stored(s, "example.com/widgets/team/beta", "k8s:enc:aesgcm:v1:key-b:")
		stored(s, "secrets/team/second", "k8s:enc:aesgcm:v1:key-b:")

		s.Must(http.StatusCreated, http.MethodPost, servertest.CRDs, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"gadgets.example.com"},"spec":{
			"group":"example.com","scope":"Cluster","names":{"plural":"gadgets","kind":"Gadget"},"conversion":`+conversionBy(hook)+`,"versions":[
			{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"size":{"type":"integer"}}}}}}},
			{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"dimension":{"type":"object","properties":{"size":{"type":"integer"}}}}}}}}}]}}`)
		established(s, "gadgets.example.com")
		create(s, "/apis/example.com/v2/gadgets", `{"kind":"Gadget","metadata":{"name":"big"},"spec":{"dimension":{"size":7}}}`)
		stored(s, "example.com/gadgets/big", `"spec":{"size":7}`)

		s.Must(http.StatusOK, http.MethodPatch, servertest.CRDs+"/crontabs.example.com", `{"spec":`+specOf(t, crontabCRD("v1"))+`}`)
		for manager, image := range map[string]string{"one": "a:1", "two": "b:1"} {
			apply(t, s, "/apis/example.com/v1"+crontabs+"/applied?fieldManager="+manager, fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"CronTab","metadata":{"name":"applied","annotations":{%q:"yes"}},
				"spec":{"schedule":"@daily","raw":{"any":{"thing":1.5}},"containers":[{"name":%q,"image":%q}]}}`, manager, manager, image))
		}
		stored(s, "example.com/crontabs/team/applied", `"apiVersion":"example.com/v1"`)
		s.Must(http.StatusOK, http.MethodPatch, "/apis/example.com/v1"+crontabs+"/applied/status", `{"status":{"replicas":2,"message":"done"}}`)
		s.Must(http.StatusOK, http.MethodPatch, "/apis/example.com/v1"+crontabs+"/deleted", `{"metadata":{"finalizers":null}}`)
		for _, name := range []string{"leaving", "deleted"} {
			s.Must(http.StatusOK, http.MethodDelete, "/apis/example.com/v1"+crontabs+"/"+name, "")
		}
		stored(s, "example.com/crontabs/team/old", `"example.com/v1alpha1"`)
		for _, object := range fixtureObjects() {
			create(s, object[0], object[1])
		}
		servertest.Eventually(t, func() error {
			if _, text := servertest.Get(t, s.Server, s.Client, team+"/resourcequotas/limit"); !strings.Contains(text, `"used":{`) {
				return errors.New(text)
			}
			return nil
		})
		var token struct{ Status struct{ Token string } }
		if err := json.Unmarshal([]byte(s.Must(http.StatusCreated, http.MethodPost, team+"/serviceaccounts/robot/token",
			`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":4294967296}}`)), &token); err != nil {
			t.Fatal(err)
		}
		write(tokenFile, []byte(token.Status.Token))

		var answers []string
		plain, converted := fixtureReads()
		for i, path := range append(plain, converted...) {
			a := ask(t, s, path)
			a.Converts = i >= len(plain)
			if a.Code != http.StatusOK && !strings.HasSuffix(path, "/deleted") {
				t.Fatalf("%s: %d: %v", path, a.Code, a.Body)
			}
			text, err := json.Marshal(a)
			if err != nil {
				t.Fatal(err)
			}
			answers = append(answers, string(text))
		}
		write(answersFile, []byte("[\n"+strings.Join(answers, ",\n")+"\n]\n"))

		backup := filepath.Join(t.TempDir(), "backup.db")
		if _, err := server.Backup(t.Context(), o, server.BackupOptions{Path: backup, Version: release}); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(backup)
		if err != nil {
			t.Fatal(err)
		}
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		if _, err := z.Write(text); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		write(backupFile, packed.Bytes())
	})
	write(dataFile, pack(t, o.DataDir))
}

// specOf returns the spec of an object.
func specOf(t *testing.T, text string) string {
	t.Helper()
	var o struct{ Spec json.RawMessage }
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	return string(o.Spec)
}

// apply applies an object with server-side apply.
func apply(t *testing.T, s *servertest.Running, path, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, s.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/apply-patch+yaml")
	resp, err := s.Client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil || resp.StatusCode >= 300 {
		t.Fatalf("%s: %d: %s (%v)", path, resp.StatusCode, text, err)
	}
}

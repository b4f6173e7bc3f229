package builtin_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/client-go/discovery"

	"espalier.dev/server"
	"espalier.dev/server/servertest"
)

func start(t *testing.T) (*server.Server, *http.Client) {
	t.Helper()
	s := servertest.Start(t, servertest.Options(t))
	return s, servertest.Client(t, s, nil)
}

// TestAggregatorProxy sends requests to a server behind the proxy.
func TestAggregatorProxy(t *testing.T) {
	t.Parallel()
	s, c := start(t)
	b := newBackend(t, "widgets", "widgets.example.com")
	const version = "/apis/widgets.example.com/v1"
	if code, _ := servertest.Get(t, s, c, version); code != http.StatusNotFound {
		t.Error("before the API service exists:", code)
	}
	b.register(s, c, "widgets")
	await(t, s, c, "v1.widgets.example.com", "True", "Passed")

	t.Run("request", func(t *testing.T) {
		path := version + "/namespaces/default/widgets/one"
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, s.URL()+path+"?dryRun=All", strings.NewReader(`{"a":1}`))
		if err != nil {
			t.Fatal(err)
		}
		// Nothing of what a client claims to be, or has as credentials, reaches the other server.
		for name, value := range map[string]string{"X-Remote-User": "root", "X-Remote-Group": "system:masters", "X-Remote-Extra-Power": "all",
			"X-Remote-Uid": "0", "Impersonate-User": "ann", "Impersonate-Group": "gardeners", "Impersonate-Extra-Tool": "spade", "Content-Type": "application/json"} {
			req.Header.Set(name, value)
		}
		req.Header.Add("Impersonate-Group", "system:masters")
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			t.Fatal(err)
		}
		if want := `{"apiVersion":"widgets.example.com/v1","body":"{\"a\":1}","kind":"Widget","method":"PUT","path":"` + path + `","query":"dryRun=All"}`; string(text) != want {
			t.Errorf("%s\nwant %s", text, want)
		}
		got := b.last(t, path)
		for name, want := range map[string]string{"X-Remote-User": "[ann]", "X-Remote-Group": "[gardeners system:masters system:authenticated]",
			"X-Remote-Extra-Tool": "[spade]", "X-Remote-Extra-Power": "[]", "X-Remote-Uid": "[]", "Impersonate-User": "[]", "Authorization": "[]"} {
			if have := fmt.Sprint(got.Header.Values(name)); have != want {
				t.Errorf("%s: %s, want %s", name, have, want)
			}
		}
		if certs := got.TLS.PeerCertificates; len(certs) == 0 || certs[0].Subject.CommonName != "espalier-front-proxy" {
			t.Error("the proxy has another certificate:", certs)
		}
	})
	t.Run("authorization", func(t *testing.T) {
		ann := servertest.Client(t, s, servertest.User(t, s, "ann"))
		if code, text := servertest.Get(t, s, ann, version+"/namespaces/default/widgets"); code != http.StatusForbidden ||
			!strings.Contains(text, `User \"ann\" cannot list resource \"widgets\" in API group \"widgets.example.com\"`) {
			t.Error(code, text)
		}
	})
	t.Run("redirect", func(t *testing.T) {
		if code, text := servertest.Get(t, s, c, version+"/namespaces/default/widgets/moved"); code != http.StatusBadGateway ||
			text != "the backend attempted to redirect this request, which is not permitted" {
			t.Error(code, text)
		}
	})
	t.Run("upgrade", func(t *testing.T) {
		c := requestUpgrade(t, s, version+"/namespaces/default/widgets/one/exec")
		c.exchange(t)
	})
	t.Run("discovery", func(t *testing.T) { checkDiscovery(t, s, c) })
	t.Run("automatic", func(t *testing.T) { checkAutomatic(t, s, c) })
	t.Run("trust", func(t *testing.T) {
		_, text := servertest.Get(t, s, c, "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication")
		for _, want := range []string{`"client-ca-file":"-----BEGIN`, `"requestheader-client-ca-file":"-----BEGIN`, `"requestheader-allowed-names":"[\"espalier-front-proxy\"]"`,
			`"requestheader-username-headers":"[\"X-Remote-User\"]"`, `"requestheader-group-headers":"[\"X-Remote-Group\"]"`,
			`"requestheader-extra-headers-prefix":"[\"X-Remote-Extra-\"]"`} {
			if !strings.Contains(text, want) {
				t.Errorf("%s\nlacks %s", text, want)
			}
		}
	})
	t.Run("namespace", func(t *testing.T) {
		// It has an object until that is deleted.
		path := version + "/namespaces/full/widgets"
		var deleted atomic.Bool
		b.behave(func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != path {
				return false
			}
			w.Header().Set("Content-Type", "application/json")
			if r.Method == http.MethodDelete {
				deleted.Store(true)
			}
			if deleted.Load() {
				_, _ = io.WriteString(w, `{"items":[]}`)
			} else {
				_, _ = io.WriteString(w, `{"items":[{"metadata":{"name":"one"}}]}`)
			}
			return true
		})
		defer b.behave(nil)
		deleteNamespace(t, s, c, "full")
		gone(t, s, c, "/api/v1/namespaces/full")
		if !deleted.Load() {
			t.Error("the object of the other server was not deleted")
		}
		if user := b.last(t, path).Header.Get("X-Remote-User"); user != "system:serviceaccount:kube-system:namespace-controller" {
			t.Error("it was asked by", user)
		}
	})
	t.Run("watch", func(t *testing.T) {
		resp, err := c.Get(s.URL() + version + "/widgets?watch=true")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		lines := bufio.NewReader(resp.Body)
		if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, `"ADDED"`) {
			t.Fatal("the first event is not sent at once:", line, err)
		}
		b.die()
		if rest, err := io.ReadAll(lines); len(rest) > 0 {
			t.Errorf("after the server has died: %s %v", rest, err)
		}
	})
	// Now it is dead. A change of the service makes the server look at once.
	if code, text := servertest.Exchange(t, c, http.MethodPatch, s.URL()+"/api/v1/namespaces/default/services/widgets", `{"metadata":{"labels":{"a":"b"}}}`); code != http.StatusOK {
		t.Fatal(code, text)
	}
	await(t, s, c, "v1.widgets.example.com", "False", "FailedDiscoveryCheck")
	servertest.Eventually(t, func() error {
		if code, text := servertest.Get(t, s, c, version+"/widgets"); code != http.StatusServiceUnavailable || text != "service unavailable\n" {
			return fmt.Errorf("%d %q", code, text)
		}
		return nil
	})
	t.Run("namespace of a dead server", func(t *testing.T) {
		deleteNamespace(t, s, c, "waits")
		servertest.Eventually(t, func() error {
			_, text := servertest.Get(t, s, c, "/api/v1/namespaces/waits")
			if want := "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: widgets.example.com/v1: stale GroupVersion discovery: widgets.example.com/v1"; !strings.Contains(text, want) {
				return errors.New(text)
			}
			return nil
		})
	})
	// The condition changes when the endpoints do.
	if code, text := servertest.Exchange(t, c, http.MethodDelete, s.URL()+"/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/widgets", ""); code != http.StatusOK {
		t.Fatal(code, text)
	}
	await(t, s, c, "v1.widgets.example.com", "False", "EndpointsNotFound")
	if code, text := servertest.Exchange(t, c, http.MethodDelete, s.URL()+apiServices+"/v1.widgets.example.com", ""); code != http.StatusOK {
		t.Fatal(code, text)
	}
	gone(t, s, c, version)
	gone(t, s, c, "/api/v1/namespaces/waits")
	if _, text := servertest.Get(t, s, c, "/apis"); strings.Contains(text, "widgets.example.com") {
		t.Error("the group is still listed")
	}
}

// deleteNamespace creates and deletes a namespace.
func deleteNamespace(t *testing.T, s *server.Server, c *http.Client, name string) {
	t.Helper()
	if code, text := servertest.Exchange(t, c, http.MethodPost, s.URL()+"/api/v1/namespaces", `{"metadata":{"name":"`+name+`"}}`); code != http.StatusCreated {
		t.Fatal(code, text)
	}
	if code, text := servertest.Exchange(t, c, http.MethodDelete, s.URL()+"/api/v1/namespaces/"+name, ""); code != http.StatusOK {
		t.Fatal(code, text)
	}
}

// gone waits until a path is not found.
func gone(t *testing.T, s *server.Server, c *http.Client, path string) {
	t.Helper()
	servertest.Eventually(t, func() error {
		if code, text := servertest.Get(t, s, c, path); code != http.StatusNotFound {
			return fmt.Errorf("%s: %d %s", path, code, text)
		}
		return nil
	})
}

// checkDiscovery checks what clients discover while the server of widgets is available.
func checkDiscovery(t *testing.T, s *server.Server, c *http.Client) {
	config, err := s.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	client, err := discovery.NewDiscoveryClientForConfigAndClient(config, c)
	if err != nil {
		t.Fatal(err)
	}
	for name, client := range map[string]discovery.DiscoveryInterface{"aggregated": client, "legacy": client.WithLegacy()} {
		servertest.Eventually(t, func() error {
			groups, lists, err := client.ServerGroupsAndResources()
			if err != nil {
				return err
			}
			var names []string
			for _, g := range groups {
				names = append(names, g.Name)
			}
			// Its priority is lower than those of Kubernetes' own groups.
			if i := slices.Index(names, "widgets.example.com"); i < slices.Index(names, "apps") || i < slices.Index(names, "apiextensions.k8s.io") {
				return fmt.Errorf("%s: groups %s", name, names)
			}
			apps := 0
			for _, list := range lists {
				switch list.GroupVersion {
				case "apps/v1":
					apps = len(list.APIResources)
				case "widgets.example.com/v1":
					if len(list.APIResources) != 1 || list.APIResources[0].Name != "widgets" || list.APIResources[0].Kind != "Widget" {
						return fmt.Errorf("%s: %v", name, list.APIResources)
					}
				}
			}
			if apps < 5 {
				return fmt.Errorf("%s: apps/v1 has %d resources: the other server lists none", name, apps)
			}
			return nil
		})
	}
	if _, text := servertest.Get(t, s, c, "/apis/widgets.example.com"); !strings.Contains(text, `"preferredVersion":{"groupVersion":"widgets.example.com/v1","version":"v1"}`) {
		t.Error(text)
	}
	if _, text := servertest.Get(t, s, c, "/openapi/v3"); !strings.Contains(text, `"apis/widgets.example.com/v1":{"serverRelativeURL":"/openapi/v3/apis/widgets.example.com/v1?hash=ABC"}`) {
		t.Error("the list of OpenAPI documents lacks the version")
	}
	servertest.Eventually(t, func() error {
		code, text := servertest.Get(t, s, c, "/openapi/v2")
		if code != http.StatusOK || !strings.Contains(text, `"/apis/widgets.example.com/v1/widgets":{`) || !strings.Contains(text, `"/apis/apps/v1/deployments":{`) {
			return fmt.Errorf("OpenAPI v2: %d, %d bytes", code, len(text))
		}
		return nil
	})
	if code, text := servertest.Get(t, s, c, "/openapi/v3/apis/widgets.example.com/v1?hash=ABC"); code != http.StatusOK || !strings.Contains(text, `"title":"widgets"`) {
		t.Error(code, text)
	}
}

// checkAutomatic checks the API services of the server itself, and of a CRD.
func checkAutomatic(t *testing.T, s *server.Server, c *http.Client) {
	type service struct {
		Metadata struct {
			Name   string
			Labels map[string]string
		}
		Spec struct {
			Group, Version                        string
			GroupPriorityMinimum, VersionPriority int
		}
	}
	_, text := servertest.Get(t, s, c, apiServices)
	var list struct{ Items []service }
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatal(err)
	}
	byName := map[string]service{}
	for _, one := range list.Items {
		byName[one.Metadata.Name] = one
	}
	for name, want := range map[string]string{
		"v1.": "onstart 18000 1", "v1.apps": "onstart 17800 15", "v2.autoscaling": "onstart 17500 30", "v1.apiextensions.k8s.io": "onstart 16700 15",
		"v1.discovery.k8s.io": "onstart 16200 15",
	} {
		one := byName[name]
		if got := fmt.Sprintf("%s %d %d", one.Metadata.Labels["kube-aggregator.kubernetes.io/automanaged"], one.Spec.GroupPriorityMinimum, one.Spec.VersionPriority); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		if status, reason, message := condition(t, s, c, name); status+reason+message != "TrueLocalLocal APIServices are always available" {
			t.Errorf("%s: %s %s %s", name, status, reason, message)
		}
	}
	if _, ok := byName["v1.apiregistration.k8s.io"]; ok {
		t.Error("the group of API services has one, unlike in kube-apiserver")
	}
	if code, text := servertest.Exchange(t, c, http.MethodPost, s.URL()+servertest.CRDs, servertest.ThingCRD("crd.example.com")); code != http.StatusCreated {
		t.Fatal(code, text)
	}
	await(t, s, c, "v1.crd.example.com", "True", "Local")
	// It is kept while the CRD exists, and goes with it.
	if code, text := servertest.Exchange(t, c, http.MethodDelete, s.URL()+apiServices+"/v1.crd.example.com", ""); code != http.StatusOK {
		t.Fatal(code, text)
	}
	await(t, s, c, "v1.crd.example.com", "True", "Local")
	_, text = servertest.Get(t, s, c, apiServices+"/v1.crd.example.com")
	if !strings.Contains(text, `"kube-aggregator.kubernetes.io/automanaged":"true"`) || !strings.Contains(text, `"groupPriorityMinimum":1000,"versionPriority":100`) {
		t.Error(text)
	}
	if code, text := servertest.Exchange(t, c, http.MethodDelete, s.URL()+servertest.CRDs+"/things.crd.example.com", ""); code != http.StatusOK {
		t.Fatal(code, text)
	}
	gone(t, s, c, apiServices+"/v1.crd.example.com")
}

// TestAggregatorHangs has a server that stops to answer: nothing else does, and requests end. An upgraded connection goes on,
// whatever its resource is.
func TestAggregatorHangs(t *testing.T) {
	t.Parallel()
	o := servertest.Options(t)
	o.RequestTimeout = 4 * time.Second // enough for the first request for API services
	s := servertest.Start(t, o)
	c := servertest.Client(t, s, nil)
	b := newBackend(t, "hangs", "hangs.example.com")
	b.register(s, c, "hangs")
	await(t, s, c, "v1.hangs.example.com", "True", "Passed")
	upgraded := requestUpgrade(t, s, "/apis/hangs.example.com/v1/namespaces/default/widgets/one/vnc")
	b.behave(func(_ http.ResponseWriter, r *http.Request) bool {
		select {
		case <-r.Context().Done():
		case <-b.stop:
		}
		return true
	})
	for _, path := range []string{"/apis/hangs.example.com/v1/widgets", "/apis/hangs.example.com/v1/widgets?watch=true"} {
		begun := time.Now()
		code, text := servertest.Get(t, s, c, path)
		if code != http.StatusGatewayTimeout && code != http.StatusServiceUnavailable || time.Since(begun) > 30*time.Second {
			t.Errorf("%s: %d %s after %v", path, code, text, time.Since(begun))
		}
		upgraded.exchange(t) // its request began earlier
	}
	for _, path := range []string{"/apis", "/openapi/v3", "/apis/apps/v1/deployments", apiServices} {
		begun := time.Now()
		if code, text := servertest.Get(t, s, c, path); code != http.StatusOK || time.Since(begun) > 30*time.Second {
			t.Errorf("%s: %d %s after %v", path, code, text, time.Since(begun))
		}
	}
}

// TestAggregatorLies has servers with wrong documents: they cannot change what this server says about itself.
func TestAggregatorLies(t *testing.T) {
	t.Parallel()
	s, c := start(t)
	const accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	listed := func() string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+"/apis", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", accept)
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for name, document := range map[string]string{
		"broken": `{"items":[`,
		"huge":   `{"items":[{"metadata":{"name":"` + strings.Repeat("x", 5<<20) + `"}}]}`,
		"deep":   strings.Repeat("[", 1<<20),
		"other":  `{"items":[{"metadata":{"name":"apps"},"versions":[{"version":"v1","resources":[{"resource":"lies"}]}]}]}`,
	} {
		b := newBackend(t, name, name+".example.com")
		b.behave(func(w http.ResponseWriter, r *http.Request) bool {
			switch r.URL.Path {
			case "/apis", "/apis/" + name + ".example.com/v1", "/openapi/v3":
			default:
				return false
			}
			w.Header().Set("Content-Type", accept)
			_, _ = io.WriteString(w, document)
			return true
		})
		b.register(s, c, name)
		await(t, s, c, "v1."+name+".example.com", "True", "Passed")
		want := `"freshness":"Stale"`
		if name == "other" {
			want = `"freshness":"Current"` // it has no resources
		}
		servertest.Eventually(t, func() error {
			text := listed()
			_, after, ok := strings.Cut(text, `{"name":"`+name+`.example.com"`)
			after, _, _ = strings.Cut(after, `{"metadata":`)
			if !ok || !strings.Contains(after, want) || strings.Contains(after, `"resource":`) {
				return fmt.Errorf("%s: %s", name, after)
			}
			if strings.Contains(text, "lies") || !strings.Contains(text, `"resource":"deployments"`) || len(text) > 1<<20 {
				return fmt.Errorf("%s: the document of this server is not as before", name)
			}
			return nil
		})
	}
}

// TestAggregatorUntrusted has a server whose certificate is not that of the API service.
func TestAggregatorUntrusted(t *testing.T) {
	t.Parallel()
	s, c := start(t)
	b := newBackend(t, "another", "untrusted.example.com")
	b.register(s, c, "untrusted")
	await(t, s, c, "v1.untrusted.example.com", "False", "FailedDiscoveryCheck")
	if _, _, message := condition(t, s, c, "v1.untrusted.example.com"); !strings.Contains(message, "certificate is valid for another.default.svc, not untrusted.default.svc") {
		t.Error(message)
	}
	if code, text := servertest.Exchange(t, c, http.MethodPatch, s.URL()+apiServices+"/v1.untrusted.example.com",
		`{"spec":{"caBundle":null,"insecureSkipTLSVerify":true}}`); code != http.StatusOK {
		t.Fatal(code, text)
	}
	await(t, s, c, "v1.untrusted.example.com", "True", "Passed")
	if code, text := servertest.Get(t, s, c, "/apis/untrusted.example.com/v1/widgets"); code != http.StatusOK {
		t.Error(code, text)
	}
}

const configMaps = "/api/v1/namespaces/default/configmaps"

// TestAggregatorTakesOver has an API service for the version of a CRD: only a client can give it to another server,
// and it stays so after a restart.
func TestAggregatorTakesOver(t *testing.T) {
	t.Parallel()
	o := servertest.Options(t)
	s, err := servertest.TryStart(t, o)
	if err != nil {
		t.Fatal(err)
	}
	c := servertest.Client(t, s, nil)
	if code, text := servertest.Exchange(t, c, http.MethodPost, s.URL()+servertest.CRDs, servertest.ThingCRD("both.example.com")); code != http.StatusCreated {
		t.Fatal(code, text)
	}
	await(t, s, c, "v1.both.example.com", "True", "Local")
	b := newBackend(t, "both", "both.example.com")
	// The service does not exist, so the other server cannot be reached.
	if code, text := servertest.Exchange(t, c, http.MethodPatch, s.URL()+apiServices+"/v1.both.example.com",
		`{"metadata":{"labels":null},"spec":{"insecureSkipTLSVerify":true,"service":{"namespace":"default","name":"both"}}}`); code != http.StatusOK {
		t.Fatal(code, text)
	}
	await(t, s, c, "v1.both.example.com", "False", "ServiceNotFound")
	if code, _ := servertest.Get(t, s, c, "/apis/both.example.com/v1/things"); code != http.StatusServiceUnavailable {
		t.Error("the CRD still serves it:", code)
	}
	// Whether an owner on the other server exists is not known, so its dependents are kept.
	for _, one := range [][2]string{{"remote", `"apiVersion":"both.example.com/v1","kind":"Thing"`}, {"local", `"apiVersion":"v1","kind":"ConfigMap"`}} {
		name, owner := one[0], one[1]
		if code, text := servertest.Exchange(t, c, http.MethodPost, s.URL()+configMaps,
			`{"metadata":{"name":"`+name+`","ownerReferences":[{`+owner+`,"name":"owner","uid":"`+name+`"}]}}`); code != http.StatusCreated {
			t.Fatal(code, text)
		}
	}
	gone(t, s, c, configMaps+"/local")
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	o.ServiceResolver = []string{"both.default=https://" + b.Listener.Addr().String()}
	s = servertest.Start(t, o)
	c = servertest.Client(t, s, nil)
	await(t, s, c, "v1.both.example.com", "True", "Passed")
	if code, text := servertest.Get(t, s, c, "/apis/both.example.com/v1/things"); code != http.StatusOK || !strings.Contains(text, `"kind":"Widget"`) {
		t.Error(code, text)
	}
	if code, text := servertest.Get(t, s, c, configMaps+"/remote"); code != http.StatusOK {
		t.Error("the dependent of an owner on the other server:", code, text)
	}
	// The CRD gets its version back, and the owner is known not to exist.
	if code, text := servertest.Exchange(t, c, http.MethodDelete, s.URL()+apiServices+"/v1.both.example.com", ""); code != http.StatusOK {
		t.Fatal(code, text)
	}
	await(t, s, c, "v1.both.example.com", "True", "Local")
	if code, text := servertest.Get(t, s, c, "/apis/both.example.com/v1/things"); code != http.StatusOK || !strings.Contains(text, `"kind":"ThingList"`) {
		t.Error(code, text)
	}
	gone(t, s, c, configMaps+"/remote")
}

// TestAggregatorNothingStored checks that a server stores no API services before a client asks for them.
func TestAggregatorNothingStored(t *testing.T) {
	t.Parallel()
	o := servertest.Options(t)
	s := servertest.Start(t, o)
	c := servertest.Client(t, s, nil)
	if code, text := servertest.Get(t, s, c, "/apis/apps/v1/deployments"); code != http.StatusOK {
		t.Fatal(code, text)
	}
	count := func() int64 {
		resp, err := servertest.Etcd(t, o).Get(t.Context(), "/registry/apiregistration.k8s.io/apiservices/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			t.Fatal(err)
		}
		return resp.Count
	}
	if n := count(); n != 0 {
		t.Errorf("%d API services are stored", n)
	}
	if _, text := servertest.Get(t, s, c, apiServices+"?labelSelector=kube-aggregator.kubernetes.io/automanaged=onstart"); strings.Count(text, `"reason":"Local"`) < 20 {
		t.Error("the first list lacks API services:", text)
	}
}

// TestAggregatorForeignName has a stored API service whose name is not that of a group and version, which no client of this
// server can create.
func TestAggregatorForeignName(t *testing.T) {
	t.Parallel()
	o := servertest.Options(t)
	s := servertest.Start(t, o)
	c := servertest.Client(t, s, nil)
	const stored = `{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"nothing","uid":"1"},"spec":{"groupPriorityMinimum":1,"versionPriority":1,"insecureSkipTLSVerify":true,"service":{"namespace":"default","name":"nothing"}}}`
	if _, err := servertest.Etcd(t, o).Put(t.Context(), "/registry/apiregistration.k8s.io/apiservices/nothing", stored); err != nil {
		t.Fatal(err)
	}
	if code, text := servertest.Get(t, s, c, apiServices+"/nothing"); code != http.StatusOK || !strings.Contains(text, `"name":"nothing"`) {
		t.Error(code, text)
	}
	b := newBackend(t, "named", "named.example.com")
	b.register(s, c, "named")
	await(t, s, c, "v1.named.example.com", "True", "Passed")
}

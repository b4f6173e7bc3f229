package builtin_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"espalier.dev/server"
	"espalier.dev/server/servertest"
)

const apiServices = "/apis/apiregistration.k8s.io/v1/apiservices"

// backend is another API server, with one resource, widgets. Its fields change how it behaves.
type backend struct {
	*testing.T
	*httptest.Server
	group, ca string

	mu sync.Mutex
	// requests are the headers of all requests of clients.
	requests []*http.Request
	// answer, if set, answers requests instead.
	answer func(w http.ResponseWriter, r *http.Request) (done bool)
	// stop ends all watches when it is closed.
	stop chan struct{}
}

// newBackend starts a server for the version v1 of a group, as the service NAME in the namespace default.
func newBackend(t *testing.T, name, group string) *backend {
	t.Helper()
	cert, ca := certificate(t, name+".default.svc")
	b := &backend{T: t, group: group, ca: ca, stop: make(chan struct{})}
	b.Server = httptest.NewUnstartedServer(http.HandlerFunc(b.serve))
	b.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}
	b.EnableHTTP2 = true
	// Endpoints may have no loopback addresses.
	ip, err := utilnet.ChooseHostInterface()
	if err != nil {
		t.Skip("the host has no network:", err)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(ip.String(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	_ = b.Listener.Close()
	b.Listener = listener
	b.StartTLS()
	t.Cleanup(b.die)
	return b
}

// die ends the server and all of its connections.
func (b *backend) die() {
	b.mu.Lock()
	select {
	case <-b.stop:
	default:
		close(b.stop)
	}
	b.mu.Unlock()
	b.CloseClientConnections()
	b.Close()
}

// certificate returns a certificate for a name that is its own CA.
func certificate(t *testing.T, host string) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// behave sets what answers requests. The function reports whether it has.
func (b *backend) behave(answer func(w http.ResponseWriter, r *http.Request) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answer = answer
}

// last returns the last request with a path.
func (b *backend) last(t *testing.T, path string) *http.Request {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := len(b.requests) - 1; i >= 0; i-- {
		if b.requests[i].URL.Path == path {
			return b.requests[i]
		}
	}
	t.Fatalf("there was no request for %s", path)
	return nil
}

func (b *backend) serve(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	b.requests = append(b.requests, r)
	answer := b.answer
	b.mu.Unlock()
	if answer != nil && answer(w, r) {
		return
	}
	version := "/apis/" + b.group + "/v1"
	reply := func(contentType, text string) {
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, text)
	}
	const v2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	switch {
	case r.URL.Path == "/apis" && strings.Contains(r.Header.Get("Accept"), "v=v2;"):
		reply(v2, fmt.Sprintf(`{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[{"metadata":{"name":%q},"versions":[{"version":"v1",
"resources":[{"resource":"widgets","responseKind":{"group":%[1]q,"version":"v1","kind":"Widget"},"scope":"Namespaced","singularResource":"widget","verbs":["delete","get","list","watch","deletecollection"]}]}]},
{"metadata":{"name":"apps"},"versions":[{"version":"v1","resources":[]}]}]}`, b.group))
	case r.URL.Path == version:
		reply("application/json", fmt.Sprintf(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"%s/v1","resources":[{"name":"widgets","singularName":"widget","namespaced":true,"kind":"Widget","verbs":["delete","get","list","watch","deletecollection"]}]}`, b.group))
	case r.URL.Path == "/openapi/v3":
		reply("application/json", fmt.Sprintf(`{"paths":{"apis/%s/v1":{"serverRelativeURL":"/openapi/v3/apis/%[1]s/v1?hash=ABC"}}}`, b.group))
	case r.URL.Path == "/openapi/v3"+version:
		reply("application/json", `{"openapi":"3.0.0","info":{"title":"widgets"}}`)
	case r.URL.Path == "/openapi/v2":
		reply("application/json", fmt.Sprintf(`{"swagger":"2.0","info":{"title":"widgets","version":"v1"},"paths":{"/apis/%s/v1/widgets":{"get":{"responses":{"200":{"description":"OK"}}}}}}`, b.group))
	case r.URL.Query().Get("watch") != "":
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"type":"ADDED","object":{"apiVersion":"%s/v1","kind":"Widget","metadata":{"name":"one"}}}`+"\n", b.group)
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
		case <-b.stop:
			panic(http.ErrAbortHandler)
		}
	case strings.HasSuffix(r.URL.Path, "/exec"), strings.HasSuffix(r.URL.Path, "/vnc"):
		b.upgrade(w)
	case strings.HasSuffix(r.URL.Path, "/widgets/moved"):
		http.Redirect(w, r, "https://127.0.0.1:1/", http.StatusFound)
	case strings.HasPrefix(r.URL.Path, version+"/"):
		body, _ := io.ReadAll(r.Body)
		text, _ := json.Marshal(map[string]any{"apiVersion": b.group + "/v1", "kind": "Widget", "method": r.Method, "path": r.URL.Path,
			"query": r.URL.RawQuery, "body": string(body)})
		reply("application/json", string(text))
	default:
		http.NotFound(w, r)
	}
}

// upgrade switches protocols, and echoes lines.
func (b *backend) upgrade(w http.ResponseWriter) {
	conn, buffer, err := http.NewResponseController(w).Hijack()
	if err != nil {
		b.Error(err)
		return
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n")
	for lines := bufio.NewScanner(buffer); lines.Scan(); {
		_, _ = fmt.Fprintf(conn, "echo %s\n", lines.Text())
	}
}

// register creates the service with its endpoints, and the API service.
func (b *backend) register(s *server.Server, c *http.Client, name string) {
	b.Helper()
	host, port, err := net.SplitHostPort(b.Listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	for path, body := range map[string]string{
		"/api/v1/namespaces/default/services": fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"ports":[{"name":"https","port":443}]}}`, name),
		"/apis/discovery.k8s.io/v1/namespaces/default/endpointslices": fmt.Sprintf(`{"metadata":{"name":%q,"labels":{"kubernetes.io/service-name":%[1]q}},"addressType":"IPv4",
"endpoints":[{"addresses":[%q],"conditions":{"ready":true}}],"ports":[{"name":"https","port":%s,"protocol":"TCP"}]}`, name, host, port),
	} {
		if code, text := servertest.Exchange(b, c, http.MethodPost, s.URL()+path, body); code != http.StatusCreated {
			b.Fatalf("%d %s", code, text)
		}
	}
	ca, err := json.Marshal([]byte(b.ca))
	if err != nil {
		b.Fatal(err)
	}
	if code, text := servertest.Exchange(b, c, http.MethodPost, s.URL()+apiServices, fmt.Sprintf(`{"metadata":{"name":"v1.%s"},"spec":{"group":%[1]q,"version":"v1",
"groupPriorityMinimum":2000,"versionPriority":10,"service":{"namespace":"default","name":%q},"caBundle":%s}}`, b.group, name, ca)); code != http.StatusCreated {
		b.Fatalf("%d %s", code, text)
	}
}

// condition returns the condition of an API service, as status, reason and message.
func condition(t *testing.T, s *server.Server, c *http.Client, name string) (status, reason, message string) {
	t.Helper()
	code, text := servertest.Get(t, s, c, apiServices+"/"+name)
	if code == http.StatusNotFound {
		return "", "", text
	}
	var service struct {
		Status struct {
			Conditions []struct{ Type, Status, Reason, Message string }
		}
	}
	if err := json.Unmarshal([]byte(text), &service); err != nil {
		t.Fatal(err, text)
	}
	for _, one := range service.Status.Conditions {
		if one.Type == "Available" {
			return one.Status, one.Reason, one.Message
		}
	}
	return "", "", ""
}

// await waits until an API service has a status and a reason. If that is that it is available, it waits until requests
// are proxied, which may be a moment later.
func await(t *testing.T, s *server.Server, c *http.Client, name, status, reason string) {
	t.Helper()
	servertest.Eventually(t, func() error {
		gotStatus, gotReason, message := condition(t, s, c, name)
		if gotStatus != status || gotReason != reason {
			return fmt.Errorf("%s: %s %s %s", name, gotStatus, gotReason, message)
		}
		if reason != "Passed" {
			return nil
		}
		version, group, _ := strings.Cut(name, ".")
		if code, text := servertest.Get(t, s, c, "/apis/"+group+"/"+version+"/widgets"); code != http.StatusOK {
			return fmt.Errorf("%s: %d %s", name, code, text)
		}
		return nil
	})
}

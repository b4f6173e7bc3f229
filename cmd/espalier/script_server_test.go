package main

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"espalier.dev/espaliertest"
	"espalier.dev/schema"
)

// scriptServer is a server for a script.
type scriptServer struct {
	*espaliertest.Server
	client *http.Client
}

// serve starts a server, with the default semantics of the program. Commands find it with
// $KUBECONFIG and, if the script uses that, its etcd with $ETCD.
func (s *script) serve(t *testing.T) {
	t.Helper()
	var server *espaliertest.Server
	endpoint := ""
	if bytes.Contains(s.archive.Comment, []byte("$ETCD")) {
		e := newEtcdServer(t, espaliertest.WithSemantics(schema.KEP))
		server, endpoint = e.Server, e.endpoint
	} else {
		server = espaliertest.Start(t, espaliertest.WithSemantics(schema.KEP))
	}
	client, err := rest.HTTPClientFor(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	s.server = &scriptServer{server, client}
	s.variables = strings.NewReplacer("$KUBECONFIG", server.Kubeconfig(), "$ETCD", endpoint)
}

// send sends a request with a file as its body. The response is the standard output, and its
// warnings are the standard error. The exit code is 1 if the response is an error.
func (s *script) send(t *testing.T, line string) {
	t.Helper()
	words := strings.Fields(line)
	if s.server == nil || len(words) < 2 {
		t.Fatalf("send %s: want METHOD PATH [FILE] after server", line)
	}
	var body []byte
	if len(words) > 2 {
		text, err := os.ReadFile(filepath.Join(s.dir, words[2]))
		if err == nil {
			body, err = yaml.YAMLToJSON(text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	code, text, header, err := request(t.Context(), s.server.client, words[0], s.server.URL()+words[1], body)
	if err != nil {
		t.Fatal(err)
	}
	s.stdout, s.stderr, s.code = string(text), strings.Join(header.Values("Warning"), "\n"), 0
	if code > 299 {
		s.code = 1
	}
	s.ran, s.checked, s.last = true, false, line
}

package kubectl

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
	"k8s.io/client-go/rest"

	"espalier.dev/espaliertest"
	"espalier.dev/schema"
)

// TestOpenAPI uses the published documents as kubectl does: to explain fields, and to
// validate objects.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	s := newSession(t, espaliertest.WithSemantics(schema.KEP))
	old := s.oldServer(t)

	t.Run("S-10 explain", func(t *testing.T) {
		// kubectl requests v3, and v2 if a flag selects it or v3 is not available.
		for name, run := range map[string]func(t *testing.T, args ...string) string{
			"v3": s.ok,
			"v2": func(t *testing.T, args ...string) string {
				return s.ok(t, append(args, "-o", "plaintext-openapiv2")...)
			},
			"v2 as no v3": old.ok,
			"with versions": func(t *testing.T, args ...string) string {
				return s.ok(t, append(args, "--api-version=storage.example.com/v1")...)
			},
		} {
			t.Run(name, func(t *testing.T) {
				contains(t, columns(run(t, "explain", "backup")), "KIND: Backup", "Backup copies a volume.", "metadata <", "spec <", "What is to be copied.")
				contains(t, columns(run(t, "explain", "backups.spec")), "target <string> -required-", "copies <integer>", "How many copies to keep.", "steps <[]")
				contains(t, columns(run(t, "explain", "bk.spec.steps.command")), "command <string>", "A command line.")
				contains(t, columns(run(t, "explain", "backup", "--recursive")), "name <string>", "phase <string>", "ownerReferences <[]O")
				contains(t, run(t, "explain", "backup.spec.port"), "Where to reach the store, by number or name.")
			})
		}
		s.fails(t, `field "none" does not exist`, "explain", "backup.spec.none")
		contains(t, columns(s.ok(t, "explain", "backup.spec.mode")), "ENUM:\nFull\nIncremental\n")
		contains(t, columns(s.ok(t, "explain", "crd.spec.names")), "KIND: CustomResourceDefinition", "plural <string> -required-")
		contains(t, columns(s.ok(t, "explain", "crd", "--api-version=apiextensions.k8s.io/v1beta1", "--recursive")), "VERSION: v1beta1", "preserveUnknownFields <boolean>")
	})
	t.Run("S-10 validate", func(t *testing.T) {
		s.ok(t, "create", "--validate=strict", "--dry-run=server", "-f", s.backup(t, "right", "  target: home\n  port: http\n  steps: [{name: stop}]"))
		old.ok(t, "create", "--validate=strict", "--dry-run=client", "-f", s.backup(t, "right", "  target: home\n  steps: [{name: stop}]"))
		wrong := s.backup(t, "wrong", "  target: home\n  steps: [{nam: stop}]")
		s.fails(t, `unknown field "spec.steps[0].nam"`, "create", "--validate=strict", "--dry-run=server", "-f", wrong)
		old.fails(t, `unknown field "nam" in com.example.storage.v1.Backup.spec.steps`, "create", "--validate=strict", "--dry-run=client", "-f", wrong)
	})
	t.Run("V-18", func(t *testing.T) {
		t.Run("before sending", func(t *testing.T) {
			// This server does not support fieldValidation, so kubectl validates itself.
			for spec, want := range map[string]string{
				"  target: home\n  tarjet: home":     `unknown field "tarjet" in com.example.storage.v1.Backup.spec`,
				"  copies: 1":                        `missing required field "target" in com.example.storage.v1.Backup.spec`,
				"  target: home\n  copies: many":     `invalid type for com.example.storage.v1.Backup.spec.copies: got "string", expected "integer"`,
				"  target: home\n  steps: {name: a}": `invalid type for com.example.storage.v1.Backup.spec.steps: got "map", expected "array"`,
			} {
				file := s.backup(t, "early", spec)
				old.fails(t, want, "create", "--dry-run=client", "-f", file)
				old.ok(t, "create", "--dry-run=client", "--validate=ignore", "-f", file)
			}
		})
		t.Run("by the server", func(t *testing.T) {
			file := s.backup(t, "late", "  target: home\n  tarjet: home")
			for _, verb := range []string{"create", "apply"} {
				s.fails(t, `strict decoding error: unknown field "spec.tarjet"`, verb, "-f", file)
				s.fails(t, `strict decoding error: unknown field "spec.tarjet"`, verb, "--validate=strict", "-f", file)
				contains(t, s.ok(t, verb, "--validate=warn", "--dry-run=server", "-f", file), `Warning: unknown field "spec.tarjet"`, "backup.storage.example.com/late created (server dry run)")
				equal(t, s.ok(t, verb, "--validate=ignore", "--dry-run=server", "-f", file), "backup.storage.example.com/late created (server dry run)\n")
			}
			s.fails(t, `unknown field "spec.versions[0].shema"`, "create", "--dry-run=server", "-f", s.write(t, "typo.yaml", `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: things, kind: Thing}
  versions:
  - name: v1
    served: true
    storage: true
    shema: {}
    schema: {openAPIV3Schema: {type: object}}
`))
		})
	})
	t.Run("in both semantics", func(t *testing.T) {
		for _, which := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
			server := espaliertest.Start(t, espaliertest.WithSemantics(which))
			s := sessionOf(t, server)
			s.ok(t, "apply", "-f", s.testdata(t, "crd.yaml"))
			contains(t, s.ok(t, "explain", "backup.spec.port", "-o", "plaintext-openapiv2"), "Where to reach the store")
			s.fails(t, `unknown field "spec.tarjet"`, "apply", "-f", s.backup(t, "late", "  target: home\n  tarjet: home"))
		}
	})
	t.Run("after a change", func(t *testing.T) {
		s.ok(t, "patch", "crd", "backups.storage.example.com", "--type=json", "-p",
			`[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/owner","value":{"type":"string","description":"Who wants it."}}]`)
		contains(t, s.ok(t, "explain", "backup.spec.owner"), "Who wants it.")
		contains(t, s.ok(t, "explain", "backup.spec.owner", "-o", "plaintext-openapiv2"), "Who wants it.")
		s.created(t, "owned", "  target: home\n  owner: me")
	})
}

// oldServer returns a session with the same server behind a proxy that hides OpenAPI v3 and
// removes the parameter fieldValidation from v2, so that kubectl validates with the schemas
// of v2.
func (s *session) oldServer(t *testing.T) *session {
	t.Helper()
	config := s.server.Config()
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			if r.In.URL.Path == "/openapi/v2" {
				r.Out.Header.Del("Accept-Encoding")
			}
		},
		ModifyResponse: forgetFieldValidation,
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/openapi/v3") {
			http.NotFound(w, r)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	old := *s
	kubeconfig := s.write(t, "old-kubeconfig", `apiVersion: v1
kind: Config
clusters: [{name: old, cluster: {server: "`+front.URL+`"}}]
contexts: [{name: old, context: {cluster: old}}]
current-context: old
`)
	old.env = append(slices.Clone(s.env), "KUBECONFIG="+kubeconfig)
	return &old
}

// forgetFieldValidation removes a parameter from an OpenAPI v2 document.
func forgetFieldValidation(r *http.Response) error {
	if r.Request.URL.Path != "/openapi/v2" || r.StatusCode != http.StatusOK {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	var doc openapi_v2.Document
	if err := proto.Unmarshal(body, &doc); err != nil {
		return err
	}
	for _, path := range doc.GetPaths().GetPath() {
		if patch := path.GetValue().GetPatch(); patch != nil {
			patch.Parameters = slices.DeleteFunc(patch.Parameters, func(p *openapi_v2.ParametersItem) bool {
				return p.GetParameter().GetNonBodyParameter().GetQueryParameterSubSchema().GetName() == "fieldValidation" ||
					strings.Contains(p.GetJsonReference().GetXRef(), "fieldValidation")
			})
		}
	}
	if body, err = proto.Marshal(&doc); err != nil {
		return err
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	r.ContentLength = int64(len(body))
	r.Header.Set("Content-Length", strconv.Itoa(len(body)))
	r.Header.Del("Etag")
	return nil
}

package plugins_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"slices"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"sigs.k8s.io/yaml"

	"espalier.dev/server/plugins"
)

// kinds are the Go types and resources of the objects in the tests.
var kinds = map[string]struct {
	resource string
	object   func() runtime.Object
}{
	"Namespace":                 {"namespaces", func() runtime.Object { return &corev1.Namespace{} }},
	"Node":                      {"nodes", func() runtime.Object { return &corev1.Node{} }},
	"Event":                     {"events", func() runtime.Object { return &corev1.Event{} }},
	"Pod":                       {"pods", func() runtime.Object { return &corev1.Pod{} }},
	"ServiceAccount":            {"serviceaccounts", func() runtime.Object { return &corev1.ServiceAccount{} }},
	"PriorityClass":             {"priorityclasses", func() runtime.Object { return &schedulingv1.PriorityClass{} }},
	"CertificateSigningRequest": {"certificatesigningrequests", func() runtime.Object { return &certificatesv1.CertificateSigningRequest{} }},
}

// decode reads objects from YAML, one in each line.
func decode(t *testing.T, text string) (objects []runtime.Object) {
	t.Helper()
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		var head struct{ Kind string }
		if err := yaml.Unmarshal([]byte(line), &head); err != nil {
			t.Fatal(err)
		}
		obj := kinds[head.Kind].object()
		if err := yaml.UnmarshalStrict([]byte(line), obj); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, obj)
	}
	return objects
}

// stored are the objects that exist.
type stored []runtime.Object

func (s stored) Get(ctx context.Context, resource schema.GroupResource, namespace, name string) (runtime.Object, error) {
	all, err := s.List(ctx, resource, namespace)
	for _, obj := range all {
		if m, _ := meta.Accessor(obj); m.GetName() == name {
			return obj, nil
		}
	}
	if err == nil {
		err = apierrors.NewNotFound(resource, name)
	}
	return nil, err
}

func (s stored) List(_ context.Context, resource schema.GroupResource, namespace string) (found []runtime.Object, err error) {
	for _, obj := range s {
		m, _ := meta.Accessor(obj)
		gvk := obj.GetObjectKind().GroupVersionKind()
		if kinds[gvk.Kind].resource == resource.Resource && gvk.Group == resource.Group && m.GetNamespace() == namespace {
			found = append(found, obj)
		}
	}
	return found, nil
}

// request is a request to the plugins. Objects are YAML.
type request struct {
	name        string
	plugin      string
	stored      string
	object      string
	old         string
	delete      bool
	subresource string
	// configuration is that of the plugin.
	configuration string
	// want is the object after admission, as far as it is given, or the error.
	want string
	err  string
}

func (r request) run(t *testing.T, authz authorizer.Authorizer) error {
	t.Helper()
	objects := decode(t, r.stored)
	obj := decode(t, r.object)[0]
	var old runtime.Object
	op := admission.Create
	if r.old != "" {
		old, op = decode(t, r.old)[0], admission.Update
	}
	if r.delete {
		op = admission.Delete
	}
	all := plugins.All()
	i := slices.IndexFunc(all, func(p plugins.Plugin) bool { return p.Name == r.plugin })
	if i < 0 {
		t.Fatalf("no plugin %s", r.plugin)
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		t.Fatal(err)
	}
	gvk := obj.GetObjectKind().GroupVersionKind()
	a := admission.NewAttributesRecord(obj, old, gvk, m.GetNamespace(), m.GetName(), gvk.GroupVersion().WithResource(kinds[gvk.Kind].resource), r.subresource, op, nil, false, &user.DefaultInfo{Name: "u"})
	p, err := all[i].New(plugins.Config{Objects: stored(objects), Authorizer: authz, Configuration: []byte(r.configuration), Version: version.MustParse("1.37")})
	if err != nil {
		return err
	}
	if !p.Handles(op) {
		return nil
	}
	before, _ := json.Marshal(objects)
	if mutating, ok := p.(admission.MutationInterface); ok {
		if err := mutating.Admit(context.Background(), a, nil); err != nil {
			return err
		}
	}
	if validating, ok := p.(admission.ValidationInterface); ok {
		if err := validating.Validate(context.Background(), a, nil); err != nil {
			return err
		}
	}
	if after, _ := json.Marshal(objects); string(after) != string(before) {
		t.Errorf("the plugin has changed stored objects: %s\n%s", before, after)
	}
	if r.want != "" {
		got, _ := json.Marshal(obj)
		want, _ := json.Marshal(decode(t, r.want)[0])
		if string(got) != string(want) {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	return nil
}

const class = `{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 10, preemptionPolicy: Never}`

func pod(spec string) string {
	return `{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ns}, spec: {` + spec + `}}`
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// allow authorizes one verb on one signer.
type allow struct{ verb, signer string }

func (a allow) Authorize(_ context.Context, attrs authorizer.Attributes) (authorizer.Decision, string, error) {
	if attrs.GetVerb() == a.verb && attrs.GetName() == a.signer && attrs.GetResource() == "signers" && attrs.GetAPIGroup() == "certificates.k8s.io" && attrs.GetUser().GetName() == "u" {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", errors.New("no rule")
}

func TestCertificates(t *testing.T) {
	t.Parallel()
	csr := func(rest string) string {
		return `{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, metadata: {name: c}, spec: {request: "", usages: [], signerName: a.b/c}` + rest + `}`
	}
	const condition = `, status: {conditions: [{type: Failed, status: "True"}]}`
	const name = `certificatesigningrequests.certificates.k8s.io "c" is forbidden: `
	for _, c := range []struct {
		request
		allow
	}{
		{request{name: "approved", plugin: "CertificateApproval", object: csr(""), old: csr(""), subresource: "approval"}, allow{"approve", "a.b/c"}},
		{request{name: "approved for a domain", plugin: "CertificateApproval", object: csr(""), old: csr(""), subresource: "approval"}, allow{"approve", "a.b/*"}},
		{request{name: "not approved", plugin: "CertificateApproval", object: csr(""), old: csr(""), subresource: "approval",
			err: name + `user not permitted to approve requests with signerName "a.b/c"`}, allow{"sign", "a.b/c"}},
		{request{name: "other subresource", plugin: "CertificateApproval", object: csr(""), old: csr(""), subresource: "status"}, allow{}},
		{request{name: "signed", plugin: "CertificateSigning", object: csr(condition), old: csr(""), subresource: "status"}, allow{"sign", "a.b/c"}},
		{request{name: "not signed", plugin: "CertificateSigning", object: csr(condition), old: csr(""), subresource: "status",
			err: name + `user not permitted to sign requests with signerName "a.b/c"`}, allow{"approve", "a.b/c"}},
		{request{name: "unchanged", plugin: "CertificateSigning", object: csr(condition), old: csr(condition), subresource: "status"}, allow{}},
	} {
		if got := message(c.run(t, authorizer.AuthorizerFunc(c.Authorize))); got != c.err {
			t.Errorf("%s: got error %q, want %q", c.name, got, c.err)
		}
	}

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ group, signer, err string }{
		{"system:masters", "kubernetes.io/kube-apiserver-client", name + `use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed`},
		{"developers", "kubernetes.io/kube-apiserver-client", ""},
		{"system:masters", "example.com/other", ""},
		{"", "kubernetes.io/kube-apiserver-client", name + `failed to parse CSR: PEM block type must be CERTIFICATE REQUEST`},
	} {
		var text []byte
		if c.group != "" {
			der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{Organization: []string{c.group}}}, key)
			if err != nil {
				t.Fatal(err)
			}
			text = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
		}
		encoded, _ := json.Marshal(text)
		err := request{plugin: "CertificateSubjectRestriction", object: strings.ReplaceAll(csr(""), `request: ""`, "request: "+string(encoded))}.withSigner(c.signer).run(t, nil)
		if got := message(err); got != c.err {
			t.Errorf("group %s and signer %s: got error %q, want %q", c.group, c.signer, got, c.err)
		}
	}
}

func (r request) withSigner(name string) request {
	r.object = strings.ReplaceAll(r.object, "signerName: a.b/c", "signerName: "+name)
	return r
}

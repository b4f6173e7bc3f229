package certificates_test

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"slices"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"espalier.dev/kinds/certificates"
	"espalier.dev/kinds/kind/kindtest"
)

type request = certificatesv1.CertificateSigningRequest

func key() ed25519.PrivateKey { return ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)) }

func encode(kind string, data []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data})
}

func valid() *request {
	data, err := x509.CreateCertificateRequest(nil, &x509.CertificateRequest{}, key())
	return &request{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    encode("CERTIFICATE REQUEST", data, err),
			SignerName: "example.com/signer",
			Usages:     []certificatesv1.KeyUsage{"client auth"},
			Username:   "forged", Groups: []string{"forged"},
		},
		Status: certificatesv1.CertificateSigningRequestStatus{Conditions: []certificatesv1.CertificateSigningRequestCondition{{Type: "Approved", Status: "True"}}},
	}
}

func TestCreate(t *testing.T) {
	t.Parallel()
	create := kindtest.Create(t, certificates.Rules()["certificatesigningrequests"], valid())
	got := create(func(*request) {})
	if got.Spec.Username != "" || got.Spec.Groups != nil || len(got.Status.Conditions) != 0 {
		t.Errorf("got %+v", got)
	}
	certificates.Rules()["certificatesigningrequests"].Requester(got, &user.DefaultInfo{Name: "u", Groups: []string{"g"}, Extra: map[string][]string{"k": {"v"}}})
	if got.Spec.Username != "u" || !slices.Equal(got.Spec.Groups, []string{"g"}) || got.Spec.Extra["k"][0] != "v" {
		t.Errorf("got %+v", got.Spec)
	}
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	rules := certificates.Rules()["certificatesigningrequests"]
	update := kindtest.Update(t, rules, "", valid())
	got := update(func(csr *request) {
		csr.Spec.SignerName = "x"
		csr.Status.Certificate = []byte("x")
	})
	if got.Spec.SignerName != "example.com/signer" || got.Status.Certificate != nil {
		t.Errorf("got %+v", got)
	}

	approve := kindtest.Update(t, rules, "approval", valid())
	condition := func(name certificatesv1.RequestConditionType, status corev1.ConditionStatus) certificatesv1.CertificateSigningRequestCondition {
		return certificatesv1.CertificateSigningRequestCondition{Type: name, Status: status}
	}
	approved := approve(func(csr *request) {
		csr.Status.Conditions = append(csr.Status.Conditions, condition("Approved", "True"))
	})
	if c := approved.Status.Conditions[0]; c.LastUpdateTime.IsZero() || c.LastTransitionTime.IsZero() {
		t.Errorf("got %+v", c)
	}

	status := *rules.Status
	write := func(change func(csr *request), want ...string) *request {
		t.Helper()
		old := approved.DeepCopy()
		old.ResourceVersion = "1"
		csr := old.DeepCopy()
		change(csr)
		status.Prepare(csr, old)
		kindtest.Errors(t, status.Validate(csr, old), want...)
		return csr
	}
	certificate := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1, 0)}
	data, err := x509.CreateCertificate(nil, certificate, certificate, key().Public(), key())
	write(func(csr *request) { csr.Status.Certificate = encode("CERTIFICATE", data, err) })
	write(func(csr *request) { csr.Status.Certificate = encode("X", data, err) },
		`status.certificate: Invalid value: "<certificate data>": only CERTIFICATE PEM blocks are allowed, found "X"`)
	write(func(csr *request) { csr.Status.Certificate = []byte("x") },
		`status.certificate: Invalid value: "<certificate data>": must contain at least one CERTIFICATE PEM block`)
	if got := write(func(csr *request) { csr.Status.Conditions[0].Reason = "changed" }); got.Status.Conditions[0].Reason != "" {
		t.Errorf("got %+v", got.Status)
	}
	write(func(csr *request) { csr.Status.Conditions = nil }, `status.conditions: Forbidden: updates may not remove a condition of type "Approved"`)
	write(func(csr *request) { csr.Status.Conditions = append(csr.Status.Conditions, condition("Denied", "True")) },
		`status.conditions: Invalid value: "Denied": Approved and Denied conditions are mutually exclusive`,
		`status.conditions: Forbidden: updates may not add a condition of type "Denied"`)
}

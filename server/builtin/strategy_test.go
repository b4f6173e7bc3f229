package builtin

import (
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"espalier.dev/kinds/certificates"
)

// TestRequester creates a request for a certificate: the server sets the user, not the client.
func TestRequester(t *testing.T) {
	t.Parallel()
	rules := certificates.Rules()["certificatesigningrequests"]
	s := &strategy{rules: &rules, write: &rules.Main}
	csr := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{Username: "forged"}}
	s.PrepareForCreate(apirequest.WithUser(t.Context(), &user.DefaultInfo{Name: "u"}), csr)
	if csr.Spec.Username != "u" {
		t.Errorf("got %q", csr.Spec.Username)
	}
}

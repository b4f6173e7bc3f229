package plugins

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"reflect"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// approval rejects approvals and denials of certificates by users who may not approve those of the
// signer.
type approval struct {
	*admission.Handler
	authz authorizer.Authorizer
}

var _ admission.ValidationInterface = &approval{}

func newApproval(authz authorizer.Authorizer) *approval {
	return &approval{admission.NewHandler(admission.Update), authz}
}

// Validate implements admission.ValidationInterface.
func (p *approval) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != requests || a.GetSubresource() != "approval" {
		return nil
	}
	old, err := as[*certificatesv1.CertificateSigningRequest](a.GetOldObject())
	if err != nil {
		return err
	}
	if !maySign(ctx, p.authz, a.GetUserInfo(), "approve", old.Spec.SignerName) {
		return forbidden(a, "user not permitted to approve requests with signerName %q", old.Spec.SignerName)
	}
	return nil
}

// signing rejects certificates from users who may not sign for the signer.
type signing struct {
	*admission.Handler
	authz authorizer.Authorizer
}

var _ admission.ValidationInterface = &signing{}

func newSigning(authz authorizer.Authorizer) *signing {
	return &signing{admission.NewHandler(admission.Update), authz}
}

// Validate implements admission.ValidationInterface.
func (p *signing) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != requests || a.GetSubresource() != "status" {
		return nil
	}
	old, err := as[*certificatesv1.CertificateSigningRequest](a.GetOldObject())
	if err != nil {
		return err
	}
	csr, err := as[*certificatesv1.CertificateSigningRequest](a.GetObject())
	if err != nil {
		return err
	}
	if reflect.DeepEqual(old.Status.Certificate, csr.Status.Certificate) &&
		equality.Semantic.DeepEqual(old.Status.Conditions, csr.Status.Conditions) {
		return nil
	}
	if !maySign(ctx, p.authz, a.GetUserInfo(), "sign", old.Spec.SignerName) {
		return forbidden(a, "user not permitted to sign requests with signerName %q", old.Spec.SignerName)
	}
	return nil
}

// maySign reports whether a user has a verb on a signer, or on all signers of its domain.
func maySign(ctx context.Context, authz authorizer.Authorizer, info user.Info, verb, signer string) bool {
	domain, _, _ := strings.Cut(signer, "/")
	for _, name := range []string{signer, domain + "/*"} {
		decision, _, err := authz.Authorize(ctx, authorizer.AttributesRecord{
			User: info, Verb: verb, Name: name, APIGroup: "certificates.k8s.io",
			APIVersion: "*", Resource: "signers", ResourceRequest: true,
		})
		if err == nil && decision == authorizer.DecisionAllow {
			return true
		}
	}
	return false
}

// subject rejects requests for client certificates of the group system:masters.
type subject struct{ *admission.Handler }

var _ admission.ValidationInterface = &subject{}

func newSubject() *subject { return &subject{admission.NewHandler(admission.Create)} }

// Validate implements admission.ValidationInterface.
func (p *subject) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !handles(a, requests) {
		return nil
	}
	csr, err := as[*certificatesv1.CertificateSigningRequest](a.GetObject())
	if err != nil || csr.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
		return err
	}
	parsed, err := parseRequest(csr.Spec.Request)
	if err != nil {
		return forbidden(a, "failed to parse CSR: %w", err)
	}
	if slices.Contains(parsed.Subject.Organization, user.SystemPrivilegedGroup) {
		return forbidden(a, "use of %s signer with system:masters group is not allowed", csr.Spec.SignerName)
	}
	return nil
}

func parseRequest(text []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	return x509.ParseCertificateRequest(block.Bytes)
}

package certificates

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/rules"
)

const legacySigner = "kubernetes.io/legacy-unknown"

// allowed is what an endpoint may write.
type allowed struct{ certificate, approval bool }

// usages returns the usages of keys that are known, sorted.
func usages() []certificatesv1.KeyUsage {
	known := []certificatesv1.KeyUsage{
		certificatesv1.UsageSigning, certificatesv1.UsageDigitalSignature,
		certificatesv1.UsageContentCommitment, certificatesv1.UsageKeyEncipherment,
		certificatesv1.UsageKeyAgreement, certificatesv1.UsageDataEncipherment, certificatesv1.UsageCertSign, certificatesv1.UsageCRLSign,
		certificatesv1.UsageEncipherOnly, certificatesv1.UsageDecipherOnly, certificatesv1.UsageAny, certificatesv1.UsageServerAuth,
		certificatesv1.UsageClientAuth, certificatesv1.UsageCodeSigning, certificatesv1.UsageEmailProtection, certificatesv1.UsageSMIME,
		certificatesv1.UsageIPsecEndSystem, certificatesv1.UsageIPsecTunnel,
		certificatesv1.UsageIPsecUser, certificatesv1.UsageTimestamping,
		certificatesv1.UsageOCSPSigning, certificatesv1.UsageMicrosoftSGC, certificatesv1.UsageNetscapeSGC,
	}
	slices.Sort(known)
	return known
}

// validate validates a request. Problems that the stored object already has are not reported
// again.
func validate(csr, old *request, allowed allowed) field.ErrorList {
	meta := field.NewPath("metadata")
	errs := rules.ObjectMeta(&csr.ObjectMeta, false, func(string, bool) []string { return nil }, meta)
	errs = append(errs, validateSpec(&csr.Spec, old, field.NewPath("spec"))...)
	errs = append(errs, validateConditions(csr, old, field.NewPath("status", "conditions"))...)
	certificate := field.NewPath("status", "certificate")
	unchanged := old != nil && bytes.Equal(csr.Status.Certificate, old.Status.Certificate)
	if !unchanged && (old == nil || checkCertificate(old.Status.Certificate) == nil) {
		if err := checkCertificate(csr.Status.Certificate); err != nil {
			errs = append(errs, field.Invalid(certificate, "<certificate data>", err.Error()))
		}
	}
	if old == nil {
		return errs
	}
	errs = append(errs, validateChanges(csr, old, allowed)...)
	switch {
	case unchanged:
	case !allowed.certificate:
		errs = append(errs, field.Forbidden(certificate, "updates may not set certificate content"))
	case len(old.Status.Certificate) > 0:
		errs = append(errs, field.Forbidden(certificate, "updates may not modify existing certificate content"))
	}
	return append(errs, rules.ObjectMetaUpdate(&csr.ObjectMeta, &old.ObjectMeta, meta)...)
}

func validateSpec(spec *certificatesv1.CertificateSigningRequestSpec, old *request, path *field.Path) (errs field.ErrorList) {
	if err := checkRequest(spec.Request); err != nil {
		errs = append(errs, field.Invalid(path.Child("request"), spec.Request, err.Error()))
	}
	if len(spec.Usages) == 0 {
		errs = append(errs, field.Required(path.Child("usages"), ""))
	}
	unknown, repeated := usageErrors(spec.Usages, path.Child("usages"))
	if old != nil {
		oldUnknown, oldRepeated := usageErrors(old.Spec.Usages, nil)
		if len(oldUnknown) > 0 {
			unknown = nil
		}
		if len(oldRepeated) > 0 {
			repeated = nil
		}
	}
	errs = append(append(errs, unknown...), repeated...)
	if spec.SignerName == legacySigner && (old == nil || old.Spec.SignerName != legacySigner) {
		errs = append(errs, field.Invalid(path.Child("signerName"), spec.SignerName,
			"the legacy signerName is not allowed via this API version"))
	} else {
		errs = append(errs, rules.SignerName(spec.SignerName, path.Child("signerName"))...)
	}
	if seconds := spec.ExpirationSeconds; seconds != nil && *seconds < 600 {
		errs = append(errs, field.Invalid(path.Child("expirationSeconds"), *seconds,
			"may not specify a duration less than 600 seconds (10 minutes)"))
	}
	return errs
}

func usageErrors(list []certificatesv1.KeyUsage, path *field.Path) (unknown, repeated field.ErrorList) {
	known := usages()
	for i, usage := range list {
		unknown = append(unknown, rules.Enum(usage, path.Index(i), known...)...)
		if slices.Contains(list[:i], usage) {
			repeated = append(repeated, field.Duplicate(path.Index(i), usage))
		}
	}
	return unknown, repeated
}

// checkRequest checks that PEM data is a request with a valid signature.
func checkRequest(data []byte) error {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return err
	}
	return parsed.CheckSignature()
}

// checkCertificate checks that PEM data has certificates only, if there is any.
func checkCertificate(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	for blocks := 0; ; blocks++ {
		block, rest := pem.Decode(data)
		switch {
		case block == nil && blocks == 0:
			return errors.New("must contain at least one CERTIFICATE PEM block")
		case block == nil:
			return nil
		case block.Type != "CERTIFICATE":
			return fmt.Errorf("only CERTIFICATE PEM blocks are allowed, found %q", block.Type)
		case len(block.Headers) > 0:
			return errors.New("no PEM block headers are permitted")
		}
		certificates, err := x509.ParseCertificates(block.Bytes)
		if err != nil {
			return err
		}
		if len(certificates) == 0 {
			return errors.New("found CERTIFICATE PEM block containing 0 certificates")
		}
		data = rest
	}
}

func validateConditions(csr, old *request, path *field.Path) (errs field.ErrorList) {
	const approved, denied, failed = certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed
	tolerated := findProblems(old)
	seen := map[certificatesv1.RequestConditionType]bool{}
	for i, c := range csr.Status.Conditions {
		at := path.Index(i)
		if c.Type == "" && !tolerated.empty {
			errs = append(errs, field.Required(at.Child("type"), ""))
		}
		statuses := []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown}
		if c.Type == approved || c.Type == denied || c.Type == failed {
			statuses = statuses[1:2]
		}
		errs = append(errs, rules.RequiredEnum(c.Status, at.Child("status"), statuses...)...)
		if both := c.Type == approved && seen[denied] || c.Type == denied && seen[approved]; both && !tolerated.both {
			errs = append(errs, field.Invalid(path, c.Type, "Approved and Denied conditions are mutually exclusive"))
		}
		if seen[c.Type] && !tolerated.repeated {
			errs = append(errs, field.Duplicate(at.Child("type"), c.Type))
		}
		seen[c.Type] = true
	}
	return errs
}

// problems are problems of the conditions of a stored object.
type problems struct{ both, repeated, empty bool }

func findProblems(csr *request) (p problems) {
	if csr == nil {
		return p
	}
	seen := map[certificatesv1.RequestConditionType]bool{}
	for _, c := range csr.Status.Conditions {
		p.repeated = p.repeated || seen[c.Type]
		seen[c.Type] = true
	}
	p.both = seen[certificatesv1.CertificateApproved] && seen[certificatesv1.CertificateDenied]
	p.empty = seen[""]
	return p
}

// validateChanges validates changes of the final conditions: they stay, and only the endpoint of
// the approval writes those of the approval.
func validateChanges(csr, old *request, allowed allowed) (errs field.ErrorList) {
	forbid := func(format string, args ...any) {
		errs = append(errs, field.Forbidden(field.NewPath("status", "conditions"), fmt.Sprintf(format, args...)))
	}
	final := []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved,
		certificatesv1.CertificateDenied, certificatesv1.CertificateFailed}
	for _, name := range final {
		if len(indices(csr, name)) < len(indices(old, name)) {
			forbid("updates may not remove a condition of type %q", name)
		}
	}
	if allowed.approval {
		return errs
	}
	for _, name := range final[:2] {
		before, after := conditions(old, name), conditions(csr, name)
		switch {
		case len(after) < len(before):
		case len(after) > len(before):
			forbid("updates may not add a condition of type %q", name)
		case !apiequality.Semantic.DeepEqual(before, after):
			forbid("updates may not modify a condition of type %q\n%v", name, diff.Diff(rules.Internal(before), rules.Internal(after)))
		}
	}
	return errs
}

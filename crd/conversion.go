package crd

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
)

// conversion validates the conversion between versions.
func (d *demands) conversion(spec *formSpec, path *field.Path) (errs field.ErrorList) {
	c := spec.conversion
	if c == nil {
		return nil
	}
	errs = append(errs, d.webhookAllowed(spec, path)...)
	errs = append(errs, validateEnum(path.Child("strategy"), string(c.Strategy), string(api.NoneConverter), string(api.WebhookConverter))...)
	config, reviews := path.Child("webhookClientConfig"), path.Child("conversionReviewVersions")
	if c.Strategy != api.WebhookConverter {
		const notSet = "should not be set when strategy is not set to Webhook"
		if c.WebhookClientConfig != nil {
			errs = append(errs, field.Forbidden(config, notSet))
		}
		if len(c.ConversionReviewVersions) > 0 {
			errs = append(errs, field.Forbidden(reviews, notSet))
		}
		return errs
	}
	if c.WebhookClientConfig == nil {
		errs = append(errs, field.Required(config, "required when strategy is set to Webhook"))
	} else {
		errs = append(errs, d.clientConfig(c.WebhookClientConfig, config)...)
	}
	return append(errs, d.reviews(c.ConversionReviewVersions, reviews)...)
}

// webhookAllowed checks that a webhook is only used with pruning or, in the documents'
// semantics, with structural schemas.
func (d *demands) webhookAllowed(spec *formSpec, path *field.Path) field.ErrorList {
	c, at := spec.conversion, path.Child("strategy")
	if webhookNeedsPruning(d.semantics) {
		if c.Strategy != api.NoneConverter && spec.preserves() {
			return field.ErrorList{field.Invalid(at, c.Strategy, "must be None if spec.preserveUnknownFields is true")}
		}
		return nil
	}
	if c.Strategy != api.WebhookConverter || d.stored != nil && hasWebhook(&d.stored.spec) || !d.hasLegacy && spec.isStructural(d.semantics) {
		return nil
	}
	return field.ErrorList{field.Invalid(at, c.Strategy, "must be None if a schema is not structural")}
}

func hasWebhook(spec *formSpec) bool {
	return spec.conversion != nil && spec.conversion.Strategy == api.WebhookConverter
}

// ValidateWebhookClient checks where the client of a webhook sends requests to.
func ValidateWebhookClient(c *api.WebhookClientConfig, path *field.Path) field.ErrorList {
	switch {
	case (c.URL == nil) == (c.Service == nil):
		return field.ErrorList{field.Required(path, "exactly one of url or service is required")}
	case c.URL != nil:
		return validateURL(*c.URL, path.Child("url"))
	}
	return validateService(c.Service, path.Child("service"))
}

func (d *demands) clientConfig(c *api.WebhookClientConfig, path *field.Path) field.ErrorList {
	errs := ValidateWebhookClient(c, path)
	if !d.looseCA {
		if err := checkCABundle(c.CABundle); err != nil {
			errs = append(errs, field.Invalid(path.Child("caBundle"), c.CABundle, err.Error()))
		}
	}
	return errs
}

func validateURL(text string, path *field.Path) (errs field.ErrorList) {
	const form = "; desired format: https://host[/path]"
	u, err := url.Parse(text)
	if err != nil {
		return field.ErrorList{field.Required(path, "url must be a valid URL: "+err.Error()+form)}
	}
	if u.Scheme != "https" {
		errs = append(errs, field.Invalid(path, u.Scheme, "'https' is the only allowed URL scheme"+form))
	}
	if u.Host == "" {
		errs = append(errs, field.Invalid(path, u.Host, "host must be specified"+form))
	}
	if u.User != nil {
		errs = append(errs, field.Invalid(path, u.User.String(), "user information is not permitted in the URL"))
	}
	if u.Fragment != "" {
		errs = append(errs, field.Invalid(path, u.Fragment, "fragments are not permitted in the URL"))
	}
	if u.RawQuery != "" {
		errs = append(errs, field.Invalid(path, u.RawQuery, "query parameters are not permitted in the URL"))
	}
	return errs
}

func validateService(s *api.ServiceReference, path *field.Path) (errs field.ErrorList) {
	// kube-apiserver swaps the two: it reports a missing namespace as a missing name,
	// and vice versa.
	if s.Namespace == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	if s.Name == "" {
		errs = append(errs, field.Required(path.Child("namespace"), ""))
	}
	port := int32(0)
	if s.Port != nil {
		port = *s.Port
	}
	if problems := utilvalidation.IsValidPortNum(int(port)); problems != nil {
		errs = append(errs, field.Invalid(path.Child("port"), port, "port is not valid: "+strings.Join(problems, ", ")))
	}
	if s.Path == nil || *s.Path == "" || *s.Path == "/" {
		return errs
	}
	at, text := path.Child("path"), *s.Path
	if text[0] != '/' {
		errs = append(errs, field.Invalid(at, text, "must start with a '/'"))
	}
	for i, segment := range strings.Split(strings.TrimSuffix(text[1:], "/"), "/") {
		if segment == "" {
			errs = append(errs, field.Invalid(at, text, fmt.Sprintf("segment[%d] may not be empty", i)))
			continue
		}
		for _, problem := range utilvalidation.IsDNS1123Subdomain(segment) {
			errs = append(errs, field.Invalid(at, text, fmt.Sprintf("segment[%d]: %v", i, problem)))
		}
	}
	return errs
}

// reviews validates the versions of ConversionReview that a webhook supports.
func (d *demands) reviews(versions []string, path *field.Path) (errs field.ErrorList) {
	if len(versions) == 0 {
		return field.ErrorList{field.Required(path, "")}
	}
	seen := map[string]bool{}
	for i, v := range versions {
		if seen[v] {
			errs = append(errs, field.Invalid(path.Index(i), v, "duplicate version"))
			continue
		}
		seen[v] = true
		for _, problem := range utilvalidation.IsDNS1035Label(v) {
			errs = append(errs, field.Invalid(path.Index(i), v, problem))
		}
	}
	if d.knownReviews && !hasKnownReview(versions) {
		errs = append(errs, field.Invalid(path, versions, "must include at least one of v1, v1beta1"))
	}
	return errs
}

func hasKnownReview(versions []string) bool {
	return slices.Contains(versions, api.Version) || slices.Contains(versions, v1beta1.Version)
}

// allowsLooseCA reports whether the CA bundle of a webhook may be invalid: as long as
// the resource is not served, or if it is already invalid.
func allowsLooseCA(old *form) bool {
	if !isTrue(old.status, api.Established) {
		return true
	}
	c := old.spec.conversion
	return c != nil && c.WebhookClientConfig != nil && checkCABundle(c.WebhookClientConfig.CABundle) != nil
}

// checkCABundle returns what is wrong with a CA bundle.
func checkCABundle(bundle []byte) error {
	if len(bundle) == 0 || x509.NewCertPool().AppendCertsFromPEM(bundle) {
		return nil
	}
	const cannot = "unable to load root certificates: "
	for rest := bundle; len(rest) > 0; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return errors.New(cannot + "unable to parse bytes as PEM block")
		}
		if block.Type != "CERTIFICATE" || len(block.Headers) != 0 {
			continue
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return fmt.Errorf(cannot+"failed to parse certificate: %w", err)
		}
	}
	return errors.New(cannot + "no valid certificate authority data seen")
}

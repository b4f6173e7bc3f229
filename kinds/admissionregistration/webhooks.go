package admissionregistration

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/admissionregistration/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/kinds/rules"
)

// reviewVersions are the versions of AdmissionReview that the server sends.
func reviewVersions() []string { return []string{"v1", "v1beta1"} }

// noSideEffects are the values of sideEffects that new webhooks must have.
func noSideEffects() []v1.SideEffectClass {
	return []v1.SideEffectClass{v1.SideEffectClassNone, v1.SideEffectClassNoneOnDryRun}
}

// leniency is what a webhook configuration may keep because it had it before.
type leniency struct {
	sideEffects     bool
	reviewVersions  bool
	duplicateNames  bool
	selectorValues  bool
	matchConditions bool
	known           expressions
}

func (c *checks) validatingWebhooks(obj, old *v1.ValidatingWebhookConfiguration) field.ErrorList {
	var before []v1.MutatingWebhook
	if old != nil {
		before = asMutating(old.Webhooks)
	}
	return c.webhooks(&obj.ObjectMeta, asMutating(obj.Webhooks), before, old != nil)
}

func (c *checks) mutatingWebhooks(obj, old *v1.MutatingWebhookConfiguration) field.ErrorList {
	var before []v1.MutatingWebhook
	if old != nil {
		before = old.Webhooks
	}
	return c.webhooks(&obj.ObjectMeta, obj.Webhooks, before, old != nil)
}

// asMutating returns validating webhooks as mutating ones, which have all their fields.
func asMutating(hooks []v1.ValidatingWebhook) []v1.MutatingWebhook {
	var out []v1.MutatingWebhook
	for _, h := range hooks {
		out = append(out, v1.MutatingWebhook{
			Name: h.Name, ClientConfig: h.ClientConfig, Rules: h.Rules, FailurePolicy: h.FailurePolicy, MatchPolicy: h.MatchPolicy,
			NamespaceSelector: h.NamespaceSelector, ObjectSelector: h.ObjectSelector, SideEffects: h.SideEffects,
			TimeoutSeconds: h.TimeoutSeconds, AdmissionReviewVersions: h.AdmissionReviewVersions, MatchConditions: h.MatchConditions,
		})
	}
	return out
}

func (c *checks) webhooks(meta *metav1.ObjectMeta, hooks, old []v1.MutatingWebhook, update bool) field.ErrorList {
	var lenient leniency
	if update {
		lenient = tolerated(hooks, old)
	}
	errs := apivalidation.ValidateObjectMeta(meta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	names := sets.New[string]()
	for i, h := range hooks {
		path := field.NewPath("webhooks").Index(i)
		errs = append(errs, c.webhook(path, h, lenient)...)
		errs = append(errs, validateReviewVersions(path.Child("admissionReviewVersions"), h.AdmissionReviewVersions, lenient)...)
		if !lenient.duplicateNames && h.Name != "" {
			if names.Has(h.Name) {
				errs = append(errs, field.Duplicate(path.Child("name"), h.Name))
			}
			names.Insert(h.Name)
		}
	}
	return errs
}

// tolerated returns what the webhooks may keep.
func tolerated(hooks, old []v1.MutatingWebhook) leniency {
	l := leniency{known: expressions{}}
	names := sets.New[string]()
	for _, h := range old {
		if h.SideEffects == nil || !slices.Contains(noSideEffects(), *h.SideEffects) {
			l.sideEffects = true
		}
		if len(h.AdmissionReviewVersions) > 0 && !sends(h.AdmissionReviewVersions) {
			l.reviewVersions = true
		}
		if names.Has(h.Name) {
			l.duplicateNames = true
		}
		names.Insert(h.Name)
		for _, s := range []*metav1.LabelSelector{h.NamespaceSelector, h.ObjectSelector} {
			if s != nil && len(metavalidation.ValidateLabelSelector(s, metavalidation.LabelSelectorValidationOptions{}, nil)) > 0 {
				l.selectorValues = true
			}
		}
		for _, m := range h.MatchConditions {
			l.known.add(MatchCondition, m.Expression)
		}
	}
	l.matchConditions = slices.EqualFunc(hooks, old, func(a, b v1.MutatingWebhook) bool {
		return reflect.DeepEqual(a.MatchConditions, b.MatchConditions)
	})
	return l
}

// sends reports whether the server sends one of the given versions of AdmissionReview.
func sends(versions []string) bool {
	return slices.ContainsFunc(versions, func(v string) bool { return slices.Contains(reviewVersions(), v) })
}

func (c *checks) webhook(path *field.Path, h v1.MutatingWebhook, lenient leniency) field.ErrorList {
	errs := validation.IsFullyQualifiedName(path.Child("name"), h.Name)
	for i, r := range h.Rules {
		errs = append(errs, validateRule(path.Child("rules").Index(i), r)...)
	}
	errs = append(errs, optionalEnum(h.FailurePolicy, path.Child("failurePolicy"), v1.Fail, v1.Ignore)...)
	errs = append(errs, optionalEnum(h.MatchPolicy, path.Child("matchPolicy"), v1.Equivalent, v1.Exact)...)

	classes := noSideEffects()
	if lenient.sideEffects {
		classes = []v1.SideEffectClass{v1.SideEffectClassNone, v1.SideEffectClassNoneOnDryRun,
			v1.SideEffectClassSome, v1.SideEffectClassUnknown}
	}
	if h.SideEffects == nil {
		var names []string
		for _, class := range classes {
			names = append(names, string(class))
		}
		errs = append(errs, field.Required(path.Child("sideEffects"), "must specify one of "+strings.Join(names, ", ")))
	}
	errs = append(errs, optionalEnum(h.SideEffects, path.Child("sideEffects"), classes...)...)

	if t := h.TimeoutSeconds; t != nil && (*t < 1 || *t > 30) {
		errs = append(errs, field.Invalid(path.Child("timeoutSeconds"), *t, "the timeout value must be between 1 and 30 seconds"))
	}
	options := metavalidation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: lenient.selectorValues}
	errs = append(errs, metavalidation.ValidateLabelSelector(h.NamespaceSelector, options, path.Child("namespaceSelector"))...)
	errs = append(errs, metavalidation.ValidateLabelSelector(h.ObjectSelector, options, path.Child("objectSelector"))...)
	errs = append(errs, optionalEnum(h.ReinvocationPolicy, path.Child("reinvocationPolicy"),
		v1.IfNeededReinvocationPolicy, v1.NeverReinvocationPolicy)...)
	errs = append(errs, validateClient(path.Child("clientConfig"), h.ClientConfig)...)
	if !lenient.matchConditions {
		errs = append(errs, c.matchConditions(path.Child("matchConditions"), h.MatchConditions, false, lenient.known)...)
	}
	return errs
}

func validateClient(path *field.Path, c v1.WebhookClientConfig) field.ErrorList {
	client := &api.WebhookClientConfig{URL: c.URL}
	if s := c.Service; s != nil {
		client.Service = &api.ServiceReference{Namespace: s.Namespace, Name: s.Name, Path: s.Path, Port: s.Port}
	}
	return crd.ValidateWebhookClient(client, path)
}

func validateReviewVersions(path *field.Path, versions []string, lenient leniency) field.ErrorList {
	known := strings.Join(reviewVersions(), ", ")
	if len(versions) == 0 {
		return field.ErrorList{field.Required(path, "must specify one of "+known)}
	}
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, v := range versions {
		if seen.Has(v) {
			errs = append(errs, field.Invalid(path.Index(i), v, "duplicate version"))
			continue
		}
		seen.Insert(v)
		errs = append(errs, rules.Invalid(v, path.Index(i), validation.IsDNS1035Label(v))...)
	}
	if !lenient.reviewVersions && !sends(versions) {
		errs = append(errs, field.Invalid(path, versions, fmt.Sprintf("must include at least one of %s", known)))
	}
	return errs
}

package custom

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"

	"espalier.dev/api"
	"espalier.dev/schema"
)

// conversionTime limits a call of a conversion webhook.
const conversionTime = 30 * time.Second

// maxConverted is the size limit of a converted object, that of a request. etcd accepts half of it.
const maxConverted = 3 << 20

// ConversionError is returned when a conversion webhook cannot be reached, or does not return
// the converted object. It is not about the stored object.
type ConversionError struct {
	// Kind is the kind of the object, in the version to convert from.
	Kind runtimeschema.GroupVersionKind
	// Problem describes the failure: "failed", "returned invalid object".
	Problem string
	Err     error
}

func (e *ConversionError) Error() string {
	return fmt.Sprintf("conversion webhook for %v %s: %v", e.Kind, e.Problem, e.Err)
}

// Unwrap returns the cause.
func (e *ConversionError) Unwrap() error { return e.Err }

// IsConversionError reports whether an error is a [ConversionError].
func IsConversionError(err error) bool {
	var e *ConversionError
	return errors.As(err, &e)
}

// webhookConverter converts with a webhook.
type webhookConverter struct {
	// serving ends when the server stops. The storage decodes objects without the context of
	// a request, so conversionTime limits a call.
	serving context.Context
	client  *rest.RESTClient
	reviews []string // versions of ConversionReview that the webhook understands
}

// conversionReviews is the group version of the objects that conversion webhooks
// exchange.
func conversionReviews() runtimeschema.GroupVersion {
	return runtimeschema.GroupVersion{Group: "apiextensions.k8s.io", Version: "v1"}
}

func newWebhookConverter(serving context.Context, clients *webhook.ClientManager, c *api.CustomResourceDefinition) (treeConverter, error) {
	hook := c.Spec.Conversion.Webhook
	if hook == nil || hook.ClientConfig == nil {
		return nil, errors.New("conversion: no webhook is configured")
	}
	config := webhook.ClientConfig{Name: "conversion_webhook_for_" + c.Name}
	if ca := hook.ClientConfig.CABundle; len(bytes.TrimSpace(ca)) > 0 {
		config.CABundle = ca
	}
	if u := hook.ClientConfig.URL; u != nil {
		config.URL = *u
	}
	if s := hook.ClientConfig.Service; s != nil {
		config.Service = &webhook.ClientConfigService{Name: s.Name, Namespace: s.Namespace, Port: 443}
		if s.Port != nil {
			config.Service.Port = *s.Port
		}
		if s.Path != nil {
			config.Service.Path = *s.Path
		}
	}
	client, err := clients.HookClient(config)
	if err != nil {
		return nil, fmt.Errorf("conversion: %w", err)
	}
	return &webhookConverter{serving: serving, client: client, reviews: hook.ConversionReviewVersions}, nil
}

func (c *webhookConverter) Convert(obj schema.Object, to runtimeschema.GroupVersion) (schema.Object, error) {
	// An object with only its type is a probe of the storage.
	if len(obj) == 2 {
		return relabel{}.Convert(obj, to)
	}
	kind := (&unstructured.Unstructured{Object: obj}).GroupVersionKind()
	out, err := c.ask(obj, to)
	if err != nil {
		return nil, &ConversionError{kind, "failed", err}
	}
	if err := checkConverted(obj, out, to); err != nil {
		return nil, &ConversionError{kind, "returned invalid object", err}
	}
	if err := keepMetadata(obj, out); err != nil {
		return nil, &ConversionError{kind, "returned invalid metadata", err}
	}
	return out, nil
}

// ask sends one object to the webhook.
func (c *webhookConverter) ask(obj schema.Object, to runtimeschema.GroupVersion) (schema.Object, error) {
	i := slices.IndexFunc(c.reviews, func(v string) bool { return v == "v1" || v == "v1beta1" })
	if i < 0 {
		return nil, errors.New("no supported conversion review versions")
	}
	raw, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	uid := uuid.NewUUID()
	review := api.ConversionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/" + c.reviews[i], Kind: "ConversionReview"},
		Request:  &api.ConversionRequest{UID: uid, DesiredAPIVersion: to.String(), Objects: []runtime.RawExtension{{Raw: raw}}},
	}
	body, err := json.Marshal(review)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.serving, conversionTime)
	defer cancel()
	answer, err := c.client.Post().SetHeader("Content-Type", runtime.ContentTypeJSON).Body(body).Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	got := api.ConversionReview{}
	if err := json.Unmarshal(answer, &got); err != nil {
		return nil, err
	}
	converted, err := convertedObjects(&got, &review, uid)
	if err != nil {
		return nil, err
	}
	if len(converted) != 1 {
		return nil, fmt.Errorf("it returned %d objects, expected 1", len(converted))
	}
	if n := len(converted[0].Raw); n > maxConverted {
		return nil, fmt.Errorf("it returned an object of %d bytes: the limit is %d", n, maxConverted)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(converted[0].Raw); err != nil {
		return nil, err
	}
	return u.Object, nil
}

// convertedObjects returns the objects of a webhook's response. A v1beta1 response need not
// repeat the type of the request.
func convertedObjects(got, asked *api.ConversionReview, uid types.UID) ([]runtime.RawExtension, error) {
	strict := asked.APIVersion == "apiextensions.k8s.io/v1"
	if strict && got.TypeMeta != asked.TypeMeta {
		return nil, fmt.Errorf("expected webhook response of %v, got %v", asked.GroupVersionKind(), got.GroupVersionKind())
	}
	r := got.Response
	switch {
	case r == nil:
		return nil, errors.New("no response provided")
	case strict && r.UID != uid:
		return nil, fmt.Errorf("expected response.uid=%q, got %q", uid, r.UID)
	case r.Result.Status == metav1.StatusSuccess:
		return r.ConvertedObjects, nil
	case r.Result.Message != "":
		return nil, errors.New(r.Result.Message)
	}
	return nil, fmt.Errorf("response.result.status was '%s', not 'Success'", r.Result.Status)
}

// checkConverted rejects a converted object that does not match the original.
func checkConverted(sent, got schema.Object, to runtimeschema.GroupVersion) error {
	a, b := &unstructured.Unstructured{Object: sent}, &unstructured.Unstructured{Object: got}
	if gv := b.GroupVersionKind().GroupVersion(); gv != to {
		return fmt.Errorf("invalid groupVersion (expected %v, received %v)", to, gv)
	}
	for _, same := range []struct{ what, sent, got string }{
		{"kind", a.GetKind(), b.GetKind()}, {"name", a.GetName(), b.GetName()},
		{"namespace", a.GetNamespace(), b.GetNamespace()}, {"UID", string(a.GetUID()), string(b.GetUID())},
	} {
		if same.sent != same.got {
			return fmt.Errorf("must have the same %s: %v != %v", same.what, same.sent, same.got)
		}
	}
	return nil
}

// keepMetadata restores the original metadata of a converted object: a webhook may change
// only labels and annotations.
func keepMetadata(sent, got schema.Object) error {
	answered, ok := got["metadata"].(map[string]any)
	if !ok {
		return fmt.Errorf("metadata must be an object, not %T", got["metadata"])
	}
	original, _ := sent["metadata"].(map[string]any)
	meta := runtime.DeepCopyJSON(original)
	if meta == nil {
		meta = map[string]any{}
	}
	for name, check := range map[string]func(map[string]string) field.ErrorList{
		"labels": func(m map[string]string) field.ErrorList {
			return metav1validation.ValidateLabels(m, field.NewPath("metadata", "labels"))
		},
		"annotations": func(m map[string]string) field.ErrorList {
			return apivalidation.ValidateAnnotations(m, field.NewPath("metadata", "annotations"))
		},
	} {
		if answered[name] == nil {
			delete(meta, name)
			continue
		}
		now, err := stringMap(answered[name])
		if err != nil {
			return fmt.Errorf("metadata.%s: %w", name, err)
		}
		// Stored values may be invalid; only changes are validated.
		if before, _ := stringMap(meta[name]); !maps.Equal(now, before) {
			if errs := check(now); len(errs) > 0 {
				return errs.ToAggregate()
			}
		}
		meta[name] = answered[name]
	}
	got["metadata"] = meta
	return nil
}

func stringMap(v any) (map[string]string, error) {
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("must be an object, not %T", v)
	}
	out := make(map[string]string, len(m))
	for k, x := range m {
		s, ok := x.(string)
		if !ok {
			return nil, fmt.Errorf("[%s] must be a string, not %T", k, x)
		}
		out[k] = s
	}
	return out, nil
}

package custom

import (
	"context"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversionscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/endpoints/handlers/finisher"
	requestmetrics "k8s.io/apiserver/pkg/endpoints/handlers/metrics"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"

	"espalier.dev/server/backend"
	"espalier.dev/server/fields"
	serverrest "espalier.dev/server/rest"
)

// writeTimeout limits a write, as in kube-apiserver. The filters may set a shorter limit.
const writeTimeout = 34 * time.Second

// write is one request that creates or changes a custom resource.
//
// It does what the handlers of k8s.io/apiserver do, in the same order and with the same
// errors, but decodes the body once, encodes the object once, and does not copy objects for
// admission plugins that do not exist. Resources with Go structs use the handlers of
// k8s.io/apiserver.
type write struct {
	*endpoint
	serving *serving
	scope   *handlers.RequestScope
	// strategy is the strategy of the endpoint or of its status.
	strategy writeStrategy
	fields   *fields.Manager
	info     *apirequest.RequestInfo
	replaced replacement

	// The following come from the request.
	req       *http.Request
	name      string
	media     negotiation.MediaTypeOptions
	plain     bool // whether the response is the object as JSON
	body      []byte
	options   writeOptions
	patchType types.PatchType

	// stored is what was stored of the result, or nil. created is set if there was no object before.
	stored  *storedTree
	created bool
	// observer is not nil if the result may be remembered.
	observer *observer
}

// writeStrategy is what the strategies of the endpoint and of its status have in common.
type writeStrategy interface {
	rest.RESTCreateStrategy
	rest.RESTUpdateStrategy
}

// writeOptions are the query parameters of a write.
type writeOptions struct {
	dryRun                   []string
	manager, fieldValidation string
	force                    bool
}

func (o *writeOptions) isDryRun() bool { return dryrun.IsDryRun(o.dryRun) }

// directive returns how unknown and duplicate fields are treated.
func (o *writeOptions) directive() string {
	if o.fieldValidation == "" {
		return metav1.FieldValidationWarn
	}
	return o.fieldValidation
}

func (o *writeOptions) create() *metav1.CreateOptions {
	return &metav1.CreateOptions{TypeMeta: optionsType("CreateOptions"), DryRun: o.dryRun,
		FieldManager: o.manager, FieldValidation: o.fieldValidation}
}

func (o *writeOptions) update() *metav1.UpdateOptions {
	return &metav1.UpdateOptions{TypeMeta: optionsType("UpdateOptions"), DryRun: o.dryRun,
		FieldManager: o.manager, FieldValidation: o.fieldValidation}
}

func optionsType(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: metav1.SchemeGroupVersion.String(), Kind: kind}
}

// writeHandler returns the handler of a write of a custom resource or its status, or nil for
// other requests.
func (s *serving) writeHandler(ctx context.Context, e *endpoint, r *apirequest.RequestInfo) http.HandlerFunc {
	if s.fixed != nil {
		return nil
	}
	w := &write{endpoint: e, serving: s, info: r, name: r.Name}
	switch {
	case r.Subresource == "":
		w.scope, w.strategy, w.fields = e.scope, e.strategy, e.fields
	case r.Subresource == "status" && e.statusScope != nil:
		w.scope, w.strategy, w.fields = e.statusScope, statusStrategy{e.strategy}, e.statusFields
	default:
		return nil
	}
	var run func(context.Context) (runtime.Object, error)
	switch r.Verb {
	case "create":
		run = w.create
	case "update":
		run = w.update
	case "patch":
		run = w.patch
	default:
		return nil
	}
	_, w.replaced = e.replacing(ctx, w.scope, r)
	return func(rw http.ResponseWriter, req *http.Request) {
		w.req = req
		ctx, cancel := context.WithTimeout(apirequest.WithNamespace(req.Context(), r.Namespace), writeTimeout)
		defer cancel()
		obj, err := run(ctx)
		if err != nil {
			responsewriters.ErrorNegotiated(err, w.scope.Serializer, w.scope.Kind.GroupVersion(), rw, req)
			return
		}
		code := http.StatusOK
		if w.created { // it may still change after an error
			code = http.StatusCreated
		}
		w.respond(ctx, rw, code, obj)
	}
}

// create handles a POST.
func (w *write) create(ctx context.Context) (runtime.Object, error) {
	if err := w.negotiate(); err != nil {
		return nil, err
	}
	in, err := negotiation.NegotiateInputSerializer(w.req, false, w.serializer)
	if err != nil {
		return nil, err
	}
	if err := w.readBody(ctx, requestmetrics.Create); err != nil {
		return nil, err
	}
	options := &metav1.CreateOptions{}
	if err := w.readOptions(options, func() field.ErrorList { return validation.ValidateCreateOptions(options) }); err != nil {
		return nil, err
	}
	w.options = writeOptions{dryRun: options.DryRun, manager: options.FieldManager, fieldValidation: options.FieldValidation}
	sent, err := w.decode(in, true)
	if err != nil {
		return nil, err
	}
	if w.name == "" {
		w.name = sent.GetName()
	}
	audit.LogRequestObject(w.req.Context(), sent, w.scope.Kind.GroupVersion(), w.scope.Resource, w.scope.Subresource, w.scope.Serializer)
	rest.WipeObjectMetaSystemFields(sent)
	if err := w.ensureNamespace(sent); err != nil {
		return nil, err
	}
	w.dedupOwners(sent, false)
	result, err := w.finish(ctx, func() (runtime.Object, error) {
		if err := w.manage(ctx, nil, sent); err != nil {
			return nil, err
		}
		if err := w.admit(ctx, sent, nil); err != nil {
			return nil, err
		}
		result, err := w.insert(ctx, sent)
		if backend.IsTooLarge(err) {
			// The managed fields can be large, and are not essential.
			sent.SetManagedFields(nil)
			result, err = w.insert(ctx, sent)
		}
		return result, err
	})
	w.created = true
	return result, err
}

// update handles a PUT.
func (w *write) update(ctx context.Context) (runtime.Object, error) {
	if w.name == "" {
		return nil, errNoName()
	}
	if err := w.negotiate(); err != nil {
		return nil, err
	}
	if err := w.readBody(ctx, requestmetrics.Update); err != nil {
		return nil, err
	}
	options := &metav1.UpdateOptions{}
	if err := w.readOptions(options, func() field.ErrorList { return validation.ValidateUpdateOptions(options) }); err != nil {
		return nil, err
	}
	w.options = writeOptions{dryRun: options.DryRun, manager: options.FieldManager, fieldValidation: options.FieldValidation}
	in, err := negotiation.NegotiateInputSerializer(w.req, false, w.serializer)
	if err != nil {
		return nil, err
	}
	sent, err := w.decode(in, true)
	if err != nil {
		return nil, err
	}
	audit.LogRequestObject(w.req.Context(), sent, w.scope.Kind.GroupVersion(), w.scope.Resource, w.scope.Subresource, w.scope.Serializer)
	if err := w.ensureNamespace(sent); err != nil {
		return nil, err
	}
	if err := w.checkName(sent); err != nil {
		return nil, err
	}
	w.dedupOwners(sent, false)
	uid := sent.GetUID()

	managed := true
	change := func(ctx context.Context, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		obj := sent
		if sent = nil; obj == nil {
			// A further attempt: the previous one has changed the object.
			var err error
			if obj, err = w.decode(in, false); err != nil {
				return nil, err
			}
			if err := w.ensureNamespace(obj); err != nil {
				return nil, err
			}
			owners, _ := dedup(obj.GetOwnerReferences())
			obj.SetOwnerReferences(owners)
		}
		if !managed {
			obj.SetManagedFields(nil)
		} else if err := w.manage(ctx, live, obj); err != nil {
			return nil, err
		}
		return obj, w.admit(ctx, obj, live)
	}
	return w.finish(ctx, func() (runtime.Object, error) {
		result, err := w.replace(ctx, change, uid, false)
		if backend.IsTooLarge(err) {
			managed = false
			result, err = w.replace(ctx, change, uid, false)
		}
		return result, err
	})
}

// finish runs the part of a write that changes data. A request that times out is answered
// while fn still runs, as in kube-apiserver. The work of a request ends with fn, which ends
// when the requests to etcd do: they have the context of the request.
func (w *write) finish(ctx context.Context, fn func() (runtime.Object, error)) (runtime.Object, error) {
	return finisher.FinishRequest(ctx, func() (runtime.Object, error) {
		end, err := serverrest.BeginWork(ctx)
		if err != nil {
			return nil, err
		}
		defer end()
		return fn()
	})
}

// negotiate chooses the format of the response.
func (w *write) negotiate() error {
	media, out, err := negotiation.NegotiateOutputMediaType(w.req, w.serializer, w.scope)
	w.media = media
	w.plain = err == nil && media.Convert == nil && out.MediaType == runtime.ContentTypeJSON && out.Serializer == media.Accepted.Serializer
	return err
}

// readOptions reads the query parameters.
func (w *write) readOptions(into runtime.Object, validate func() field.ErrorList) error {
	if w.req.URL.RawQuery != "" {
		if err := metainternalversionscheme.ParameterCodec.DecodeParameters(w.req.URL.Query(), w.scope.MetaGroupVersion, into); err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
	}
	if errs := validate(); len(errs) > 0 {
		return apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind(optionsKind(into)).GroupKind(), "", errs)
	}
	return nil
}

func optionsKind(o runtime.Object) string {
	switch o.(type) {
	case *metav1.CreateOptions:
		return "CreateOptions"
	case *metav1.UpdateOptions:
		return "UpdateOptions"
	}
	return "PatchOptions"
}

// errNoName returns the error of a path without the name of an object.
func errNoName() error { return apierrors.NewBadRequest("name must be provided") }

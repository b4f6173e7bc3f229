package tokens

import (
	"context"
	"fmt"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	jwtid "k8s.io/apiserver/pkg/authentication/token/jwt"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
)

const (
	// minSeconds and maxSeconds are the limits of the lifetime that a request can ask for.
	minSeconds = 10 * 60
	maxSeconds = 1 << 32
	// defaultSeconds is the lifetime of a token if the request sets none.
	defaultSeconds = 60 * 60
	// ProjectedSeconds is the lifetime of the tokens that the admission plugin ServiceAccount
	// requests for pods. No other program is likely to request it, so it identifies them.
	ProjectedSeconds = 60*60 + 7
	// extendedLifetime is the lifetime of these tokens if it is extended, for programs that read
	// their token only once.
	extendedLifetime = 365 * 24 * time.Hour
)

// Default fills in the defaults of a request for a token.
func Default(r *authenticationv1.TokenRequest) {
	if r.Spec.ExpirationSeconds == nil {
		r.Spec.ExpirationSeconds = new(int64(defaultSeconds))
	}
}

// Config configures REST.
type Config struct {
	Issuer  *Issuer
	Objects Objects
	// Audiences are those of this server, for requests that name none.
	Audiences authenticator.Audiences
	// MaxLifetime limits the lifetime of tokens; zero means no limit.
	MaxLifetime time.Duration
	// Extend extends the lifetime of the tokens of pods to a year, whatever MaxLifetime is, and
	// records in the audit log if they are used after the time that was requested.
	Extend bool
}

// REST issues tokens: it is the subresource token of service accounts.
type REST struct{ config Config }

var (
	_ rest.NamedCreater                   = (*REST)(nil)
	_ rest.GroupVersionKindProvider       = (*REST)(nil)
	_ rest.SubresourceObjectMetaPreserver = (*REST)(nil)
)

// NewREST returns the subresource.
func NewREST(c Config) *REST { return &REST{c} }

// Kind is the kind of requests for tokens.
var Kind = authenticationv1.SchemeGroupVersion.WithKind("TokenRequest")

// New returns an empty TokenRequest.
func (r *REST) New() runtime.Object { return &authenticationv1.TokenRequest{} }

// Destroy does nothing.
func (r *REST) Destroy() {}

// GroupVersionKind returns the kind of the requests.
func (r *REST) GroupVersionKind(runtimeschema.GroupVersion) runtimeschema.GroupVersionKind {
	return Kind
}

// PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate keeps the UID in requests: it must be
// that of the service account.
func (r *REST) PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate() bool { return true }

// Create issues a token for the service account of that name.
func (r *REST) Create(ctx context.Context, name string, obj runtime.Object,
	validate rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	req, ok := obj.(*authenticationv1.TokenRequest)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a TokenRequest: %T", obj))
	}
	namespace, ok := apirequest.NamespaceFrom(ctx)
	if !ok || namespace == "" {
		return nil, apierrors.NewBadRequest("namespace is required")
	}
	account, err := r.account(ctx, namespace, name, req)
	if err != nil {
		return nil, err
	}
	req.Name, req.Namespace, req.UID = account.Name, account.Namespace, account.UID
	if len(req.Spec.Audiences) == 0 {
		req.Spec.Audiences = r.config.Audiences
	}
	Default(req)
	// The token is issued later, so it expires no earlier than the status says.
	now := time.Now()
	req.CreationTimestamp = metav1.NewTime(now)
	req.Status = authenticationv1.TokenRequestStatus{}
	if errs := validateRequest(req); len(errs) > 0 {
		return nil, apierrors.NewInvalid(Kind.GroupKind(), "", errs)
	}
	if validate != nil {
		if err := validate(ctx, req.DeepCopyObject()); err != nil {
			return nil, err
		}
	}

	claims := Claims{ServiceAccount: account, Audiences: req.Spec.Audiences, IssuedAt: time.Now()}
	if err := r.bind(ctx, &claims, req.Spec.BoundObjectRef); err != nil {
		return nil, err
	}
	seconds := *req.Spec.ExpirationSeconds
	if limit := int64(r.config.MaxLifetime / time.Second); limit > 0 && seconds > limit {
		warning.AddWarning(ctx, "", fmt.Sprintf("requested expiration of %d seconds shortened to %d seconds", seconds, limit))
		seconds = limit
		req.Spec.ExpirationSeconds = &seconds
	}
	claims.Lifetime = time.Duration(seconds) * time.Second
	if r.extends(&claims, seconds) {
		claims.WarnAfter, claims.Lifetime = claims.Lifetime, extendedLifetime
	}
	token, id, err := r.config.Issuer.Issue(claims)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	out := req.DeepCopy()
	out.Status = authenticationv1.TokenRequestStatus{Token: token,
		ExpirationTimestamp: metav1.NewTime(now.Add(time.Duration(seconds) * time.Second))}
	audit.AddAuditAnnotation(ctx, serviceaccount.IssuedCredentialIDAuditAnnotationKey, jwtid.CredentialIDForJTI(id))
	return out, nil
}

// account returns the service account of a request.
func (r *REST) account(ctx context.Context, namespace, name string, req *authenticationv1.TokenRequest) (*corev1.ServiceAccount, error) {
	invalid := func(child, value, detail string) error {
		return apierrors.NewInvalid(Kind.GroupKind(), name, field.ErrorList{field.Invalid(field.NewPath("metadata", child), value, detail)})
	}
	if req.Name != "" && req.Name != name {
		return nil, invalid("name", req.Name, "must match the service account name if specified")
	}
	if req.Namespace != "" && req.Namespace != namespace {
		return nil, invalid("namespace", req.Namespace, "must match the service account namespace if specified")
	}
	account, err := get[*corev1.ServiceAccount](ctx, r.config.Objects, "serviceaccounts", namespace, name)
	if err != nil {
		return nil, err
	}
	if req.UID != "" && req.UID != account.UID {
		return nil, apierrors.NewConflict(runtimeschema.GroupResource{Group: Kind.Group, Resource: Kind.Kind}, name,
			fmt.Errorf("the UID in the token request (%s) does not match the UID of the service account (%s)", req.UID, account.UID))
	}
	return account, nil
}

// validateRequest validates a request.
func validateRequest(req *authenticationv1.TokenRequest) (errs field.ErrorList) {
	path, seconds := field.NewPath("spec", "expirationSeconds"), *req.Spec.ExpirationSeconds
	if seconds < minSeconds {
		errs = append(errs, field.Invalid(path, seconds, "may not specify a duration less than 10 minutes"))
	}
	if seconds > maxSeconds {
		errs = append(errs, field.Invalid(path, seconds, "may not specify a duration larger than 2^32 seconds"))
	}
	return errs
}

// bind sets the objects that a token is bound to.
func (r *REST) bind(ctx context.Context, c *Claims, ref *authenticationv1.BoundObjectReference) (err error) {
	if ref == nil {
		return nil
	}
	var uid types.UID
	objects, account := r.config.Objects, c.ServiceAccount
	gvk := runtimeschema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	switch gvk.GroupKind() {
	case runtimeschema.GroupKind{Kind: "Pod"}:
		if c.Pod, err = get[*corev1.Pod](ctx, objects, "pods", account.Namespace, ref.Name); err != nil {
			return err
		}
		if c.Pod.Spec.ServiceAccountName != account.Name {
			return apierrors.NewBadRequest(fmt.Sprintf("cannot bind token for serviceaccount %q to pod running with different serviceaccount name.", account.Name))
		}
		uid = c.Pod.UID
		if c.Node, err = r.nodeOf(ctx, c.Pod); err != nil {
			return err
		}
	case runtimeschema.GroupKind{Kind: "Node"}:
		if c.Node, err = get[*corev1.Node](ctx, objects, "nodes", "", ref.Name); err != nil {
			return err
		}
		uid = c.Node.UID
	case runtimeschema.GroupKind{Kind: "Secret"}:
		if c.Secret, err = get[*corev1.Secret](ctx, objects, "secrets", account.Namespace, ref.Name); err != nil {
			return err
		}
		uid = c.Secret.UID
	default:
		return apierrors.NewBadRequest(fmt.Sprintf("cannot bind token to object of type %s", gvk))
	}
	if ref.UID != "" && ref.UID != uid {
		return apierrors.NewConflict(runtimeschema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, ref.Name,
			fmt.Errorf("the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", ref.UID))
	}
	return nil
}

// nodeOf returns the node that a pod runs on, or nil. If the node does not exist, only its name
// is known.
func (r *REST) nodeOf(ctx context.Context, pod *corev1.Pod) (*corev1.Node, error) {
	name := pod.Spec.NodeName
	if name == "" {
		return nil, nil
	}
	node, err := get[*corev1.Node](ctx, r.config.Objects, "nodes", "", name)
	switch {
	case apierrors.IsNotFound(err):
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
	case err != nil:
		return nil, apierrors.NewInternalError(err)
	}
	return node, nil
}

// extends reports whether the lifetime of a token is extended: that of a pod for this server.
func (r *REST) extends(c *Claims, seconds int64) bool {
	return r.config.Extend && c.Pod != nil && seconds == ProjectedSeconds &&
		!slices.ContainsFunc(c.Audiences, func(a string) bool { return !slices.Contains(r.config.Audiences, a) })
}

// get reads an object of a known type.
func get[T runtime.Object](ctx context.Context, objects Objects, resource, namespace, name string) (T, error) {
	obj, err := objects.Get(ctx, runtimeschema.GroupResource{Resource: resource}, namespace, name)
	if err != nil {
		return *new(T), err
	}
	t, ok := obj.(T)
	if !ok {
		return t, apierrors.NewInternalError(fmt.Errorf("expected %T but got %T", t, obj))
	}
	return t, nil
}

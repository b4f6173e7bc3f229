package tokens

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"gopkg.in/go-jose/go-jose.v2/jwt"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	jwtid "k8s.io/apiserver/pkg/authentication/token/jwt"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Objects reads the objects that tokens are bound to.
type Objects interface {
	// Get returns an object. The error of an object that does not exist is a NotFound error.
	Get(ctx context.Context, resource runtimeschema.GroupResource, namespace, name string) (runtime.Object, error)
}

// maxVerified is the maximum number of tokens whose signature is remembered.
const maxVerified = 4096

// Authenticator authenticates the tokens of service accounts. The verification of a signature
// costs more than everything else, so tokens with a valid signature are remembered while the keys are the same. All other
// checks are made for each request: the time, the audience, and the objects that the token is
// bound to.
type Authenticator struct {
	keys *Keys
	// issuers are all that are known, and ownIssuers those of tokens that are not in Secrets.
	issuers, ownIssuers []string
	audiences           authenticator.Audiences
	objects             Objects
	label               Label
	now                 func() time.Time

	mu       sync.RWMutex
	verified map[[sha256.Size]byte]*claims
	tried    map[types.UID]time.Time // when a label of a Secret was last written, or could not be
}

var _ authenticator.Token = (*Authenticator)(nil)

// claims are the claims of a token with a valid signature of a known issuer.
type claims struct {
	// keys are those that verified the signature.
	keys    *keySet
	public  jwt.Claims
	private privateClaims
	legacy  legacyClaims
	user    user.Info
}

// Label sets labels of a Secret, unless another one has its name by now.
type Label func(ctx context.Context, secret *corev1.Secret, labels map[string]string) error

// NewAuthenticator returns an authenticator of tokens of any of the issuers, and of those in Secrets. Tokens must be for
// one of the audiences, unless a request is for others. The day of the last use of a token in a
// Secret is written with label, unless it is nil.
func NewAuthenticator(keys *Keys, issuers []string, audiences authenticator.Audiences, objects Objects, label Label) *Authenticator {
	return &Authenticator{keys: keys, issuers: append(slices.Clone(issuers), LegacyIssuer), ownIssuers: issuers, audiences: audiences, objects: objects, label: label,
		now: time.Now, verified: map[[sha256.Size]byte]*claims{}, tried: map[types.UID]time.Time{}}
}

// AuthenticateToken returns the service account of a token. It is false for a token of somebody
// else.
func (a *Authenticator) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	c, err := a.claims(token)
	if err != nil || c == nil {
		return nil, false, err
	}
	if a.isLegacy(c) {
		r, err := a.authenticateLegacy(ctx, token, c)
		return r, err == nil, err
	}
	audiences, err := a.intersect(ctx, authenticator.Audiences(c.public.Audience))
	if err != nil {
		return nil, false, err
	}
	now := a.now()
	if err := checkTime(&c.public, now); err != nil {
		return nil, false, err
	}
	if err := a.checkObjects(ctx, &c.private.Kubernetes, now); err != nil {
		return nil, false, err
	}
	if after := c.private.Kubernetes.WarnAfter; after != nil && *after != 0 && now.After(after.Time()) {
		audit.AddAuditAnnotation(ctx, "authentication.k8s.io/stale-token",
			fmt.Sprintf("subject: %s, seconds after warning threshold: %d", c.public.Subject, now.Unix()-after.Time().Unix()))
	}
	return &authenticator.Response{User: c.user, Audiences: audiences}, true, nil
}

// intersect returns the audiences of a token that a request is for.
func (a *Authenticator) intersect(ctx context.Context, audiences authenticator.Audiences) (authenticator.Audiences, error) {
	wanted, ok := authenticator.AudiencesFrom(ctx)
	if !ok {
		wanted = a.audiences
	}
	common := audiences.Intersect(wanted)
	if len(common) == 0 {
		return nil, fmt.Errorf("token audiences %q is invalid for the target audiences %q", audiences, wanted)
	}
	return common, nil
}

// claims returns the claims of a token after it has verified the signature, or nil if the token
// is not of one of the issuers.
func (a *Authenticator) claims(token string) (*claims, error) {
	hash := sha256.Sum256([]byte(token))
	a.mu.RLock()
	c := a.verified[hash]
	a.mu.RUnlock()
	if c != nil && c.keys == a.keys.current.Load() {
		return c, nil
	}
	if !slices.Contains(a.issuers, unverifiedIssuer(token)) {
		return nil, nil
	}
	c, err := a.verify(token)
	if err != nil || c == nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.verified) >= maxVerified {
		clear(a.verified)
	}
	a.verified[hash] = c
	return c, nil
}

// unverifiedIssuer returns the issuer that a token names, or the empty string if it is not a
// JWT. Everybody can write such a token.
func unverifiedIssuer(token string) string {
	if strings.Count(token, ".") != 2 || strings.HasPrefix(strings.TrimSpace(token), "{") {
		return ""
	}
	_, rest, _ := strings.Cut(token, ".")
	text, _, _ := strings.Cut(rest, ".")
	payload, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return ""
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	if json.Unmarshal(payload, &claims) != nil {
		return ""
	}
	return claims.Issuer
}

// verify verifies the signature of a token. It returns nil for what is not a JWT.
func (a *Authenticator) verify(token string) (*claims, error) {
	parsed, err := jwt.ParseSigned(token)
	if err != nil || len(parsed.Headers) != 1 {
		return nil, nil
	}
	set := a.keys.current.Load()
	keys := set.candidates(parsed.Headers[0].KeyID)
	if len(keys) == 0 {
		return nil, errors.New("invalid signature, no keys found")
	}
	var errs []error
	for _, key := range keys {
		if parsed.Headers[0].Algorithm != key.Algorithm {
			errs = append(errs, fmt.Errorf("invalid signature, the algorithm is %q, and that of the key is %q",
				parsed.Headers[0].Algorithm, key.Algorithm))
			continue
		}
		c := &claims{keys: set}
		if err := parsed.Claims(key.Key, &c.public, &c.private, &c.legacy); err != nil {
			errs = append(errs, err)
			continue
		}
		if !slices.Contains(a.issuers, c.public.Issuer) {
			return nil, fmt.Errorf("token issuer %q is invalid", c.public.Issuer)
		}
		if c.user = c.userInfo(); a.isLegacy(c) {
			c.user = c.legacy.userInfo()
		}
		return c, nil
	}
	return nil, errors.Join(errs...)
}

// userInfo returns the user of a token that is not in a Secret.
func (c *claims) userInfo() user.Info {
	k := c.private.Kubernetes
	info := serviceaccount.ServiceAccountInfo{
		Namespace: k.Namespace, Name: k.ServiceAccount.Name, UID: k.ServiceAccount.UID,
		CredentialID: jwtid.CredentialIDForJTI(c.public.ID),
	}
	if k.Pod != nil {
		info.PodName, info.PodUID = k.Pod.Name, k.Pod.UID
	}
	if k.Node != nil {
		info.NodeName, info.NodeUID = k.Node.Name, k.Node.UID
	}
	return info.UserInfo()
}

// checkTime checks that a token is valid at a time, with the tolerance that Kubernetes has for
// the clocks of other servers.
func checkTime(c *jwt.Claims, now time.Time) error {
	switch err := c.Validate(jwt.Expected{Time: now}); {
	case err == nil:
		return nil
	case errors.Is(err, jwt.ErrExpired):
		return errors.New("service account token has expired")
	case errors.Is(err, jwt.ErrNotValidYet):
		return errors.New("service account token is not valid yet")
	case errors.Is(err, jwt.ErrIssuedInTheFuture):
		return errors.New("service account token is issued in the future")
	default:
		return fmt.Errorf("service account token claims could not be validated: %w", err)
	}
}

// checkObjects checks that the objects exist that a token is bound to. Those that are being
// deleted count for as long as the tolerance for clocks: pods need their token while they
// terminate.
func (a *Authenticator) checkObjects(ctx context.Context, k *kubernetesClaims, now time.Time) error {
	deadline := now.Add(-jwt.DefaultLeeway)
	gone := func(obj metav1.Object) bool {
		return obj.GetDeletionTimestamp() != nil && obj.GetDeletionTimestamp().Time.Before(deadline)
	}
	account, err := a.get(ctx, "serviceaccounts", k.Namespace, k.ServiceAccount.Name)
	switch {
	case err != nil:
		return err
	case string(account.GetUID()) != k.ServiceAccount.UID:
		return fmt.Errorf("service account UID (%s) does not match claim (%s)", account.GetUID(), k.ServiceAccount.UID)
	case gone(account):
		return fmt.Errorf("service account %s/%s has been deleted", k.Namespace, k.ServiceAccount.Name)
	}
	bound := func(kind, resource, namespace string, to *reference) error {
		if to == nil {
			return nil
		}
		obj, err := a.get(ctx, resource, namespace, to.Name)
		switch {
		case err != nil:
			return errors.New("service account token has been invalidated")
		case string(obj.GetUID()) != to.UID:
			return fmt.Errorf("%s UID (%s) does not match service account %s ref claim (%s)", kind, obj.GetUID(), kind, to.UID)
		case gone(obj):
			return errors.New("service account token has been invalidated")
		}
		return nil
	}
	if err := bound("secret", "secrets", k.Namespace, k.Secret); err != nil {
		return err
	}
	if err := bound("pod", "pods", k.Namespace, k.Pod); err != nil {
		return err
	}
	if k.Pod != nil {
		return nil // the node is only information about the pod
	}
	return bound("node", "nodes", "", k.Node)
}

func (a *Authenticator) get(ctx context.Context, resource, namespace, name string) (metav1.Object, error) {
	obj, err := a.objects.Get(ctx, runtimeschema.GroupResource{Resource: resource}, namespace, name)
	if err != nil {
		return nil, err
	}
	m, ok := obj.(metav1.Object)
	if !ok {
		return nil, fmt.Errorf("%T has no metadata", obj)
	}
	return m, nil
}

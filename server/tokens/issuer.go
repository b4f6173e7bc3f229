package tokens

import (
	"fmt"
	"time"

	"github.com/google/uuid"
	"gopkg.in/go-jose/go-jose.v2/jwt"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
)

// privateClaims are the claims of a token that only Kubernetes knows.
type privateClaims struct {
	Kubernetes kubernetesClaims `json:"kubernetes.io,omitempty"`
}

type kubernetesClaims struct {
	Namespace      string           `json:"namespace,omitempty"`
	ServiceAccount reference        `json:"serviceaccount,omitempty"`
	Pod            *reference       `json:"pod,omitempty"`
	Secret         *reference       `json:"secret,omitempty"`
	Node           *reference       `json:"node,omitempty"`
	WarnAfter      *jwt.NumericDate `json:"warnafter,omitempty"`
}

// reference names an object that a token is bound to.
type reference struct {
	Name string `json:"name,omitempty"`
	UID  string `json:"uid,omitempty"`
}

func referenceTo(obj metav1.Object) *reference {
	return &reference{Name: obj.GetName(), UID: string(obj.GetUID())}
}

// Issuer signs tokens.
type Issuer struct {
	Keys *Keys
	// URL identifies the issuer.
	URL string
}

// Claims describe a token.
type Claims struct {
	ServiceAccount *corev1.ServiceAccount
	// Pod, Secret and Node are the objects that the token is bound to. At most one of Pod and
	// Secret is set. If both Pod and Node are set, the token is bound to the pod, and names the
	// node that it runs on.
	Pod    *corev1.Pod
	Secret *corev1.Secret
	Node   *corev1.Node
	// Audiences are those that may accept the token.
	Audiences []string
	// IssuedAt is the time when the token begins to be valid, for Lifetime.
	IssuedAt time.Time
	Lifetime time.Duration
	// WarnAfter is the time after which the use of the token is recorded in the audit log; zero
	// means never.
	WarnAfter time.Duration
}

// Issue returns a signed token and its ID.
func (i *Issuer) Issue(c Claims) (token, id string, err error) {
	id = uuid.NewString()
	public := &jwt.Claims{
		Issuer:    i.URL,
		Subject:   serviceaccount.MakeUsername(c.ServiceAccount.Namespace, c.ServiceAccount.Name),
		Audience:  c.Audiences,
		IssuedAt:  jwt.NewNumericDate(c.IssuedAt),
		NotBefore: jwt.NewNumericDate(c.IssuedAt),
		Expiry:    jwt.NewNumericDate(c.IssuedAt.Add(c.Lifetime)),
		ID:        id,
	}
	private := &privateClaims{kubernetesClaims{Namespace: c.ServiceAccount.Namespace, ServiceAccount: *referenceTo(c.ServiceAccount)}}
	if c.Pod != nil {
		private.Kubernetes.Pod = referenceTo(c.Pod)
	}
	if c.Secret != nil {
		private.Kubernetes.Secret = referenceTo(c.Secret)
	}
	if c.Node != nil {
		private.Kubernetes.Node = referenceTo(c.Node)
	}
	if c.WarnAfter != 0 {
		private.Kubernetes.WarnAfter = jwt.NewNumericDate(c.IssuedAt.Add(c.WarnAfter))
	}
	token, err = jwt.Signed(i.Keys.current.Load().signer).Claims(private).Claims(public).CompactSerialize()
	if err != nil {
		return "", "", fmt.Errorf("failed to generate token: %w", err)
	}
	return token, id, nil
}

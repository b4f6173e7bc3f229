package main

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// whoami returns the answer to a request of a user with other credentials than the administrator's.
func (c *cluster) whoami(ctx context.Context, credentials func(*rest.Config)) string {
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig)
	if err != nil {
		return err.Error()
	}
	config = rest.AnonymousClientConfig(config)
	credentials(config)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err.Error()
	}
	_, err = client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	return answer(err)
}

// tokenClocks uses tokens that a server with another clock has issued.
func tokenClocks(ctx context.Context, c *cluster, client kubernetes.Interface) (o observed, err error) {
	var account *corev1.ServiceAccount
	if _, err := until(ctx, "a service account", func(ctx context.Context) (bool, error) {
		account, err = client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, err
	}); err != nil {
		return o, err
	}
	data, err := os.ReadFile(c.key)
	if err != nil {
		return o, err
	}
	block, _ := pem.Decode(data)
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	if err != nil {
		return o, err
	}
	for _, t := range []struct {
		what                    string
		issued, begins, expires time.Duration // from now
	}{
		{"50 s ahead", 50 * time.Second, 50 * time.Second, time.Hour},
		{"70 s ahead", 70 * time.Second, 70 * time.Second, time.Hour},
		{"70 s ahead, only the time of issue", 70 * time.Second, 0, time.Hour},
		{"70 s ahead, only the time when it begins", 0, 70 * time.Second, time.Hour},
		{"expired 50 s ago", -time.Hour, -time.Hour, -50 * time.Second},
		{"expired 70 s ago", -time.Hour, -time.Hour, -70 * time.Second},
	} {
		now := time.Now()
		token, err := sign(key, map[string]any{
			"iss": issuer, "aud": []string{issuer}, "sub": "system:serviceaccount:default:default", "jti": fmt.Sprint(now.UnixNano()),
			"iat": now.Add(t.issued).Unix(), "nbf": now.Add(t.begins).Unix(), "exp": now.Add(t.expires).Unix(),
			"kubernetes.io": map[string]any{"namespace": account.Namespace, "serviceaccount": map[string]any{"name": account.Name, "uid": account.UID}},
		})
		if err != nil {
			return o, err
		}
		o.results = append(o.results, "token "+t.what+": "+c.whoami(ctx, func(config *rest.Config) { config.BearerToken = token }))
	}
	return o, nil
}

// sign returns a JWT.
func sign(key *rsa.PrivateKey, claims map[string]any) (string, error) {
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	text := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256"}`)) + "." + base64.RawURLEncoding.EncodeToString(payload)
	hash := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, hash[:])
	return text + "." + base64.RawURLEncoding.EncodeToString(signature), err
}

// certificateClocks uses client certificates that a CA with another clock has issued.
func certificateClocks(ctx context.Context, c *cluster, _ kubernetes.Interface) (o observed, err error) {
	for _, t := range []struct {
		what     string
		from, to time.Duration
	}{
		{"valid", -time.Minute, time.Hour},
		{"begins in a minute", time.Minute, time.Hour},
		{"expired a minute ago", -time.Hour, -time.Minute},
	} {
		now := time.Now()
		pair, err := clientPair(c.bundle.CA, "clock", now.Add(t.from), now.Add(t.to))
		if err != nil {
			return o, err
		}
		o.results = append(o.results, "certificate "+t.what+": "+c.whoami(ctx, func(config *rest.Config) {
			config.CertData, config.KeyData = pair.Cert, pair.Key
		}))
	}
	return o, nil
}

// leaseClocks renews leases with another clock.
func leaseClocks(ctx context.Context, _ *cluster, client kubernetes.Interface) (o observed, err error) {
	leases := client.CoordinationV1().Leases(metav1.NamespaceDefault)
	name, holder, duration := "clock", "other", int32(15)
	for _, t := range []struct {
		what string
		off  time.Duration
	}{{"a minute ahead", time.Minute}, {"a minute behind", -time.Minute}} {
		renewed := metav1.NewMicroTime(time.Now().Add(t.off))
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &duration, RenewTime: &renewed, AcquireTime: &renewed}}
		stored, err := leases.Create(ctx, lease, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			if stored, err = leases.Get(ctx, name, metav1.GetOptions{}); err == nil {
				stored.Spec = lease.Spec // time goes backwards
				stored, err = leases.Update(ctx, stored, metav1.UpdateOptions{})
			}
		}
		text := answer(err)
		if err == nil && !stored.Spec.RenewTime.Time.Equal(renewed.Time.Truncate(time.Microsecond)) {
			text = "stored as another time"
		}
		o.results = append(o.results, "lease renewed "+t.what+": "+text)
	}
	return o, leases.Delete(ctx, name, metav1.DeleteOptions{})
}

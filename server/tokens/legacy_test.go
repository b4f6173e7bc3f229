package tokens

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"gopkg.in/go-jose/go-jose.v2/jwt"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/warning"
)

// legacyToken signs a token as kube-controller-manager does.
func legacyToken(t testing.TB, keys *Keys, subject string, claims map[string]any) string {
	t.Helper()
	token, err := jwt.Signed(keys.current.Load().signer).Claims(claims).Claims(jwt.Claims{Subject: subject, Issuer: LegacyIssuer}).CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// TestLegacy authenticates tokens in Secrets.
func TestLegacy(t *testing.T) {
	keys := newKeys(t)
	const subject = "system:serviceaccount:ns:robot"
	now := time.Date(2026, 5, 4, 23, 0, 0, 0, time.FixedZone("", -3600*5)) // in UTC, that is the next day
	deleted := metav1.NewTime(now)
	for _, tt := range []struct {
		name    string
		subject string
		claims  map[string]any // changes
		// change changes the Secret and the service account.
		change         func(*corev1.Secret, *corev1.ServiceAccount)
		audiences      authenticator.Audiences
		err            string
		warning, label string
	}{
		{name: "manual", label: "2026-05-05"},
		{name: "generated", label: "2026-05-05", warning: "Use tokens from the TokenRequest API or manually created secret-based tokens instead of auto-generated secret-based tokens.",
			change: func(_ *corev1.Secret, a *corev1.ServiceAccount) {
				a.Secrets = []corev1.ObjectReference{{Name: "other"}, {Name: "secret"}}
			}},
		{name: "used before", label: "2026-05-05", change: func(s *corev1.Secret, _ *corev1.ServiceAccount) {
			s.Labels = map[string]string{LastUsedLabel: "2026-05-04"}
		}},
		{name: "used today", change: func(s *corev1.Secret, _ *corev1.ServiceAccount) {
			s.Labels = map[string]string{LastUsedLabel: "2026-05-05"}
		}},
		{name: "used tomorrow", change: func(s *corev1.Secret, _ *corev1.ServiceAccount) {
			s.Labels = map[string]string{LastUsedLabel: "2026-05-06"}
		}},
		{name: "invalid since", label: "2026-05-05", err: "the token in secret ns/secret for service account ns/robot has been marked invalid. Use tokens from the TokenRequest API or manually created secret-based tokens, " +
			"or remove the 'kubernetes.io/legacy-token-invalid-since' label from the secret to temporarily allow use of this token",
			change: func(s *corev1.Secret, _ *corev1.ServiceAccount) {
				s.Labels = map[string]string{InvalidSinceLabel: "2026-01-01"}
			}},
		{name: "no subject", subject: "-", err: "sub claim is missing"},
		{name: "another subject", subject: "system:serviceaccount:ns:other", err: "sub claim is invalid"},
		{name: "no namespace", claims: map[string]any{"namespace": nil}, err: "namespace claim is missing"},
		{name: "no secret", claims: map[string]any{"secret.name": nil}, err: "secretName claim is missing"},
		{name: "no account", claims: map[string]any{"service-account.name": nil}, err: "serviceAccountName claim is missing"},
		{name: "no UID", claims: map[string]any{"service-account.uid": ""}, err: "serviceAccountUID claim is missing"},
		{name: "no such secret", claims: map[string]any{"secret.name": "other"}, err: "Token has been invalidated"},
		{name: "deleted secret", change: func(s *corev1.Secret, _ *corev1.ServiceAccount) { s.DeletionTimestamp = &deleted }, err: "Token has been invalidated"},
		{name: "another token", change: func(s *corev1.Secret, _ *corev1.ServiceAccount) { s.Data["token"] = append(s.Data["token"], 'A') }, err: "Token does not match server's copy"},
		{name: "no such account", subject: "system:serviceaccount:ns:other", claims: map[string]any{"service-account.name": "other"}, err: `serviceaccounts "other" not found`},
		{name: "deleted account", change: func(_ *corev1.Secret, a *corev1.ServiceAccount) { a.DeletionTimestamp = &deleted }, err: "ServiceAccount ns/robot has been deleted"},
		{name: "another UID", claims: map[string]any{"service-account.uid": "old"}, err: "ServiceAccount UID (uid) does not match claim (old)"},
		{name: "another audience", audiences: authenticator.Audiences{"vault"}, err: `token audiences ["api"] is invalid for the target audiences ["vault"]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all := objects()
			secret := all["secrets/ns/secret"].(*corev1.Secret)
			claims := map[string]any{"namespace": "ns", "secret.name": "secret", "service-account.name": "robot", "service-account.uid": "uid"}
			maps.Copy(claims, tt.claims)
			long := map[string]any{}
			for name, value := range claims {
				if value != nil {
					long["kubernetes.io/serviceaccount/"+name] = value
				}
			}
			switch tt.subject {
			case "":
				tt.subject = subject
			case "-":
				tt.subject = ""
			}
			token := legacyToken(t, keys, tt.subject, long)
			secret.Data = map[string][]byte{"token": []byte(token)}
			if tt.change != nil {
				tt.change(secret, all["serviceaccounts/ns/robot"].(*corev1.ServiceAccount))
			}
			var labels []string
			a := NewAuthenticator(keys, []string{issuerURL}, authenticator.Audiences{"api"}, all, func(_ context.Context, s *corev1.Secret, l map[string]string) error {
				labels = append(labels, fmt.Sprint(s.Name, l))
				return errors.New("cannot be written")
			})
			a.now = func() time.Time { return now }
			var warnings recorder
			ctx := warning.WithWarningRecorder(context.Background(), &warnings)
			if tt.audiences != nil {
				ctx = authenticator.WithAudiences(ctx, tt.audiences)
			}
			want := ""
			if tt.label != "" {
				want = "secretmap[" + LastUsedLabel + ":" + tt.label + "]"
			}
			for range 2 { // the label is written once, although that fails
				r, ok, err := a.AuthenticateToken(ctx, token)
				switch {
				case tt.err != "":
					if ok || err == nil || err.Error() != tt.err {
						t.Errorf("%v: %v", ok, err)
					}
				case !ok || err != nil || r.User.GetName() != subject || r.User.GetUID() != "uid" || len(r.User.GetExtra()) > 0 || len(r.Audiences) != 1 || r.Audiences[0] != "api":
					t.Errorf("%+v: %v", r, err)
				}
				if got := strings.Join(labels, " "); got != want {
					t.Errorf("the Secret gets %s, want %q", got, want)
				}
			}
			if len(warnings) > 0 != (tt.warning != "") || len(warnings) > 0 && warnings[0] != tt.warning {
				t.Errorf("warnings: %q", warnings)
			}
			if tt.label != "" { // it is tried again later
				a.now = func() time.Time { return now.Add(trackInterval) }
				_, _, _ = a.AuthenticateToken(ctx, token) // checked above
				if len(labels) != 2 {
					t.Errorf("the Secret gets %s", labels)
				}
			}
		})
	}
}

// TestLegacyForged rejects tokens that another key has signed, and leaves those of another issuer to others.
func TestLegacyForged(t *testing.T) {
	a := NewAuthenticator(newKeys(t), []string{issuerURL}, authenticator.Audiences{"api"}, objects(), nil)
	if r, ok, err := a.AuthenticateToken(t.Context(), legacyToken(t, newKeys(t), "system:serviceaccount:ns:robot", nil)); ok || err == nil {
		t.Errorf("%+v", r)
	}
	// The issuer of the server may have the name of the legacy one.
	keys := newKeys(t)
	all := objects()
	token, _, err := (&Issuer{Keys: keys, URL: LegacyIssuer}).Issue(Claims{
		ServiceAccount: all["serviceaccounts/ns/robot"].(*corev1.ServiceAccount), Audiences: []string{"api"}, IssuedAt: time.Now(), Lifetime: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	a = NewAuthenticator(keys, []string{LegacyIssuer}, authenticator.Audiences{"api"}, all, nil)
	if _, ok, err := a.AuthenticateToken(t.Context(), token); !ok || err != nil {
		t.Error(err)
	}
	// Only then: another issuer revokes its tokens.
	a = NewAuthenticator(keys, []string{issuerURL}, authenticator.Audiences{"api"}, all, nil)
	if r, ok, err := a.AuthenticateToken(t.Context(), token); ok || err == nil || err.Error() != "namespace claim is missing" {
		t.Errorf("%+v, %v", r, err)
	}
}

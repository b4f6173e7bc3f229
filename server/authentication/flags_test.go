package authentication

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

func TestFlags(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want string // part of the error, or empty
	}{
		{"defaults", nil, ""},
		{"anonymous", []string{"--anonymous-auth"}, ""},
		{"anonymous false", []string{"--anonymous-auth=false"}, ""},
		{"anonymous other", []string{"--anonymous-auth=maybe"}, `--anonymous-auth "maybe": must be one of health, true, false`},
		{"issuers", []string{"--service-account-issuer=https://a", "--service-account-issuer=https://b"}, ""},
		{"equal issuers", []string{"--service-account-issuer=https://a", "--service-account-issuer=https://a"}, "is set twice"},
		{"empty issuer", []string{"--service-account-issuer="}, "must not be empty"},
		{"bad issuer", []string{"--service-account-issuer=http://%zz"}, "is not a URL"},
		{"keys URL", []string{"--service-account-jwks-uri=http://a"}, "must be a URL that begins with https://"},
		{"short lifetime", []string{"--service-account-max-token-expiration=10m"}, "must be between 1 hour and 2^32 seconds"},
		{"no key", []string{"--service-account-key-file=/none"}, "--service-account-key-file: stat /none"},
		{"no signing key", []string{"--service-account-signing-key-file=/none"}, "--service-account-signing-key-file: stat /none"},
		{"webhook version", []string{"--authentication-token-webhook-version=v2"}, "must be v1 or v1beta1"},
		{"negative TTL", []string{"--authentication-token-webhook-cache-ttl=-1s"}, "must not be negative"},
		{"OIDC without client", []string{"--oidc-issuer-url=https://a"}, "--oidc-issuer-url and --oidc-client-id must be set together"},
		{"OIDC and file", []string{"--oidc-issuer-url=https://a", "--oidc-client-id=b", "--authentication-config=flags.go"}, "cannot be set together"},
		{"OIDC algorithm", []string{"--oidc-signing-algs=none"}, `--oidc-signing-algs "none": must be one of ES256`},
		{"headers without CA", []string{"--requestheader-username-headers=X-Remote-User"}, "need --requestheader-client-ca-file"},
		{"CA without headers", []string{"--requestheader-client-ca-file=flags.go"}, "needs --requestheader-username-headers"},
		{"ignored", []string{"--service-account-lookup=false", "--service-account-extend-token-expiration=false", "--api-audiences=a,b"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := DefaultFlags()
			fs := pflag.NewFlagSet("", pflag.ContinueOnError)
			f.AddFlags(fs)
			if err := fs.Parse(tt.args); err != nil {
				t.Fatal(err)
			}
			err := f.Validate()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestConfiguration(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"empty":         {"", "the file is empty"},
		"unknown field": {"apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwts: []", `unknown field "jwts"`},
		"another kind":  {"apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration", "EncryptionConfiguration"},
		"valid":         {"apiVersion: apiserver.config.k8s.io/v1beta1\nkind: AuthenticationConfiguration\njwt: []", ""},
	} {
		_, err := parseConfiguration([]byte(tt.text))
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
	// A user name without a prefix is that of the issuer, except for addresses.
	for prefix, want := range map[string]string{"": "https://a#", "-": "", "x:": "x:"} {
		c, err := (&OIDCFlags{IssuerURL: "https://a", ClientID: "b", UsernameClaim: "sub", UsernamePrefix: prefix}).configuration()
		if err != nil || *c.JWT[0].ClaimMappings.Username.Prefix != want {
			t.Errorf("prefix %q: %v, %v", prefix, c, err)
		}
	}
	if f := DefaultFlags(); f.WebhookTTL != 2*time.Minute || f.issuers()[0] != DefaultIssuer {
		t.Errorf("%+v", f)
	}
}

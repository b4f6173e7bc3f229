package tokens

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"

	jose "gopkg.in/go-jose/go-jose.v2"
)

// The paths of the documents that other programs need to verify tokens, as in kube-apiserver.
const (
	ConfigurationPath = "/.well-known/openid-configuration"
	KeysPath          = "/openid/v1/jwks"
)

// cacheSeconds is how long clients may keep the documents.
const cacheSeconds = 3600

// Metadata are the documents of the issuer of tokens, as OpenID Connect discovery defines them. They follow
// the keys.
type Metadata struct {
	keys            *Keys
	issuer, keysURL string
	current         atomic.Pointer[documents]
}

// documents are those of one set of keys.
type documents struct {
	set                 *keySet
	configuration, keys []byte
}

// NewMetadata returns the documents of an issuer. keysURL is the address where clients find the
// public keys. The issuer must be an https URL.
func NewMetadata(keys *Keys, issuer, keysURL string) (*Metadata, error) {
	for _, text := range []string{issuer, keysURL} {
		u, err := url.Parse(text)
		switch {
		case err != nil:
			return nil, err
		case u.Scheme != "https":
			return nil, fmt.Errorf("the URL %q must begin with https://", text)
		case u.RawQuery != "" || u.Fragment != "":
			return nil, fmt.Errorf("the URL %q must have no query and no fragment", text)
		}
	}
	m := &Metadata{keys: keys, issuer: issuer, keysURL: keysURL}
	_, err := m.documents()
	return m, err
}

// documents returns the documents of the current keys.
func (m *Metadata) documents() (*documents, error) {
	set := m.keys.current.Load()
	if d := m.current.Load(); d != nil && d.set == set {
		return d, nil
	}
	var algorithms []string
	for _, key := range set.public {
		algorithms = append(algorithms, key.Algorithm)
	}
	slices.Sort(algorithms)
	configuration, err := json.Marshal(struct {
		Issuer        string   `json:"issuer"`
		KeysURL       string   `json:"jwks_uri"`
		ResponseTypes []string `json:"response_types_supported"`
		SubjectTypes  []string `json:"subject_types_supported"`
		Algorithms    []string `json:"id_token_signing_alg_values_supported"`
	}{m.issuer, m.keysURL, []string{"id_token"}, []string{"public"}, slices.Compact(algorithms)})
	if err != nil {
		return nil, err
	}
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: set.public})
	if err != nil {
		return nil, err
	}
	d := &documents{set: set, configuration: configuration, keys: keys}
	m.current.Store(d)
	return d, nil
}

// ServeConfiguration serves the document that names the issuer and the address of its keys.
func (m *Metadata) ServeConfiguration(w http.ResponseWriter, r *http.Request) {
	m.serve(w, r, "application/json", func(d *documents) []byte { return d.configuration })
}

// ServeKeys serves the public keys.
func (m *Metadata) ServeKeys(w http.ResponseWriter, r *http.Request) {
	m.serve(w, r, "application/jwk-set+json", func(d *documents) []byte { return d.keys })
}

func (m *Metadata) serve(w http.ResponseWriter, r *http.Request, contentType string, body func(*documents) []byte) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
		return
	}
	d, err := m.documents()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", fmt.Sprintf("public, max-age=%d", cacheSeconds))
	_, _ = w.Write(body(d)) // the client may have gone
}

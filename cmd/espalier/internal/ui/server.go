// Package ui serves the web page to a browser on the same machine, and answers its requests.
//
// Any web site that the user visits can send requests to loopback, and other users of the machine can
// connect to it. So a request to the API needs the token of the link that only the user sees, in a
// header; and the headers Host and Origin must be those of the server, which keeps out names that an
// attacker points to 127.0.0.1. The token is in the fragment of the link, which browsers do not send,
// and the page keeps it in the storage of its origin: a browser would send a cookie to the servers on
// all other ports, too. The files of the page are public, so they need no token.
package ui

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"espalier.dev/schema"
	"espalier.dev/web/page"
	"espalier.dev/web/protocol"
)

// timeout ends a request: the page bounds what it sends, and a CRD can still be slow.
const timeout = 30 * time.Second

// maxBody is the maximum size of a request: up to three texts, escaped.
const maxBody = 8 * protocol.MaxText

// csp keeps the page from loading anything from elsewhere.
const csp = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// tokenHeader is the header with the token.
const tokenHeader = "Espalier-Token"

// contentTypes has the types of the files of the page. Package mime would ask the machine for them.
var contentTypes = map[string]string{
	".css":  "text/css; charset=utf-8",
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
	".txt":  "text/plain; charset=utf-8",
}

// Server is the handler of the page.
type Server struct {
	Options
	// address is the host and port to open. hosts are those that requests must have: browsers leave out
	// port 80.
	address string
	hosts   []string
	token   string
	// slots limits how many requests are answered at a time.
	slots chan struct{}
}

// Options configure a Server.
type Options struct {
	Engine *protocol.Engine
	// Files and Cluster are what the page offers. They may be nil.
	Files   *Files
	Cluster *Cluster
	// Semantics is the one that the page starts with.
	Semantics schema.Semantics
}

// New returns a Server for an address that it listens on.
func New(o Options, address net.Addr) *Server {
	s := &Server{Options: o, address: address.String(), token: random(), slots: make(chan struct{}, 4)}
	s.hosts = []string{s.address}
	if host, ok := strings.CutSuffix(s.address, ":80"); ok {
		s.hosts = append(s.hosts, host)
	}
	return s
}

// random returns a secret.
func random() string {
	var b [24]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

// URL returns the link with the token.
func (s *Server) URL() string { return "http://" + s.address + "/#token=" + s.token }

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", csp)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if !s.local(r) {
		http.Error(w, "requests must come from this page: open the link that espalier ui has printed", http.StatusForbidden)
		return
	}
	name, isAPI := strings.CutPrefix(r.URL.Path, "/api/")
	if isAPI && subtle.ConstantTimeCompare([]byte(r.Header.Get(tokenHeader)), []byte(s.token)) != 1 {
		http.Error(w, "open the link that espalier ui has printed", http.StatusUnauthorized)
		return
	}
	switch {
	case isAPI && name == "workspace":
		s.workspace(w, r)
	case isAPI && s.Cluster != nil && (name == "cluster" || strings.HasPrefix(name, "cluster/")):
		s.Cluster.serve(w, r, strings.TrimPrefix(strings.TrimPrefix(name, "cluster"), "/"))
	case isAPI:
		s.answer(w, r, name)
	default:
		s.static(w, r)
	}
}

// local reports whether a request is for this server, and not sent by another web site.
func (s *Server) local(r *http.Request) bool {
	if !slices.Contains(s.hosts, r.Host) {
		return false
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		if host, ok := strings.CutPrefix(origin, "http://"); !ok || !slices.Contains(s.hosts, host) {
			return false
		}
	}
	site := r.Header.Get("Sec-Fetch-Site")
	// A link on another site may open the page, which can do nothing without the token.
	return site == "" || site == "same-origin" || site == "none" || r.Method == http.MethodGet && r.URL.Path == "/"
}

// static serves a file of the page.
func (s *Server) static(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.Error(w, "use GET", http.StatusMethodNotAllowed)
		return
	}
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name == "" {
		name = "index.html"
	}
	text, err := page.Read(name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	if name == "index.html" {
		text = setMeta(setMeta(text, "engine", "wasm", "native"), "semantics", "kep", s.Semantics.String())
		if s.Cluster != nil {
			text = setMeta(text, "cluster", "no", "yes")
		}
	}
	w.Header().Set("Content-Type", contentTypes[path.Ext(name)])
	_, _ = w.Write(text) // the browser is gone
}

// setMeta changes the content of a meta element of the page.
func setMeta(text []byte, name, old, new string) []byte {
	meta := `name="espalier-` + name + `" content="`
	return bytes.Replace(text, []byte(meta+old+`"`), []byte(meta+new+`"`), 1)
}

// readJSON reads the body of a request of the page. It reports false if it has answered the request.
func readJSON(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	if r.Method != http.MethodPost {
		http.Error(w, "use POST", http.StatusMethodNotAllowed)
		return nil, false
	}
	// Other sites can send forms, but no JSON.
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
		http.Error(w, "use the content type application/json", http.StatusUnsupportedMediaType)
		return nil, false
	}
	var body bytes.Buffer
	if _, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody)); err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			writeJSON(w, protocol.Response{Error: &protocol.Error{Code: protocol.TooLarge, Message: fmt.Sprintf("the request has more than %d bytes", maxBody)}})
		}
		return nil, false
	}
	return body.Bytes(), true
}

// answer answers a request of the page.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, name string) {
	body, ok := readJSON(w, r)
	if !ok {
		return
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-r.Context().Done():
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	writeJSON(w, s.Engine.Answer(ctx, name, body))
}

// workspace sends the files of the directory, unless the browser has them.
func (s *Server) workspace(w http.ResponseWriter, r *http.Request) {
	if s.Files == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	found, err := s.Files.Read(r.Context())
	if err != nil {
		return // the browser is gone
	}
	text, err := json.Marshal(found)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	sum := sha256.Sum256(text)
	tag := `"` + hex.EncodeToString(sum[:16]) + `"`
	writeTagged(w, r, text, tag)
}

// writeTagged sends JSON, unless the browser has it.
func writeTagged(w http.ResponseWriter, r *http.Request, text []byte, tag string) {
	w.Header().Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // the browser is gone
}

func writeJSON(w http.ResponseWriter, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // the browser is gone
}

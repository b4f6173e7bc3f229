// Package ui serves the web page to a browser on the same machine, and answers its questions.
//
// Any web site that the user visits can send requests to loopback, and other users of the machine can
// connect to it. So a request needs a cookie, which the browser gets for the token in the link that
// only the user sees, once; and the headers Host and Origin must be those of the server, which keeps
// out names that an attacker points to 127.0.0.1.
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
	"io/fs"
	"mime"
	"net"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"espalier.dev/schema"
	"espalier.dev/web/page"
	"espalier.dev/web/protocol"
)

// timeout ends a question: the page bounds what it sends, and a CRD can still be slow.
const timeout = 30 * time.Second

// maxBody is the maximum size of a request: up to three texts, escaped.
const maxBody = 8 * protocol.MaxText

// csp keeps the page from loading anything from elsewhere.
const csp = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Server is the handler of the page.
type Server struct {
	engine *protocol.Engine
	files  *Files
	// semantics is the one that the page starts with.
	semantics schema.Semantics
	// address is the host and port that requests must have.
	address string
	// token is the one in the link, until a browser has used it. session is the value of the cookie.
	mu      sync.Mutex
	token   string
	session string
	// slots limits how many questions are answered at a time.
	slots chan struct{}
}

// New returns a Server for an address that it listens on. files may be nil. The page starts with a
// semantics.
func New(engine *protocol.Engine, files *Files, semantics schema.Semantics, address net.Addr) *Server {
	return &Server{engine: engine, files: files, semantics: semantics, address: address.String(), token: random(), session: random(), slots: make(chan struct{}, 4)}
}

// random returns a secret.
func random() string {
	var b [24]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

// URL returns the link with the token.
func (s *Server) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return "http://" + s.address + "/?token=" + s.token
}

// cookie is the name of the cookie. Cookies ignore ports, so that of another server must not replace it.
func (s *Server) cookie() string {
	_, port, _ := net.SplitHostPort(s.address)
	return "espalier-" + port
}

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
	if r.URL.Path == "/" && r.URL.Query().Get("token") != "" {
		s.login(w, r)
		return
	}
	if c, err := r.Cookie(s.cookie()); err != nil || !equal(c.Value, s.session) {
		http.Error(w, "open the link that espalier ui has printed; it works once", http.StatusUnauthorized)
		return
	}
	name, isAPI := strings.CutPrefix(r.URL.Path, "/api/")
	switch {
	case isAPI && name == "workspace":
		s.workspace(w, r)
	case isAPI:
		s.answer(w, r, name)
	default:
		s.static(w, r)
	}
}

// local reports whether a request is for this server, and not sent by another web site.
func (s *Server) local(r *http.Request) bool {
	if r.Host != s.address {
		return false
	}
	if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+s.address {
		return false
	}
	site := r.Header.Get("Sec-Fetch-Site")
	// A link in a terminal or on another site opens the page, which needs the token.
	return site == "" || site == "same-origin" || site == "none" || r.Method == http.MethodGet && r.URL.Path == "/"
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// login exchanges the token for the cookie, and removes it from the address bar.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	valid := s.token != "" && equal(r.URL.Query().Get("token"), s.token)
	if valid {
		s.token = ""
	}
	s.mu.Unlock()
	if !valid {
		// A browser that has used it may open the link again.
		if c, err := r.Cookie(s.cookie()); err != nil || !equal(c.Value, s.session) {
			http.Error(w, "the link has been used: start espalier ui again for a new one", http.StatusUnauthorized)
			return
		}
	}
	// A strict cookie would be missing after the redirect if another site has the link.
	http.SetCookie(w, &http.Cookie{Name: s.cookie(), Value: s.session, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
	http.Redirect(w, r, "/", http.StatusSeeOther)
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
	text, err := fs.ReadFile(page.Files(), name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	if name == "index.html" {
		text = setMeta(setMeta(text, "engine", "wasm", "native"), "semantics", "kep", s.semantics.String())
	}
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	_, _ = w.Write(text) // the browser is gone
}

// setMeta changes the content of a meta element of the page.
func setMeta(text []byte, name, old, new string) []byte {
	meta := `name="espalier-` + name + `" content="`
	return bytes.Replace(text, []byte(meta+old+`"`), []byte(meta+new+`"`), 1)
}

// answer answers a question.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, name string) {
	if r.Method != http.MethodPost {
		http.Error(w, "use POST", http.StatusMethodNotAllowed)
		return
	}
	// Other sites can send forms, but no JSON.
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
		http.Error(w, "use the content type application/json", http.StatusUnsupportedMediaType)
		return
	}
	var body bytes.Buffer
	if _, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody)); err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			writeJSON(w, protocol.Response{Error: &protocol.Error{Code: protocol.TooLarge, Message: fmt.Sprintf("the request has more than %d bytes", maxBody)}})
		}
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
	writeJSON(w, s.engine.Answer(ctx, name, body.Bytes()))
}

// workspace sends the files of the directory, unless the browser has them.
func (s *Server) workspace(w http.ResponseWriter, r *http.Request) {
	if s.files == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	found := s.files.Read()
	text, err := json.Marshal(found)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	sum := sha256.Sum256(text)
	tag := `"` + hex.EncodeToString(sum[:16]) + `"`
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

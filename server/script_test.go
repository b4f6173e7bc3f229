package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/tools/txtar"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"espalier.dev/espaliertest"
)

// script is a running script.
type script struct {
	testing.TB
	semantics string
	client    *http.Client
	etcd      *clientv3.Client
	url       string
	files     map[string][]byte
	kinds     map[string]kind
	// made are the CRDs to delete at the end.
	made []string
	last answer
	// unasked is set until a step checks the status of the last response.
	unasked bool
}

type kind struct {
	group, version, plural string
	namespaced             bool
}

type answer struct {
	code     int
	body     []byte
	object   map[string]any
	warnings []string
}

func newScript(t testing.TB, s *espaliertest.Server, a *txtar.Archive) *script {
	c, err := rest.HTTPClientFor(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	sc := &script{TB: t, client: c, url: s.URL(), files: map[string][]byte{}, kinds: map[string]kind{}}
	sc.kinds["CRD"] = kind{group: "apiextensions.k8s.io", version: "v1", plural: "customresourcedefinitions"}
	sc.kinds["CustomResourceDefinition"] = sc.kinds["CRD"]
	for _, f := range a.Files {
		sc.files[f.Name] = f.Data
	}
	sc.files[""] = a.Comment
	t.Cleanup(sc.cleanUp)
	return sc
}

func (s *script) cleanUp() {
	for _, name := range s.made {
		s.do(http.MethodDelete, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"+name, nil, "")
		s.eventually("the definition is gone", func() bool {
			return s.do(http.MethodGet, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"+name, nil, "").code == http.StatusNotFound
		})
	}
}

func (s *script) eventually(what string, f func() bool) {
	s.Helper()
	for range 500 {
		if f() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.Errorf("it never came to pass that %s", what)
}

var word = regexp.MustCompile(`'[^']*'|\S+`)

func (s *script) run(file string) {
	for i, line := range strings.Split(string(s.files[""]), "\n") {
		line, _, _ = strings.Cut(line, " #")
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "only ") {
			continue
		}
		if condition, rest, ok := strings.Cut(line, "] "); ok && strings.HasPrefix(line, "[") {
			if condition != "["+s.semantics {
				continue
			}
			line = rest
		}
		fail := func(err error) {
			s.Fatalf("%s:%d: %s: %v\nThe last answer was %d, warnings %q:\n%s", file, i+1, line, err, s.last.code, s.last.warnings, s.last.body)
		}
		command, patch, patched := strings.Cut(line, " + ")
		words := word.FindAllString(command, -1)
		for j := range words {
			words[j] = strings.Trim(words[j], "'")
		}
		if patched {
			var err error
			if words[1], err = s.merge(words[1], patch); err != nil {
				fail(err)
			}
		}
		if err := s.step(words[0], words[1:], line); err != nil {
			fail(err)
		}
	}
	if s.unasked && s.last.code > 299 {
		s.Fatalf("%s: the last answer is %d: %s", file, s.last.code, s.last.body)
	}
}

// merge applies a patch to a file and returns the name of the result.
func (s *script) merge(name, patch string) (string, error) {
	name, query, _ := strings.Cut(name, "?")
	var obj, change any
	if err := errors.Join(yaml.Unmarshal(s.files[name], &obj), yaml.Unmarshal([]byte(patch), &change)); err != nil {
		return "", err
	}
	data, err := json.Marshal(merged(obj, change))
	s.files[name+" + "+patch] = data
	return name + " + " + patch + "?" + query, err
}

// merged applies a merge patch (RFC 7386).
func merged(v, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	out, ok := v.(map[string]any)
	if !ok {
		out = map[string]any{}
	}
	for name, change := range p {
		if change == nil {
			delete(out, name)
		} else {
			out[name] = merged(out[name], change)
		}
	}
	return out
}

func (s *script) step(verb string, args []string, line string) error {
	rest := func(n int) string { return strings.Join(args[min(n, len(args)):], " ") }
	switch verb {
	case "create", "update", "status", "patch", "apply", "apply-status", "get", "list", "delete", "gone", "put", "stored":
		if s.unasked && s.last.code > 299 {
			return fmt.Errorf("the step before failed")
		}
		s.unasked = verb != "put" // put has no response
		return s.request(verb, args)
	case "code":
		s.unasked = false
		if got := strconv.Itoa(s.last.code); got != args[0] {
			return fmt.Errorf("the status is %s", got)
		}
	case "is":
		var want map[string]any
		if err := yaml.Unmarshal(s.files[args[0]], &want); err != nil {
			return err
		}
		if got := plain(s.last.object); !reflect.DeepEqual(got, want) {
			text, _ := yaml.Marshal(got)
			return fmt.Errorf("it is\n%s", text)
		}
	case "has", "lacks":
		got, ok := field(s.last.object, args[0])
		if ok != (verb == "has") {
			return fmt.Errorf("%v", got)
		}
		if verb == "has" && len(args) > 1 {
			var want any
			if err := yaml.Unmarshal([]byte(rest(1)), &want); err != nil {
				return err
			}
			if !reflect.DeepEqual(got, want) {
				return fmt.Errorf("it is %v", got)
			}
		}
	case "says":
		if !strings.Contains(string(s.last.body), rest(0)) {
			return fmt.Errorf("it does not")
		}
	case "omits":
		if strings.Contains(string(s.last.body), rest(0)) {
			return fmt.Errorf("it does not")
		}
	case "causes":
		causes, _ := field(s.last.object, "details.causes")
		if list, _ := causes.([]any); strconv.Itoa(len(list)) != args[0] {
			return fmt.Errorf("it has %d", len(list))
		}
	case "cause":
		causes, _ := field(s.last.object, "details.causes")
		list, _ := causes.([]any)
		if !slices.ContainsFunc(list, func(c any) bool {
			m := c.(map[string]any)
			text, _ := m["message"].(string)
			return m["field"] == any(args[0]) && strings.Contains(text, rest(1))
		}) {
			return fmt.Errorf("it does not have it")
		}
	case "warns":
		if !slices.ContainsFunc(s.last.warnings, func(w string) bool { return strings.Contains(w, rest(0)) }) {
			return fmt.Errorf("it does not")
		}
	case "silent":
		if len(s.last.warnings) > 0 {
			return fmt.Errorf("it is not")
		}
	case "condition":
		s.eventually(line, func() bool { return s.hasCondition(args[0], args[1], args[2], rest(3)) })
	default:
		return fmt.Errorf("there is no such step")
	}
	return nil
}

func (s *script) hasCondition(name, typ, status, text string) bool {
	got := s.do(http.MethodGet, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"+name, nil, "")
	conditions, _ := field(got.object, "status.conditions")
	list, _ := conditions.([]any)
	for _, c := range list {
		m := c.(map[string]any)
		if m["type"] == any(typ) {
			message, _ := m["message"].(string)
			return m["status"] == any(status) && strings.Contains(message, text)
		}
	}
	return got.code == http.StatusOK && status == "none"
}

// request sends the request of a step.
func (s *script) request(verb string, args []string) error {
	target := args[len(args)-1]
	switch {
	case verb == "get" && strings.HasPrefix(target, "/"):
		s.last = s.do(http.MethodGet, target, nil, "")
		return nil
	case verb == "gone" && strings.HasPrefix(target, "/"):
		s.awaitGone(target)
		return nil
	case verb == "list":
		k, err := s.kind(target)
		if err == nil {
			s.last = s.do(http.MethodGet, k.path(), nil, "")
		}
		return err
	case verb == "get", verb == "delete", verb == "gone", verb == "stored", verb == "patch":
		whole, status := strings.CutSuffix(target, "/status")
		dot := strings.LastIndex(whole, ".")
		k, err := s.kind(whole[dot+1:])
		if err != nil {
			return err
		}
		name := whole[:dot]
		path := k.path() + "/" + name
		if status {
			path += "/status"
		}
		switch verb {
		case "get":
			s.last = s.do(http.MethodGet, path, nil, "")
		case "delete":
			s.last = s.do(http.MethodDelete, path, nil, "")
		case "gone":
			s.awaitGone(path)
		case "stored":
			return s.stored(k, name)
		default:
			var body []byte
			file, query, _ := strings.Cut(args[0], "?")
			if body, err = s.file(file); err == nil {
				contentType := "application/merge-patch+json"
				if bytes.HasPrefix(body, []byte("[")) {
					contentType = "application/json-patch+json"
				}
				s.last = s.do(http.MethodPatch, path+"?"+query, body, contentType)
			}
		}
		return err
	}
	name, query, _ := strings.Cut(args[0], "?")
	data, err := s.file(name)
	if err != nil {
		return err
	}
	return s.write(verb, data, "?"+query)
}

func (s *script) awaitGone(path string) {
	s.Helper()
	s.unasked = false
	s.eventually(path+" is gone", func() bool {
		s.last = s.do(http.MethodGet, path, nil, "")
		return s.last.code == http.StatusNotFound
	})
}

// file returns a file of the script as JSON. A .json file is not parsed, so that it can have
// what YAML does not distinguish, such as 1 and 1.0.
func (s *script) file(name string) ([]byte, error) {
	data, ok := s.files[name]
	if !ok {
		return nil, fmt.Errorf("there is no file %s", name)
	}
	if strings.HasSuffix(name, ".json") {
		return data, nil
	}
	return yaml.YAMLToJSON(data)
}

// stored makes the object in etcd the last response.
func (s *script) stored(k kind, name string) error {
	got, err := s.etcd.Get(s.Context(), k.key(name))
	if err != nil {
		return err
	}
	s.last = answer{code: http.StatusNotFound}
	if len(got.Kvs) > 0 {
		s.last = answer{code: http.StatusOK, body: got.Kvs[0].Value}
		return json.Unmarshal(s.last.body, &s.last.object)
	}
	return nil
}

// write creates or replaces an object.
func (s *script) write(verb string, data []byte, query string) error {
	var obj map[string]any
	if err := yaml.Unmarshal(data, &obj); err != nil {
		return err
	}
	group, version, ok := strings.Cut(obj["apiVersion"].(string), "/")
	if !ok {
		return fmt.Errorf("the object has no group")
	}
	k, err := s.kind(obj["kind"].(string))
	if err != nil {
		return err
	}
	k.group, k.version = group, version
	name, _ := field(obj, "metadata.name")
	path := k.path() + "/" + fmt.Sprint(name)
	if verb == "put" {
		meta := obj["metadata"].(map[string]any)
		meta["uid"] = string(uuid.NewUUID()) // an object without a UID does not exist
		if k.namespaced {
			meta["namespace"] = "default"
		}
		body, err := json.Marshal(obj)
		if err == nil {
			_, err = s.etcd.Put(s.Context(), k.key(fmt.Sprint(name)), string(body))
		}
		return err
	}
	switch verb {
	case "create":
		s.last = s.do(http.MethodPost, k.path()+query, data, "application/json")
	case "apply", "apply-status":
		if verb == "apply-status" {
			path += "/status"
		}
		s.last = s.do(http.MethodPatch, path+query+"&fieldManager=ledger", data, "application/apply-patch+yaml")
	case "update", "status":
		to := path
		if verb == "status" {
			to += "/status"
		}
		// The server may write the status of a CRD in between.
		s.eventually("an update without a conflict", func() bool {
			now := s.do(http.MethodGet, path, nil, "")
			body := data
			if rv, ok := field(now.object, "metadata.resourceVersion"); ok {
				body = bytes.Replace(data, []byte(`"metadata":{`), fmt.Appendf(nil, `"metadata":{"resourceVersion":%q,`, rv), 1)
			}
			s.last = s.do(http.MethodPut, to+query, body, "application/json")
			return s.last.code != http.StatusConflict
		})
	}
	if obj["kind"] == "CustomResourceDefinition" && s.last.code < 300 {
		s.learn(obj)
	}
	return nil
}

// learn records a kind that was defined.
func (s *script) learn(obj map[string]any) {
	text := func(path string) string { v, _ := field(obj, path); t, _ := v.(string); return t }
	version := text("spec.version")
	if v := text("spec.versions.0.name"); v != "" {
		version = v
	}
	s.kinds[text("spec.names.kind")] = kind{
		group: text("spec.group"), version: version, plural: text("spec.names.plural"), namespaced: text("spec.scope") != "Cluster",
	}
	name := text("metadata.name")
	if !slices.Contains(s.made, name) {
		s.made = append(s.made, name)
	}
}

func (s *script) kind(name string) (kind, error) {
	name, version, _ := strings.Cut(name, "/")
	k, ok := s.kinds[name]
	if !ok {
		return k, fmt.Errorf("nobody has defined %s", name)
	}
	if version != "" {
		k.version = version
	}
	return k, nil
}

func (k kind) path() string {
	path := "/apis/" + k.group + "/" + k.version
	if k.namespaced {
		path += "/namespaces/default"
	}
	return path + "/" + k.plural
}

// key returns the key of an object in etcd.
func (k kind) key(name string) string {
	key := "/registry/" + k.group + "/" + k.plural + "/"
	if k.namespaced {
		key += "default/"
	}
	return key + name
}

func (s *script) do(method, path string, body []byte, contentType string) answer {
	s.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, s.url+path, bytes.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	a := answer{code: resp.StatusCode}
	warnings, _ := utilnet.ParseWarningHeaders(resp.Header.Values("Warning"))
	for _, w := range warnings {
		a.warnings = append(a.warnings, w.Text)
	}
	if a.body, err = io.ReadAll(resp.Body); err != nil {
		s.Fatal(err)
	}
	_ = json.Unmarshal(a.body, &a.object) // not every answer is an object
	return a
}

// field returns the value at a path of names and indices.
func field(v any, path string) (any, bool) {
	for _, name := range strings.Split(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			child, ok := x[strings.ReplaceAll(name, "~", ".")]
			if !ok {
				return nil, false
			}
			v = child
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(x) {
				return nil, false
			}
			v = x[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// plain returns an object without the metadata that the server sets.
func plain(obj map[string]any) map[string]any {
	obj = maps.Clone(obj)
	if meta, ok := obj["metadata"].(map[string]any); ok {
		meta = maps.Clone(meta)
		for _, name := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "namespace"} {
			delete(meta, name)
		}
		obj["metadata"] = meta
	}
	return obj
}

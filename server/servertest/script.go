package servertest

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
	"sigs.k8s.io/yaml"
)

// Script is a running script of requests and what their answers must be. A script is a txtar
// archive: its comment has the steps, a line each, its files are what they send and expect. A #
// begins a comment. A line that begins with [kep] or [kubernetes] is for that semantics alone.
// The steps:
//
//	only SEMANTICS           the script is about that semantics; without it, about both
//	create FILE              POST
//	update FILE              PUT, with the resourceVersion that the object has
//	status FILE              PUT of the status
//	patch FILE NAME.KIND     a merge patch, or a JSON patch if the file has a list (of the status:
//	                         NAME.KIND/status)
//	apply FILE               server-side apply
//	apply-status FILE        server-side apply of the status
//	get NAME.KIND            GET (KIND may be KIND/VERSION, or the whole a path for a raw GET)
//	list KIND
//	delete NAME.KIND
//	put FILE                 writes into etcd, behind the server's back
//	stored NAME.KIND         reads from etcd, as if it were an answer
//	gone NAME.KIND           something (or a path) comes to be no more
//	code NUMBER              the status of the last answer; if it is not asked for, it must be a success
//	is FILE                  the last answer is that object (server's metadata aside)
//	has PATH VALUE           a field of the last answer, by its path (spec.list.0.name; ~ is a dot); VALUE is YAML
//	lacks PATH
//	says TEXT                the last answer's body has the text
//	omits TEXT               it does not
//	cause FIELD TEXT         the last answer is a Status with that cause
//	causes NUMBER            it has as many
//	warns TEXT               the last answer has a Warning with the text
//	silent                   the last answer has no Warning
//	condition NAME TYPE STATUS TEXT
//	                         a definition comes to have that condition; STATUS none is no such condition
//
// FILE may be followed by a query (?fieldValidation=Strict), and a line with a file by a plus
// sign and YAML that is merged into it as a merge patch: create a.yaml + {spec: {b: 1}}. The
// kind CRD is CustomResourceDefinition. The body of a .json file is sent as it is.
type Script struct {
	testing.TB
	// URL is the address of the server, and Client a client of an administrator.
	URL    string
	Client *http.Client
	// Etcd is a client of the server's etcd.
	Etcd *clientv3.Client
	// Last is the last answer.
	Last Answer

	semantics string
	files     map[string][]byte
	kinds     map[string]kind
	// made are the CRDs to delete at the end.
	made []string
	// unasked is set until a step checks the status of the last response.
	unasked bool
}

type kind struct {
	group, version, plural string
	namespaced             bool
}

// Answer is the response to a request.
type Answer struct {
	Code int
	Body []byte
	// Object is the body, if it is a JSON object.
	Object   map[string]any
	Warnings []string
}

// NewScript returns an empty script for a server. The CRDs that it creates are deleted at the end of the
// test.
func NewScript(t testing.TB, r *Running) *Script { return newScript(t, r, &txtar.Archive{}) }

func newScript(t testing.TB, r *Running, a *txtar.Archive) *Script {
	sc := &Script{TB: t, Client: r.Client, URL: r.URL(), Etcd: r.Etcd(), files: map[string][]byte{}, kinds: map[string]kind{}}
	sc.kinds["CRD"] = kind{group: "apiextensions.k8s.io", version: "v1", plural: "customresourcedefinitions"}
	sc.kinds["CustomResourceDefinition"] = sc.kinds["CRD"]
	for _, f := range a.Files {
		sc.files[f.Name] = f.Data
	}
	sc.files[""] = a.Comment
	t.Cleanup(sc.cleanUp)
	return sc
}

func (s *Script) cleanUp() {
	for _, name := range s.made {
		s.Do(http.MethodDelete, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"+name, nil, "")
		s.Await("the definition is gone", func() bool {
			return s.Do(http.MethodGet, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"+name, nil, "").Code == http.StatusNotFound
		})
	}
}

// Await waits until f returns true.
func (s *Script) Await(what string, f func() bool) {
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

func (s *Script) run(file string) {
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
			s.Fatalf("%s:%d: %s: %v\nThe last answer was %d, warnings %q:\n%s", file, i+1, line, err, s.Last.Code, s.Last.Warnings, s.Last.Body)
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
	if s.unasked && s.Last.Code > 299 {
		s.Fatalf("%s: the last answer is %d: %s", file, s.Last.Code, s.Last.Body)
	}
}

// merge applies a patch to a file and returns the name of the result.
func (s *Script) merge(name, patch string) (string, error) {
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

func (s *Script) step(verb string, args []string, line string) error {
	rest := func(n int) string { return strings.Join(args[min(n, len(args)):], " ") }
	switch verb {
	case "create", "update", "status", "patch", "apply", "apply-status", "get", "list", "delete", "gone", "put", "stored":
		if s.unasked && s.Last.Code > 299 {
			return fmt.Errorf("the step before failed")
		}
		s.unasked = verb != "put" // put has no response
		return s.request(verb, args)
	case "code":
		s.unasked = false
		if got := strconv.Itoa(s.Last.Code); got != args[0] {
			return fmt.Errorf("the status is %s", got)
		}
	case "is":
		var want map[string]any
		if err := yaml.Unmarshal(s.files[args[0]], &want); err != nil {
			return err
		}
		if got := Plain(s.Last.Object); !reflect.DeepEqual(got, want) {
			text, _ := yaml.Marshal(got)
			return fmt.Errorf("it is\n%s", text)
		}
	case "has", "lacks":
		got, ok := Field(s.Last.Object, args[0])
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
		if !strings.Contains(string(s.Last.Body), rest(0)) {
			return fmt.Errorf("it does not")
		}
	case "omits":
		if strings.Contains(string(s.Last.Body), rest(0)) {
			return fmt.Errorf("it does not")
		}
	case "causes":
		causes, _ := Field(s.Last.Object, "details.causes")
		if list, _ := causes.([]any); strconv.Itoa(len(list)) != args[0] {
			return fmt.Errorf("it has %d", len(list))
		}
	case "cause":
		causes, _ := Field(s.Last.Object, "details.causes")
		list, _ := causes.([]any)
		if !slices.ContainsFunc(list, func(c any) bool {
			m := c.(map[string]any)
			text, _ := m["message"].(string)
			return m["field"] == any(args[0]) && strings.Contains(text, rest(1))
		}) {
			return fmt.Errorf("it does not have it")
		}
	case "warns":
		if !slices.ContainsFunc(s.Last.Warnings, func(w string) bool { return strings.Contains(w, rest(0)) }) {
			return fmt.Errorf("it does not")
		}
	case "silent":
		if len(s.Last.Warnings) > 0 {
			return fmt.Errorf("it is not")
		}
	case "condition":
		s.Await(line, func() bool { return s.HasCondition(args[0], args[1], args[2], rest(3)) })
	default:
		return fmt.Errorf("there is no such step")
	}
	return nil
}

// HasCondition reports whether a CRD has a condition whose message contains a text. The status none
// means that it has no such condition.
func (s *Script) HasCondition(name, typ, status, text string) bool {
	got := s.Do(http.MethodGet, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"+name, nil, "")
	conditions, _ := Field(got.Object, "status.conditions")
	list, _ := conditions.([]any)
	for _, c := range list {
		m := c.(map[string]any)
		if m["type"] == any(typ) {
			message, _ := m["message"].(string)
			return m["status"] == any(status) && strings.Contains(message, text)
		}
	}
	return got.Code == http.StatusOK && status == "none"
}

// request sends the request of a step.
func (s *Script) request(verb string, args []string) error {
	target := args[len(args)-1]
	switch {
	case verb == "get" && strings.HasPrefix(target, "/"):
		s.Last = s.Do(http.MethodGet, target, nil, "")
		return nil
	case verb == "gone" && strings.HasPrefix(target, "/"):
		s.AwaitGone(target)
		return nil
	case verb == "list":
		k, err := s.kind(target)
		if err == nil {
			s.Last = s.Do(http.MethodGet, k.path(), nil, "")
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
			s.Last = s.Do(http.MethodGet, path, nil, "")
		case "delete":
			s.Last = s.Do(http.MethodDelete, path, nil, "")
		case "gone":
			s.AwaitGone(path)
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
				s.Last = s.Do(http.MethodPatch, path+"?"+query, body, contentType)
			}
		}
		return err
	}
	name, query, _ := strings.Cut(args[0], "?")
	data, err := s.file(name)
	if err != nil {
		return err
	}
	return s.Write(verb, data, "?"+query)
}

// AwaitGone waits until a path is not found.
func (s *Script) AwaitGone(path string) {
	s.Helper()
	s.unasked = false
	s.Await(path+" is gone", func() bool {
		s.Last = s.Do(http.MethodGet, path, nil, "")
		return s.Last.Code == http.StatusNotFound
	})
}

// file returns a file of the script as JSON. A .json file is not parsed, so that it can have
// what YAML does not distinguish, such as 1 and 1.0.
func (s *Script) file(name string) ([]byte, error) {
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
func (s *Script) stored(k kind, name string) error {
	got, err := s.Etcd.Get(s.Context(), k.key(name))
	if err != nil {
		return err
	}
	s.Last = Answer{Code: http.StatusNotFound}
	if len(got.Kvs) > 0 {
		s.Last = Answer{Code: http.StatusOK, Body: got.Kvs[0].Value}
		return json.Unmarshal(s.Last.Body, &s.Last.Object)
	}
	return nil
}

// Write creates or replaces an object: verb is create, apply,
// apply-status, update, status or put.
func (s *Script) Write(verb string, data []byte, query string) error {
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
	name, _ := Field(obj, "metadata.name")
	path := k.path() + "/" + fmt.Sprint(name)
	if verb == "put" {
		meta := obj["metadata"].(map[string]any)
		meta["uid"] = string(uuid.NewUUID()) // an object without a UID does not exist
		if k.namespaced {
			meta["namespace"] = "default"
		}
		body, err := json.Marshal(obj)
		if err == nil {
			_, err = s.Etcd.Put(s.Context(), k.key(fmt.Sprint(name)), string(body))
		}
		return err
	}
	switch verb {
	case "create":
		s.Last = s.Do(http.MethodPost, k.path()+query, data, "application/json")
	case "apply", "apply-status":
		if verb == "apply-status" {
			path += "/status"
		}
		s.Last = s.Do(http.MethodPatch, path+query+"&fieldManager=ledger", data, "application/apply-patch+yaml")
	case "update", "status":
		to := path
		if verb == "status" {
			to += "/status"
		}
		// The server may write the status of a CRD in between.
		s.Await("an update without a conflict", func() bool {
			now := s.Do(http.MethodGet, path, nil, "")
			body := data
			if rv, ok := Field(now.Object, "metadata.resourceVersion"); ok {
				body = bytes.Replace(data, []byte(`"metadata":{`), fmt.Appendf(nil, `"metadata":{"resourceVersion":%q,`, rv), 1)
			}
			s.Last = s.Do(http.MethodPut, to+query, body, "application/json")
			return s.Last.Code != http.StatusConflict
		})
	}
	if obj["kind"] == "CustomResourceDefinition" && s.Last.Code < 300 {
		s.learn(obj)
	}
	return nil
}

// learn records a kind that was defined.
func (s *Script) learn(obj map[string]any) {
	text := func(path string) string { v, _ := Field(obj, path); t, _ := v.(string); return t }
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

func (s *Script) kind(name string) (kind, error) {
	name, version, _ := strings.Cut(name, "/")
	k, ok := s.kinds[name]
	if !ok {
		return k, fmt.Errorf("no CRD defines %s", name)
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

// Do sends a request.
func (s *Script) Do(method, path string, body []byte, contentType string) Answer {
	s.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, s.URL+path, bytes.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := s.Client.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	a := Answer{Code: resp.StatusCode}
	warnings, _ := utilnet.ParseWarningHeaders(resp.Header.Values("Warning"))
	for _, w := range warnings {
		a.Warnings = append(a.Warnings, w.Text)
	}
	if a.Body, err = io.ReadAll(resp.Body); err != nil {
		s.Fatal(err)
	}
	_ = json.Unmarshal(a.Body, &a.Object) // not every answer is an object
	return a
}

// Field returns the value at a path of names and indices.
func Field(v any, path string) (any, bool) {
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

// Plain returns an object without the metadata that the server sets.
func Plain(obj map[string]any) map[string]any {
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

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/capabilities"
)

// request is one line of the input.
type request struct {
	Op          string          `json:"op"`
	APIVersion  string          `json:"apiVersion"`
	Resource    string          `json:"resource"`
	Subresource string          `json:"subresource"`
	Namespace   string          `json:"namespace"`
	Object      json.RawMessage `json:"object"`
	Old         json.RawMessage `json:"old"`
	UID         string          `json:"uid"`
	User        *userInfo       `json:"user"`

	// For admit and rbac.
	Plugin        string            `json:"plugin"`
	Configuration string            `json:"configuration"`
	Operation     string            `json:"operation"`
	Existing      []json.RawMessage `json:"existing"`
	Attributes    []attributes      `json:"attributes"`
}

// userInfo is the user who makes a request.
type userInfo struct {
	Name   string              `json:"name"`
	UID    string              `json:"uid"`
	Groups []string            `json:"groups"`
	Extra  map[string][]string `json:"extra"`
}

// answer is one line of the output.
type answer struct {
	BadRequest string          `json:"badRequest,omitempty"`
	Panic      string          `json:"panic,omitempty"`
	Stack      string          `json:"stack,omitempty"`
	Object     json.RawMessage `json:"object,omitempty"`
	Error      string          `json:"error,omitempty"`
	Reason     string          `json:"reason,omitempty"`
	Code       int32           `json:"code,omitempty"`
	Errors     []cause         `json:"errors,omitempty"`
	Warnings   []string        `json:"warnings,omitempty"`
	Table      json.RawMessage `json:"table,omitempty"`
	Resources  []resourceInfo  `json:"resources,omitempty"`

	Fields    map[string][]string `json:"fields,omitempty"`
	Decisions []decision          `json:"decisions,omitempty"`
	// Objects are those of policy.
	Objects []json.RawMessage `json:"objects,omitempty"`
}

// cause is one error of validation, as the Status shows it.
type cause struct {
	Type    string `json:"type"`
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
}

// resourceInfo is a resource that the reference knows.
type resourceInfo struct {
	Group        string   `json:"group,omitempty"`
	Version      string   `json:"version"`
	Resource     string   `json:"resource"`
	Kind         string   `json:"kind"`
	Namespaced   bool     `json:"namespaced"`
	Subresources []string `json:"subresources,omitempty"`
}

func init() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	capabilities.Setup(true, 0)
}

func main() {
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "oracle36:", err)
		os.Exit(1)
	}
}

// serve answers requests until the end of the input.
func serve(in io.Reader, out io.Writer) error {
	r := bufio.NewReaderSize(in, 1<<20)
	w := bufio.NewWriterSize(out, 1<<20)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return err
		}
		if len(line) > 0 {
			if err := enc.Encode(handle(line)); err != nil {
				return err
			}
			if r.Buffered() == 0 {
				if err := w.Flush(); err != nil {
					return err
				}
			}
		}
		if err == io.EOF {
			return w.Flush()
		}
	}
}

// handle answers one request.
func handle(line []byte) (a answer) {
	defer func() {
		if r := recover(); r != nil {
			a = answer{Panic: fmt.Sprint(r), Stack: string(debug.Stack())}
		}
	}()
	var req request
	if err := json.Unmarshal(line, &req); err != nil {
		return answer{BadRequest: err.Error()}
	}
	var err error
	switch req.Op {
	case "default":
		a, err = fillDefaults(&req)
	case "create":
		a, err = create(&req)
	case "update":
		a, err = update(&req)
	case "admit":
		a, err = admit(&req)
	case "quota":
		a, err = charge(&req)
	case "rbac":
		a, err = authorize(&req)
	case "policy":
		a, err = policy()
	case "review":
		a, err = review(&req)
	case "table":
		a, err = table(&req)
	case "resources":
		a = listResources()
	case "fields":
		a, err = listFields()
	default:
		err = fmt.Errorf("unknown op %q", req.Op)
	}
	if err != nil {
		return answer{BadRequest: err.Error()}
	}
	return a
}

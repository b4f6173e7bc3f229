package builtin

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// Request is a request to the reference. See the command's documentation.
type Request struct {
	Op          string          `json:"op"`
	APIVersion  string          `json:"apiVersion,omitempty"`
	Resource    string          `json:"resource,omitempty"`
	Subresource string          `json:"subresource,omitempty"`
	Namespace   string          `json:"namespace,omitempty"`
	Object      json.RawMessage `json:"object,omitempty"`
	Old         json.RawMessage `json:"old,omitempty"`
	User        *User           `json:"user,omitempty"`

	// Existing are the objects that exist, and Attributes the requests to authorize.
	Existing   []json.RawMessage `json:"existing,omitempty"`
	Attributes []Attributes      `json:"attributes,omitempty"`

	// For admission.
	Plugin        string `json:"plugin,omitempty"`
	Configuration string `json:"configuration,omitempty"`
	Operation     string `json:"operation,omitempty"`
}

// User is the user who makes a request.
type User struct {
	Name   string              `json:"name"`
	UID    string              `json:"uid"`
	Groups []string            `json:"groups"`
	Extra  map[string][]string `json:"extra"`
}

// Answer is the reference's answer to a Request, and ours in the same form.
type Answer struct {
	BadRequest string          `json:"badRequest"`
	Panic      string          `json:"panic"`
	Stack      string          `json:"stack"`
	Object     json.RawMessage `json:"object"`
	Error      string          `json:"error"`
	Reason     string          `json:"reason"`
	Errors     []Cause         `json:"errors"`
	Warnings   []string        `json:"warnings"`
	Resources  []Resource      `json:"resources"`

	// Fields are the names of the fields of each Go type.
	Fields map[string][]string `json:"fields"`
	// Objects are the roles and bindings that exist from the start.
	Objects []json.RawMessage `json:"objects"`
	// Decisions are the answers to Attributes.
	Decisions []Decision `json:"decisions"`
}

// Cause is one error of validation, as the Status shows it.
type Cause struct {
	Type    string `json:"type"`
	Field   string `json:"field"`
	Message string `json:"message"`
}

// Resource is a resource that the reference knows.
type Resource struct {
	Group        string   `json:"group"`
	Version      string   `json:"version"`
	Resource     string   `json:"resource"`
	Kind         string   `json:"kind"`
	Namespaced   bool     `json:"namespaced"`
	Subresources []string `json:"subresources"`
}

// Reference is a running reference process, or the recorded answers of one. It is not safe for
// concurrent use.
type Reference struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader

	// recording has all answers if there is no process. Otherwise, answers are added to it.
	recording *Recording
}

// Live reports whether the tests ask the reference, not only for recorded answers.
func Live() bool { return os.Getenv("ORACLE36") != "" }

// Build builds the reference into a directory and returns its path. The environment variable
// ORACLE36 may name one that is built already. If it is not set, the path is empty, and Start
// uses recorded answers.
func Build(dir string) (string, error) {
	switch program := os.Getenv("ORACLE36"); program {
	case "build":
	default:
		return program, nil
	}
	program := dir + "/oracle36"
	cmd := exec.Command("go", "build", "-o", program, ".")
	cmd.Dir = filepath.Join(module(), "../oracle36")
	// A workspace of both modules would combine both versions of their dependencies.
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly -buildvcs=false")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the reference: %w\n%s", err, out)
	}
	return program, nil
}

// Start starts the reference that Build built, or uses the recorded answers if the path is empty.
// A process adds its answers to the recording. The caller must close it.
func Start(program string, recording *Recording) (*Reference, error) {
	if program == "" {
		return &Reference{recording: recording}, nil
	}
	cmd := exec.Command(program)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &Reference{cmd: cmd, in: in, out: bufio.NewReaderSize(out, 1<<20), recording: recording}, nil
}

// Close ends the process: it stops at the end of its input.
func (r *Reference) Close() error {
	if r.cmd == nil {
		return nil
	}
	if err := r.in.Close(); err != nil {
		return err
	}
	return r.cmd.Wait()
}

// errBadRequest is returned for a request that the reference does not understand.
var errBadRequest = errors.New("the reference does not understand the request")

// Ask sends a request to the reference and returns the answer. If answers are recorded, an equal
// request gets the same one.
func (r *Reference) Ask(req *Request) (*Answer, error) { return r.askFor(req, false) }

// AskAgain is like Ask for a request that was asked before. The answer may be another one, because
// the reference iterates over maps.
func (r *Reference) AskAgain(req *Request) (*Answer, error) { return r.askFor(req, true) }

func (r *Reference) askFor(req *Request, again bool) (*Answer, error) {
	a := &Answer{}
	if err := r.askJSON(req, a, again); err != nil {
		return nil, err
	}
	if a.BadRequest != "" {
		return nil, fmt.Errorf("%w: %s", errBadRequest, a.BadRequest)
	}
	return a, nil
}

// AskJSON sends any request to the reference and decodes the answer.
func (r *Reference) AskJSON(req, answer any) error { return r.askJSON(req, answer, false) }

func (r *Reference) askJSON(req, answer any, again bool) error {
	request, err := json.Marshal(req)
	if err != nil {
		return err
	}
	line, err := r.ask(request, again)
	if err != nil {
		return err
	}
	return json.Unmarshal(line, answer)
}

func (r *Reference) ask(request []byte, again bool) ([]byte, error) {
	if r.recording != nil && !again || r.cmd == nil {
		if answer, err := r.recording.answer(request); err == nil || r.cmd == nil {
			return answer, err
		}
	}
	if _, err := r.in.Write(append(slices.Clip(request), '\n')); err != nil {
		return nil, err
	}
	line, err := r.out.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	line = withoutClock(line)
	if r.recording != nil {
		if err := r.recording.add(request, line); err != nil {
			return nil, err
		}
	}
	return line, nil
}

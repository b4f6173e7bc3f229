package builtin

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
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

// Reference is a running reference process. It is not safe for concurrent use.
type Reference struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// Build builds the reference into a directory and returns its path. The environment variable
// ORACLE36 may name one that is built already.
func Build(dir string) (string, error) {
	if program := os.Getenv("ORACLE36"); program != "" {
		return program, nil
	}
	program := dir + "/oracle36"
	cmd := exec.Command("go", "build", "-o", program, ".")
	cmd.Dir = "../oracle36"
	// A workspace of both modules would combine both versions of their dependencies.
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly -buildvcs=false")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the reference: %w\n%s", err, out)
	}
	return program, nil
}

// Start starts the reference that Build built. The caller must close it.
func Start(program string) (*Reference, error) {
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
	return &Reference{cmd: cmd, in: in, out: bufio.NewReaderSize(out, 1<<20)}, nil
}

// Close ends the process: it stops at the end of its input.
func (r *Reference) Close() error {
	if err := r.in.Close(); err != nil {
		return err
	}
	return r.cmd.Wait()
}

// Ask sends a request to the reference and returns the answer.
func (r *Reference) Ask(req *Request) (*Answer, error) {
	line, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	if _, err := r.in.Write(append(line, '\n')); err != nil {
		return nil, err
	}
	if line, err = r.out.ReadBytes('\n'); err != nil {
		return nil, err
	}
	a := &Answer{}
	if err := json.Unmarshal(line, a); err != nil {
		return nil, err
	}
	if a.BadRequest != "" {
		return nil, fmt.Errorf("the reference does not understand the request: %s", a.BadRequest)
	}
	return a, nil
}

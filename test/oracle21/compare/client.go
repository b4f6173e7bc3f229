package compare

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Request is a request to the reference. See the command's documentation.
type Request struct {
	Op         string          `json:"op"`
	CRD        json.RawMessage `json:"crd,omitempty"`
	Old        json.RawMessage `json:"old,omitempty"`
	Schema     json.RawMessage `json:"schema,omitempty"`
	Group      string          `json:"group,omitempty"`
	Version    string          `json:"version,omitempty"`
	Kind       string          `json:"kind,omitempty"`
	Namespaced bool            `json:"namespaced,omitempty"`
	Preserve   bool            `json:"preserve,omitempty"`
	Objects    []ObjectRequest `json:"objects,omitempty"`
}

// ObjectRequest is an object to decode and validate, and the object that it replaces.
type ObjectRequest struct {
	Object      json.RawMessage `json:"object"`
	Old         json.RawMessage `json:"old,omitempty"`
	FromStorage bool            `json:"fromStorage,omitempty"`
}

// Answer is the reference's answer to a Request.
type Answer struct {
	Error   string          `json:"error"`
	Panic   string          `json:"panic"`
	Errors  []Error         `json:"errors"`
	V1beta1 json.RawMessage `json:"v1beta1"`
	V1      json.RawMessage `json:"v1"`
	Results []ObjectAnswer  `json:"results"`
}

// ObjectAnswer is the result of an ObjectRequest.
type ObjectAnswer struct {
	Error  string          `json:"error"`
	Panic  string          `json:"panic"`
	Object json.RawMessage `json:"object"`
	Errors []Error         `json:"errors"`
}

// Error is a field error.
type Error struct {
	Field  string          `json:"field"`
	Type   field.ErrorType `json:"type"`
	Detail string          `json:"detail"`
	// Value is the bad value; empty if the two sides have no common form of it.
	Value json.RawMessage `json:"value"`
}

// Reference is a running reference process. It is not safe for concurrent use.
type Reference struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// Build builds the reference in dir and returns its path.
func Build(dir string) (string, error) {
	program := dir + "/oracle21"
	cmd := exec.Command("go", "build", "-ldflags=-w", "-o", program, ".")
	cmd.Dir = ".."
	// A workspace of both modules would combine both versions again.
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly -buildvcs=false")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the reference: %w\n%s", err, out)
	}
	return program, nil
}

// Start starts the reference that Build built.
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

// Close stops the process.
func (r *Reference) Close() error {
	if err := r.in.Close(); err != nil {
		return err
	}
	return r.cmd.Wait()
}

// Ask sends a request to the reference and returns the answer.
func (r *Reference) Ask(req Request) (*Answer, error) {
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
	return a, nil
}

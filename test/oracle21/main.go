package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// request is one line of the input.
type request struct {
	Op string `json:"op"`

	CRD json.RawMessage `json:"crd"`
	Old json.RawMessage `json:"old"`

	Schema     json.RawMessage `json:"schema"`
	Group      string          `json:"group"`
	Version    string          `json:"version"`
	Kind       string          `json:"kind"`
	Namespaced bool            `json:"namespaced"`
	Preserve   bool            `json:"preserve"`
	Objects    []objectRequest `json:"objects"`
}

// answer is one line of the output.
type answer struct {
	Error   string          `json:"error,omitempty"`
	Panic   string          `json:"panic,omitempty"`
	Errors  []fieldError    `json:"errors,omitempty"`
	V1beta1 json.RawMessage `json:"v1beta1,omitempty"`
	V1      json.RawMessage `json:"v1,omitempty"`
	Results []objectAnswer  `json:"results,omitempty"`
}

func main() {
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "oracle21:", err)
		os.Exit(1)
	}
}

// serve answers requests until the end of the input.
func serve(in io.Reader, out io.Writer) error {
	defs, err := newDefinitions()
	if err != nil {
		return err
	}
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
			if err := enc.Encode(handle(defs, line)); err != nil {
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
func handle(defs *definitions, line []byte) (a answer) {
	defer func() {
		if r := recover(); r != nil {
			a = answer{Panic: fmt.Sprint(r)}
		}
	}()
	var req request
	if err := json.Unmarshal(line, &req); err != nil {
		return answer{Error: err.Error()}
	}
	var err error
	switch req.Op {
	case "convert":
		a, err = defs.convert(req.CRD)
	case "create":
		a, err = defs.create(req.CRD)
	case "update":
		a, err = defs.update(req.CRD, req.Old)
	case "structural":
		a, err = structural(req.Schema)
	case "objects":
		a, err = objects(&req)
	default:
		err = fmt.Errorf("unknown op %q", req.Op)
	}
	if err != nil {
		return answer{Error: err.Error()}
	}
	return a
}

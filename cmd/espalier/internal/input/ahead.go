package input

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"espalier.dev/cmd/espalier/internal/spool"
	"espalier.dev/internal/yamlx"
)

// Ahead finds the CRDs of an input while the input is being read: an object may precede its
// CRD. Files are read a second time. Standard input and pipes are streamed as long as nobody
// looks ahead; the rest is then kept in a spool. An Ahead is safe for concurrent use.
type Ahead struct {
	mu      sync.Mutex
	streams map[string]*stream
}

// Input returns the flags to read the input with.
func (a *Ahead) Input(f Flags) Flags {
	f.ahead = a
	return f
}

// Definitions returns the flags that read only those documents of the input that mention
// CRDs. It can be used while the input is being read with the flags of Input, and after.
func (a *Ahead) Definitions(f Flags) Flags {
	f.ahead, f.looksAhead, f.Keep, f.Skipped = a, true, Definitions, nil
	return f
}

// All returns the flags that read all documents of the input, before it is read with the flags of
// Input.
func (a *Ahead) All(f Flags) Flags {
	f.ahead, f.looksAhead, f.Skipped = a, true, nil
	return f
}

// Close releases the spools.
func (a *Ahead) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var err error
	for _, s := range a.streams {
		err = errors.Join(err, s.spool.Close())
	}
	return err
}

// stream returns the stream of a path, which is created if it is new.
func (a *Ahead) stream(path string, in io.Reader, o yamlx.Options) *stream {
	if a == nil {
		return &stream{in: in, options: o}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.streams[path]
	if s == nil {
		if a.streams == nil {
			a.streams = map[string]*stream{}
		}
		s = &stream{in: in, options: o, marks: true}
		a.streams[path] = s
	}
	return s
}

// stream is standard input or a pipe, which can be read only once.
type stream struct {
	mu      sync.Mutex
	in      io.Reader
	options yamlx.Options
	// start is the first part of the text, and documents reads all of it.
	start     []byte
	documents *yamlx.Reader
	// marks is set until somebody looks ahead: documents that mention CRDs are marked.
	marks  bool
	marked []*yamlx.Document
	spool  spool.Spool
}

// Start returns the first bytes of the text.
func (s *stream) Start() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open()
	return s.start
}

func (s *stream) open() {
	if s.documents != nil {
		return
	}
	// A read error occurs again when the documents are read.
	start := make([]byte, sniffed)
	n, _ := io.ReadFull(s.in, start)
	s.start = start[:n]
	s.documents = yamlx.NewReader(io.MultiReader(bytes.NewReader(s.start), s.in), s.options)
}

// Next returns the next document.
func (s *stream) Next() (*yamlx.Document, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open()
	d, err := s.documents.Next()
	if err == nil && s.marks && mentionsDefinition(d.Source()) {
		s.marked = append(s.marked, d)
	}
	return d, err
}

// lookAhead reads the rest of the stream into the spool, and returns the marked documents and
// all documents of the rest. Next continues with the first document of the rest.
func (s *stream) lookAhead() (documentReader, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open()
	if s.marks {
		in, line := s.documents.Rest()
		rest := &recordingReader{in: in}
		if _, err := io.Copy(&s.spool, rest); err != nil && rest.err == nil {
			return nil, spoolError(err)
		}
		spooled, err := s.spool.Reader(0, s.spool.Size())
		if err != nil {
			return nil, spoolError(err)
		}
		s.marks = false
		s.options.Line = line
		// After the text, Next returns the error that ended it, if there was one.
		s.documents = yamlx.NewReader(io.MultiReader(spooled, rest), s.options)
	}
	spooled, err := s.spool.Reader(0, s.spool.Size())
	if err != nil {
		return nil, spoolError(err)
	}
	return &markedReader{marked: slices.Clone(s.marked), rest: yamlx.NewReader(spooled, s.options)}, nil
}

func spoolError(err error) error {
	return fmt.Errorf("cannot keep the input until its CRDs are read: %w", err)
}

// documentReader reads documents.
type documentReader interface {
	Next() (*yamlx.Document, error)
}

// markedReader reads marked documents, and then others.
type markedReader struct {
	marked []*yamlx.Document
	rest   *yamlx.Reader
}

func (r *markedReader) Next() (*yamlx.Document, error) {
	if len(r.marked) == 0 {
		return r.rest.Next()
	}
	d := r.marked[0]
	r.marked = r.marked[1:]
	// Documents are not safe for concurrent use, and the other reader has this one.
	return yamlx.NewBytesReader(d.Source(), yamlx.Options{Line: d.Line(), MaxDocument: len(d.Source()) + 1}).Next()
}

// recordingReader remembers the error or the end of a reader, and returns it again.
type recordingReader struct {
	in  io.Reader
	err error
	end bool
}

func (r *recordingReader) Read(p []byte) (int, error) {
	if r.end {
		return 0, io.EOF
	}
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.in.Read(p)
	if errors.Is(err, io.EOF) {
		r.end = true
	} else if err != nil {
		r.err = err
	}
	return n, err
}

// Package input reads objects from the files, directories and standard input that the
// command line names. A file can contain several YAML and JSON documents, and lists whose
// items are objects. Input is streamed: the package does not retain objects after the
// caller has visited them. Reading continues after a file or document that cannot be read.
package input

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"espalier.dev/internal/yamlx"
)

// Stdin is the file name of standard input in findings.
const Stdin = "<stdin>"

// Flags are the input flags of a command.
type Flags struct {
	// Paths are files, directories, or - for standard input.
	Paths []string
	// Recursive includes subdirectories.
	Recursive bool
}

// Problem is an input that cannot be read, with its position as far as it is known.
type Problem struct {
	// Rule is one of the constants below.
	Rule string
	File string
	// Line and Column count from 1; zero stands for the file as a whole.
	Line, Column int
	Message      string
	// Source is the line at the position, if it is known.
	Source Excerpt
}

// Rules of problems.
const (
	// Unreadable is the rule for a file that cannot be opened or read.
	Unreadable = "unreadable"
	// Syntax is the rule for a document that is not an object in YAML or JSON.
	Syntax = "syntax"
	// Empty is the rule for a directory without manifests.
	Empty = "no-input"
)

// Error returns the problem in one line.
func (p *Problem) Error() string {
	switch {
	case p.File == "":
		return p.Message
	case p.Line == 0:
		return fmt.Sprintf("%s: %s", p.File, p.Message)
	}
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)
}

// Read visits every object of the input, in the order of the paths; files in a directory
// are sorted by name. Each file is read once. Read calls problem for a file or document that
// cannot be read, and continues. It returns the error of visit or ctx.
func Read(ctx context.Context, stdin io.Reader, flags Flags, visit func(*Item) error, problem func(Problem)) error {
	return Documents(ctx, stdin, flags, func(d *Document) error {
		items, p := d.Items()
		for _, it := range items {
			if err := visit(it); err != nil {
				return err
			}
		}
		if p != nil {
			problem(*p)
		}
		return nil
	}, problem)
}

// Documents visits every document of the input that is not empty. The documents are not yet
// parsed: [Document.Items] parses a document, which takes most of the time and can be done
// for several documents concurrently.
func Documents(ctx context.Context, stdin io.Reader, flags Flags, visit func(*Document) error, problem func(Problem)) error {
	r := &reader{ctx: ctx, visit: visit, problem: problem}
	return r.all(stdin, flags)
}

type reader struct {
	ctx     context.Context
	visit   func(*Document) error
	problem func(Problem)
	// small, if set, may process a file in place of the reader. It reports whether it does.
	small func(path string, info os.FileInfo) (bool, error)
	// seen holds the resolved paths of the files and directories that were read.
	seen map[string]bool
}

// all reads all paths.
func (r *reader) all(stdin io.Reader, flags Flags) error {
	if len(flags.Paths) == 0 {
		return errors.New("no input: name files or directories with -f, or - for standard input")
	}
	for _, path := range flags.Paths {
		if err := r.path(path, stdin, flags.Recursive); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) fail(file, rule, format string, args ...any) {
	r.problem(Problem{Rule: rule, File: file, Message: fmt.Sprintf(format, args...)})
}

// reason returns an error without the operation and the path, which the problem already has.
func reason(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

func (r *reader) path(path string, stdin io.Reader, recursive bool) error {
	if path == "-" {
		return r.stream(Stdin, stdin)
	}
	if strings.HasPrefix(path, "http://") || strings.HasPrefix(path, "https://") {
		r.fail(path, Unreadable, "URLs are not supported: download the file, or pipe it to standard input with -f -")
		return nil
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		r.fail(path, Unreadable, "cannot read: %v", reason(err))
		return nil
	case info.IsDir():
		return r.directory(path, recursive)
	case info.Mode().IsRegular() && r.once(realPath(path)):
		return nil
	}
	return r.take(path, info)
}

// take reads a file, or passes it to small.
func (r *reader) take(path string, info os.FileInfo) error {
	if r.small != nil {
		if taken, err := r.small(path, info); taken || err != nil {
			return err
		}
	}
	return r.file(path)
}

// extensions returns the file name extensions that are read in directories.
func extensions() []string { return []string{".json", ".yaml", ".yml"} }

// directory reads the files of a directory and, if recursive is set, its subdirectories.
func (r *reader) directory(root string, recursive bool) error {
	found, err := r.walk(root, realPath(root), recursive)
	if err == nil && found == 0 {
		hint := ""
		if !recursive {
			hint = " (-R includes subdirectories)"
		}
		r.fail(root, Empty, "no %s files in the directory%s", strings.Join(extensions(), ", "), hint)
	}
	return err
}

// walk reads the directory path, whose resolved path is real, and returns the number of
// files found. It follows links. Each directory is read once, so that loops end.
func (r *reader) walk(path, real string, recursive bool) (found int, err error) {
	if r.once(real) {
		return 1, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		r.fail(path, Unreadable, "cannot read: %v", reason(err))
		found++
	}
	for _, entry := range entries {
		name, at := filepath.Join(path, entry.Name()), filepath.Join(real, entry.Name())
		isLink := entry.Type()&fs.ModeSymlink != 0
		matches := slices.Contains(extensions(), strings.ToLower(filepath.Ext(name)))
		if !matches && !entry.IsDir() && !isLink {
			continue
		}
		// For a link, its target decides.
		info, err := os.Stat(name)
		if isLink {
			at = realPath(name)
		}
		switch {
		case err != nil && matches:
			found++
			r.fail(name, Unreadable, "cannot read: %v", reason(err))
		case err != nil:
		case info.IsDir():
			if !recursive || entry.Name() == ".git" {
				continue
			}
			n, err := r.walk(name, at, true)
			if found += n; err != nil {
				return found, err
			}
		case matches && info.Mode().IsRegular(): // a pipe would never end
			found++
			if r.once(at) {
				continue
			}
			if err := r.take(name, info); err != nil {
				return found, err
			}
		}
	}
	return found, nil
}

// realPath returns the absolute path without links, as far as it can be resolved.
func realPath(path string) string {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return path
}

// once reports whether a file or directory has been read already, and remembers it.
func (r *reader) once(real string) bool {
	if r.seen[real] {
		return true
	}
	if r.seen == nil {
		r.seen = map[string]bool{}
	}
	r.seen[real] = true
	return false
}

func (r *reader) file(path string) error {
	f, err := os.Open(path)
	if err != nil {
		r.fail(path, Unreadable, "cannot read: %v", reason(err))
		return nil
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Size() <= smallFile {
		data := make([]byte, info.Size()+1)
		if n, err := io.ReadFull(f, data); errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			if data = data[:n]; r.rejectBinary(path, data[:min(n, sniffed)]) {
				return nil
			}
			return r.documents(path, yamlx.NewBytesReader(data, yamlx.Options{}))
		} else if err == nil {
			// The file has grown: data is only its start.
			return r.stream(path, io.MultiReader(bytes.NewReader(data), f))
		}
	}
	return r.stream(path, f)
}

// sniffed is the number of bytes that are examined to detect binary files.
const sniffed = 1024

// looksBinary reports whether a file is binary: its start contains a zero byte. UTF-16 and
// UTF-32 contain zero bytes too, but start with a byte order mark.
func looksBinary(start []byte) bool {
	return bytes.IndexByte(start, 0) >= 0 &&
		!bytes.HasPrefix(start, []byte{0xfe, 0xff}) && !bytes.HasPrefix(start, []byte{0xff, 0xfe}) && !bytes.HasPrefix(start, []byte{0, 0, 0xfe, 0xff})
}

// rejectBinary reports a problem and returns true if a file is binary.
func (r *reader) rejectBinary(name string, start []byte) bool {
	if !looksBinary(start) {
		return false
	}
	at := bytes.IndexByte(start, 0)
	line := 1 + bytes.Count(start[:at], []byte("\n"))
	column := at - bytes.LastIndexByte(start[:at], '\n')
	r.problem(Problem{Rule: Syntax, File: name, Line: line, Column: column, Message: "binary file: YAML and JSON cannot contain zero bytes"})
	return true
}

func (r *reader) stream(name string, in io.Reader) error {
	// A read error occurs again when the documents are read.
	start := make([]byte, sniffed)
	n, _ := io.ReadFull(in, start)
	if start = start[:n]; r.rejectBinary(name, start) {
		return nil
	}
	return r.documents(name, yamlx.NewReader(io.MultiReader(bytes.NewReader(start), in), yamlx.Options{}))
}

func (r *reader) documents(name string, documents *yamlx.Reader) error {
	for {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		d, err := documents.Next()
		var bad *yamlx.Error
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &bad):
			r.problem(syntaxProblem(name, bad, nil))
			continue
		case err != nil && r.ctx.Err() != nil:
			return r.ctx.Err()
		case err != nil:
			r.fail(name, Unreadable, "cannot read: %v", reason(err))
			return nil
		case d.Empty():
			continue
		}
		if err := r.visit(&Document{File: name, Document: d}); err != nil {
			return err
		}
	}
}

// syntaxProblem returns the problem for a syntax error. d may be nil.
func syntaxProblem(file string, e *yamlx.Error, d *yamlx.Document) Problem {
	p := Problem{Rule: Syntax, File: file, Line: e.Line, Column: e.Column, Message: e.Message}
	if d != nil {
		p.Source = excerptOfLine(d, e.Line, e.Column)
	}
	return p
}

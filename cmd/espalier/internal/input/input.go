// Package input reads what the command line names: files, directories and standard
// input, with YAML and JSON documents in them, one after the other, and lists whose
// items are objects. Nothing is held longer than whoever visits it holds it, and
// what cannot be read does not keep the rest from being read.
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

// Stdin is how the standard input is called in findings.
const Stdin = "<stdin>"

// Flags are what the command line says about input.
type Flags struct {
	// Paths are files, directories, or - for standard input.
	Paths []string
	// Recursive takes directories with those below.
	Recursive bool
}

// Problem is something that cannot be read, with its place as far as it is known.
type Problem struct {
	// Rule is one of the constants below.
	Rule string
	File string
	// Line and Column count from 1; zero stands for the file as a whole.
	Line, Column int
	Message      string
	// Source is the line, if there is one to show.
	Source Excerpt
}

// What can be wrong with input.
const (
	// Unreadable is a file that cannot be opened or read.
	Unreadable = "unreadable"
	// Syntax is a document that is neither YAML nor JSON, or no object.
	Syntax = "syntax"
	// Empty is a file or directory without anything in it.
	Empty = "no-input"
)

// Error is the problem in one line.
func (p *Problem) Error() string {
	switch {
	case p.File == "":
		return p.Message
	case p.Line == 0:
		return fmt.Sprintf("%s: %s", p.File, p.Message)
	}
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)
}

// Read visits every object of the input, in the order of the paths, files of a
// directory in the order of their names, each file once. A file or document that cannot be read is
// a problem, and reading goes on. The error is that of visit, or of ctx.
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

// Documents visits every document of the input that is not empty, before it is
// known whether it is well formed: [Document.Items] says so, and costs most of the
// time, so that it can be called on several documents at once.
func Documents(ctx context.Context, stdin io.Reader, flags Flags, visit func(*Document) error, problem func(Problem)) error {
	r := &reader{ctx: ctx, visit: visit, problem: problem}
	return r.all(stdin, flags)
}

type reader struct {
	ctx     context.Context
	visit   func(*Document) error
	problem func(Problem)
	// small, if set, may take a file off the reader's hands.
	small func(path string, info os.FileInfo) (bool, error)
	// seen are the files and directories that were read, by where they really are.
	seen map[string]bool
}

// all reads all paths.
func (r *reader) all(stdin io.Reader, flags Flags) error {
	if len(flags.Paths) == 0 {
		return errors.New("nothing to read: name files or directories with -f, or - for standard input")
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

// reason is what an error says beyond the operation and the path, which are told
// elsewhere.
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
		r.fail(path, Unreadable, "espalier never touches the network: fetch it first and name the file, or pipe it in with -f -")
		return nil
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		r.fail(path, Unreadable, "cannot be read: %v", reason(err))
		return nil
	case info.IsDir():
		return r.directory(path, recursive)
	case info.Mode().IsRegular() && r.once(realPath(path)):
		return nil
	}
	return r.take(path, info)
}

// take reads a file, or leaves it to somebody else.
func (r *reader) take(path string, info os.FileInfo) error {
	if r.small != nil {
		if taken, err := r.small(path, info); taken || err != nil {
			return err
		}
	}
	return r.file(path)
}

// extensions are those of the files in a directory that are read.
func extensions() []string { return []string{".json", ".yaml", ".yml"} }

// directory reads the files of a directory, those below it too if it is to be
// recursive.
func (r *reader) directory(root string, recursive bool) error {
	found, err := r.walk(root, realPath(root), recursive)
	if err == nil && found == 0 {
		hint := ""
		if !recursive {
			hint = " (-R also looks in the directories below)"
		}
		r.fail(root, Empty, "there is no %s file in the directory%s", strings.Join(extensions(), ", "), hint)
	}
	return err
}

// walk reads the directory that is called path and is at real, and says how much it
// found there. Links are followed; a directory is read once, so loops end.
func (r *reader) walk(path, real string, recursive bool) (found int, err error) {
	if r.once(real) {
		return 1, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		r.fail(path, Unreadable, "cannot be read: %v", reason(err))
		found++
	}
	for _, entry := range entries {
		name, at := filepath.Join(path, entry.Name()), filepath.Join(real, entry.Name())
		isLink := entry.Type()&fs.ModeSymlink != 0
		matches := slices.Contains(extensions(), strings.ToLower(filepath.Ext(name)))
		if !matches && !entry.IsDir() && !isLink {
			continue
		}
		// What a link leads to counts.
		info, err := os.Stat(name)
		if isLink {
			at = realPath(name)
		}
		switch {
		case err != nil && matches:
			found++
			r.fail(name, Unreadable, "cannot be read: %v", reason(err))
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

// realPath is where a path leads to, as far as that can be told.
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
		r.fail(path, Unreadable, "cannot be read: %v", reason(err))
		return nil
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Size() <= smallFile {
		data := make([]byte, info.Size()+1)
		if n, err := io.ReadFull(f, data); errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			if data = data[:n]; r.refuseBinary(path, data[:min(n, sniffed)]) {
				return nil
			}
			return r.documents(path, yamlx.NewBytesReader(data, yamlx.Options{}))
		} else if err == nil {
			// It grew. What was read is the start of it.
			return r.stream(path, io.MultiReader(bytes.NewReader(data), f))
		}
	}
	return r.stream(path, f)
}

// sniffed is how much of a file reports whether it is text.
const sniffed = 1024

// looksBinary reports whether a text starts as none does. What is in UTF-16 or UTF-32
// has zeros too, and a mark that says so.
func looksBinary(start []byte) bool {
	return bytes.IndexByte(start, 0) >= 0 &&
		!bytes.HasPrefix(start, []byte{0xfe, 0xff}) && !bytes.HasPrefix(start, []byte{0xff, 0xfe}) && !bytes.HasPrefix(start, []byte{0, 0, 0xfe, 0xff})
}

// refuseBinary reports a file that starts as no text does.
func (r *reader) refuseBinary(name string, start []byte) bool {
	if !looksBinary(start) {
		return false
	}
	at := bytes.IndexByte(start, 0)
	line := 1 + bytes.Count(start[:at], []byte("\n"))
	column := at - bytes.LastIndexByte(start[:at], '\n')
	r.problem(Problem{Rule: Syntax, File: name, Line: line, Column: column, Message: "is a binary file: neither YAML nor JSON has a zero byte"})
	return true
}

func (r *reader) stream(name string, in io.Reader) error {
	// What is wrong with reading comes up again when the documents are read.
	start := make([]byte, sniffed)
	n, _ := io.ReadFull(in, start)
	if start = start[:n]; r.refuseBinary(name, start) {
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
			r.fail(name, Unreadable, "cannot be read: %v", reason(err))
			return nil
		case d.Empty():
			continue
		}
		if err := r.visit(&Document{File: name, Document: d}); err != nil {
			return err
		}
	}
}

// syntaxProblem is an error of a document, which is nil if it is not known.
func syntaxProblem(file string, e *yamlx.Error, d *yamlx.Document) Problem {
	p := Problem{Rule: Syntax, File: file, Line: e.Line, Column: e.Column, Message: e.Message}
	if d != nil {
		p.Source = excerptOfLine(d, e.Line, e.Column)
	}
	return p
}

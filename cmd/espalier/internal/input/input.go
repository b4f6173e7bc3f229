// Package input reads objects from the files, directories and standard input that the
// command line names. A file can contain several YAML and JSON documents, and lists whose
// items are objects. Input is streamed: the package does not retain objects after the
// caller has visited them. Reading continues after a file or document that cannot be read.
package input

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"espalier.dev/cmd/espalier/internal/glob"
	"espalier.dev/cmd/espalier/internal/helm"
	"espalier.dev/cmd/espalier/internal/kustomize"
	"espalier.dev/internal/yamlx"
)

// Stdin is the file name of standard input in findings.
const Stdin = "<stdin>"

// Flags are the input flags of a command.
type Flags struct {
	// Paths are files, directories, git:REV:PATH for those of a revision in the Git repository of
	// the working directory, or - for standard input.
	Paths []string
	// Recursive includes subdirectories.
	Recursive bool
	// Exclude are patterns of files and directories that are skipped. A pattern without a
	// slash applies to base names, a pattern with one to paths relative to the directory in
	// Paths, or to the path of a file as it is named there. ** matches any number of path
	// elements, and a trailing slash restricts a pattern to directories.
	Exclude []string
	// Skip reports whether a file or directory is skipped in addition. Nil skips none.
	Skip func(path string, isDir bool) bool
	// Unchanged reports whether a file, or all files of a directory, need not be read, because they
	// are not different from others. A chart or a kustomization is rendered if any of its files is.
	// Nil reads all.
	Unchanged func(path string) bool
	// MaxDocument is the maximum size of a document in bytes. Zero stands for the default of
	// package yamlx. Several documents are in memory at a time.
	MaxDocument int
	// Keep selects the documents that are read.
	Keep Filter
	// Git has the repositories of paths in revisions, and the directory that relative paths are relative
	// to. If it is nil, repositories are opened for each read, and that is the directory of the process.
	Git *Repositories
	// GitDir is a directory of the repository, the working directory by default.
	GitDir string
	// Select reports whether a text may have documents to read, in addition to Keep. Nil selects
	// all.
	Select func(text []byte) bool
	// SkipHidden skips files and directories in directories whose names start with a dot.
	SkipHidden bool
	// ReadKustomize reads the files that kustomize uses and that are not objects, such as patches.
	// They are skipped otherwise, unless the user names them and Keep is Everything.
	ReadKustomize bool
	// Build builds the directories with a kustomization file, and reads the results in place of
	// their files. It is nil if they are not built.
	Build *kustomize.Builder
	// BuildNamed restricts Build to directories that the user names, without Recursive. Their files
	// are read if no program is installed, or if the kustomization needs the network.
	BuildNamed bool
	// Helm renders charts, and reads the results in place of their files. It is nil if charts are not
	// rendered.
	Helm *helm.Renderer
	// HelmNamed restricts Helm to charts that the user names, without Recursive. What needs no
	// program is read of them if helm is not installed.
	HelmNamed bool
	// Skipped counts what is skipped, unless it is nil.
	Skipped *Skipped
	// Transient lets [Parallel] use the memory of documents again as soon as their work is done: most
	// of them are then not kept. It does so for those that can be read again, after the first ones;
	// see [Item.Transient].
	Transient bool

	// ahead is set if somebody may look ahead, and looksAhead if this is the one who does.
	ahead      *Ahead
	looksAhead bool
}

// With returns the flags with other paths, of which nothing is counted as skipped.
func (f Flags) With(paths ...string) Flags {
	f.Paths, f.Skipped = paths, nil
	return f
}

// OnRender calls a function, from several goroutines, for every chart and kustomization that was
// rendered, with the plural of its noun.
func (f *Flags) OnRender(call func(what string)) {
	if f.Build != nil {
		f.Build.OnBuild(func() { call("kustomizations") })
	}
	if f.Helm != nil {
		f.Helm.OnRender(func() { call("charts") })
	}
}

// Unrendered returns the flags that read the files of charts and kustomizations that the user names,
// for commands that need the files.
func (f Flags) Unrendered() Flags {
	if f.BuildNamed {
		f.Build = nil
	}
	if f.HelmNamed {
		f.Helm = nil
	}
	return f
}

// Filter selects documents, so that files of all kinds can be named.
type Filter uint8

const (
	// Everything keeps all documents: a document that is no object is a problem, and so is
	// a named file without documents.
	Everything Filter = iota
	// Manifests keeps objects with apiVersion and kind, and those that lack one of them by
	// mistake. It drops templates, and documents that cannot be read and do not mention
	// apiVersion and kind.
	Manifests
	// Definitions keeps documents that mention CRDs, except templates.
	Definitions
	// Policies keeps documents that mention CRDs, admission policies or webhook configurations,
	// except templates.
	Policies
)

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
	// Object is the object that cannot be processed, or zero if it is unknown.
	Object Identity
}

// Rules of problems.
const (
	// Unreadable is the rule for a file that cannot be opened or read.
	Unreadable = "unreadable"
	// Syntax is the rule for a document that is not an object in YAML or JSON.
	Syntax = "syntax"
	// Empty is the rule for a directory without manifests and a file without documents.
	Empty = "no-input"
	// Template is the rule for a Helm template.
	Template = "helm-template"
	// Unrendered is the rule for a chart or a kustomization that cannot be rendered.
	Unrendered = "unrendered"
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
	r := &reader{ctx: ctx, flags: &flags, visit: visit, problem: problem}
	return r.all(stdin)
}

type reader struct {
	ctx     context.Context
	flags   *Flags
	exclude []glob.File
	visit   func(*Document) error
	problem func(Problem)
	// small, if set, may process a file in place of the reader. It reports whether it does.
	small func(f file, info os.FileInfo) (bool, error)
	// later, if set, may render a chart or a kustomization in place of the reader. It reports whether
	// it does.
	later func(rendering) (bool, error)
	// kustomizations holds the kustomization files near the files that were read.
	kustomizations kustomizations
	// above holds the directories above those that were read.
	above map[directory]parents
	// taken counts the files that are read, and unbuilt is why the kustomization in the directory that
	// the user named is not built, but its files are read.
	taken   int
	unbuilt error
	// scratch is the memory of documents that are not kept, or nil.
	scratch *scratch
	// seen holds the resolved paths of the files and directories that were read.
	seen map[string]bool
}

// all reads all paths.
func (r *reader) all(stdin io.Reader) (err error) {
	if len(r.flags.Paths) == 0 {
		return errors.New("no input: name files or directories, or - for standard input")
	}
	if r.exclude, err = parseExclusions(r.flags.Exclude); err != nil {
		return err
	}
	if r.flags.Git == nil {
		own := *r.flags
		own.Git = NewRepositories(context.WithoutCancel(r.ctx), "")
		r.flags = &own
		defer func() { err = errors.Join(err, own.Git.Close()) }()
	}
	for _, path := range r.flags.Paths {
		if err := r.path(path, stdin); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) fail(file, rule, format string, args ...any) {
	r.problem(Problem{Rule: rule, File: file, Message: fmt.Sprintf(format, args...)})
}

// Reason returns an error without the operation and the path, which the problem already has.
func Reason(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// sniffed is the number of bytes that are examined to detect binary files.
const sniffed = 1024

// looksBinary reports whether a file is binary: its start contains a zero byte. UTF-16 and
// UTF-32 contain zero bytes too, but start with a byte order mark.
func looksBinary(start []byte) bool {
	return bytes.IndexByte(start, 0) >= 0 &&
		!bytes.HasPrefix(start, []byte{0xfe, 0xff}) &&
		!bytes.HasPrefix(start, []byte{0xff, 0xfe}) && !bytes.HasPrefix(start, []byte{0, 0, 0xfe, 0xff})
}

// lfsPointer is the start of a file whose content Git LFS has.
const lfsPointer = "version https://git-lfs.github.com/spec/"

// reject reports a problem and returns true if a file is binary, or a pointer of Git LFS.
func (r *reader) reject(name string, start []byte) bool {
	pointer := bytes.HasPrefix(start, []byte(lfsPointer))
	if !pointer && !looksBinary(start) {
		return false
	}
	if r.flags.Keep != Everything {
		if pointer {
			r.flags.Skipped.Count(OtherDocument)
		}
		return true
	}
	if pointer {
		advice := "run git lfs pull"
		if IsGit(name) {
			advice = "check the revision out and run git lfs pull"
		}
		r.problem(Problem{Rule: Syntax, File: name, Line: 1, Column: 1,
			Message: "a Git LFS pointer, not the content of the file: " + advice})
		return true
	}
	at := bytes.IndexByte(start, 0)
	line := 1 + bytes.Count(start[:at], []byte("\n"))
	column := at - bytes.LastIndexByte(start[:at], '\n')
	r.problem(Problem{Rule: Syntax, File: name, Line: line, Column: column,
		Message: "binary file: YAML and JSON cannot contain zero bytes"})
	return true
}

// stream reads a text of any length. ahead is nil if the text can be read a second time.
func (r *reader) stream(f file, in io.Reader, ahead *Ahead) error {
	s := ahead.stream(f.path, in, r.options())
	if r.reject(f.path, s.Start()) {
		return nil
	}
	if ahead != nil && r.flags.looksAhead {
		documents, err := s.lookAhead()
		if err != nil {
			return err
		}
		return r.documents(f, documents)
	}
	return r.documents(f, s)
}

func (r *reader) options() yamlx.Options { return yamlx.Options{MaxDocument: r.flags.MaxDocument} }

// documents visits the documents of a file.
func (r *reader) documents(f file, documents documentReader) error {
	for empty := true; ; {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		d, err := documents.Next()
		switch {
		case errors.Is(err, io.EOF):
			if empty && f.named && r.flags.Keep == Everything {
				r.fail(f.path, Empty, "no documents in %s", f.path)
			}
			return nil
		case r.badDocument(f.path, err):
			empty = false
			continue
		case err != nil && r.ctx.Err() != nil:
			return r.ctx.Err()
		case err != nil:
			r.fail(f.path, Unreadable, "cannot read: %v", Reason(err))
			return nil
		case d.Empty():
			continue
		}
		empty = false
		if err := r.document(f, d); err != nil {
			return err
		}
	}
}

// document visits a document of a file.
func (r *reader) document(f file, d *yamlx.Document) error {
	if !r.flags.keeps(d.Source()) {
		r.flags.Skipped.Count(OtherDocument)
		return nil
	}
	memory := r.scratch
	if !f.regular {
		memory = nil // it cannot be read again
	}
	return r.visit(&Document{File: f.path, Document: d, in: f.in, named: f.named, rendered: f.rendered, regular: f.regular,
		scratch: memory, reused: memory != nil, maxDocument: r.flags.MaxDocument, keep: r.flags.Keep, skipped: r.flags.Skipped})
}

// badDocument reports whether an error is about one document, and the problem if it matters.
func (r *reader) badDocument(path string, err error) bool {
	var bad *yamlx.Error
	if !errors.As(err, &bad) {
		return false
	}
	p := syntaxProblem(path, bad, nil)
	if bad.TooLarge {
		limit := cmp.Or(r.flags.MaxDocument, yamlx.DefaultMaxDocument)
		p.Message = fmt.Sprintf("the document that starts here is larger than %d MiB: raise the limit with --max-document-size",
			limit>>20)
	}
	if r.flags.Keep == Everything || bad.TooLarge {
		r.problem(p)
	}
	return true
}

// syntaxProblem returns the problem for a syntax error. d may be nil.
func syntaxProblem(file string, e *yamlx.Error, d *yamlx.Document) Problem {
	p := Problem{Rule: Syntax, File: file, Line: e.Line, Column: e.Column, Message: e.Message}
	if d != nil {
		p.Source = excerptOfLine(d, e.Line, e.Column)
	}
	return p
}

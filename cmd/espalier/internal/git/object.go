package git

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
)

// held is the size up to which an object is read into memory.
const held = 1 << 20

// batch is a process that returns objects by name.
type batch struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	stderr  *head
}

// start starts a process.
func (r *Repository) start() (*batch, error) {
	b := &batch{command: r.command(r.ctx, "cat-file", "--batch"), stderr: new(head)}
	b.command.Stderr = b.stderr
	in, err := b.command.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := b.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := b.command.Start(); err != nil {
		return nil, err
	}
	b.in, b.out = in, bufio.NewReaderSize(out, 64<<10)
	return b, nil
}

// end ends the process, which may be writing an object.
func (b *batch) end() {
	_ = b.in.Close()
	_ = b.command.Process.Kill()
	_ = b.command.Wait() // it was killed
}

// failure ends the process, and returns why it cannot be used.
func (b *batch) failure(err error) error {
	b.end()
	if len(b.stderr.text) > 0 {
		return &commandError{"cat-file", b.command.ProcessState.ExitCode(), string(b.stderr.text)}
	}
	return fmt.Errorf("git cat-file: %w", err)
}

// object is an object of the repository: its content, which must be closed.
type object struct {
	io.ReadCloser
	id, kind string
	size     int64
}

// errMissing is the error of an object that is not in the repository.
var errMissing = errors.New("missing")

// object returns the object that a revision names, peeled to a type such as ^{commit}.
func (r *Repository) object(ctx context.Context, rev, peel string) (*object, error) {
	if rev == "" {
		return nil, fmt.Errorf("%w: it is empty", ErrNoCommit)
	}
	// Names are lines. Nothing that git accepts as a revision has control characters.
	if strings.ContainsAny(rev, "\n\r\x00") {
		return nil, fmt.Errorf("%w %q", ErrNoCommit, rev)
	}
	o, err := r.read(ctx, rev+peel)
	if errors.Is(err, errMissing) {
		return nil, r.unknown(ctx, rev)
	}
	return o, err
}

// unknown returns the error of a revision that cannot be resolved.
func (r *Repository) unknown(ctx context.Context, rev string) error {
	err := fmt.Errorf("%w %s", ErrNoCommit, rev)
	if o, other := r.read(ctx, rev); other == nil {
		o.Close()
		return fmt.Errorf("%s is a %s, not a commit", rev, o.kind)
	}
	if r.shallow {
		return fmt.Errorf("%w: this is a shallow clone, which may lack it: %s", err, deepen)
	}
	if remote, branch, ok := strings.Cut(rev, "/"); ok && !strings.HasPrefix(rev, "-") {
		if remotes, failed := r.line(ctx, "config", "--get", "remote."+remote+".url"); failed == nil && remotes != "" {
			return fmt.Errorf("%w: fetch it with git fetch %s %s", err, remote, branch)
		}
	}
	return err
}

// read returns the object of a name. Its content is in memory if it is small. If it is large, it
// takes the process with it, so that a slow reader holds nobody up.
func (r *Repository) read(ctx context.Context, name string) (*object, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b := r.idle
	if r.idle = nil; b == nil {
		var err error
		if b, err = r.start(); err != nil {
			return nil, err
		}
	}
	// The context of the call may end before that of the repository.
	stop := context.AfterFunc(ctx, func() { _ = b.command.Process.Kill() })
	defer stop()
	o, err := b.ask(name)
	switch {
	case ctx.Err() != nil:
		b.end()
		return nil, ctx.Err()
	case errors.Is(err, errMissing):
		r.idle = b
		return nil, err
	case err != nil:
		return nil, b.failure(err)
	case o.ReadCloser == nil:
		o.ReadCloser = &large{batch: b, left: o.size}
	default:
		r.idle = b
	}
	return o, nil
}

// ask asks for an object. Its content is nil if it is large and still to be read.
func (b *batch) ask(name string) (*object, error) {
	if _, err := io.WriteString(b.in, name+"\n"); err != nil {
		return nil, err
	}
	header, err := b.out.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if rest, ok := strings.CutPrefix(header, name); ok && (rest == " missing\n" || rest == " ambiguous\n") {
		return nil, errMissing
	}
	fields := strings.Fields(header)
	if len(fields) != 3 {
		return nil, fmt.Errorf("unexpected output %q", header)
	}
	o := &object{id: fields[0], kind: fields[1]}
	if o.size, err = strconv.ParseInt(fields[2], 10, 64); err != nil || o.size < 0 {
		return nil, fmt.Errorf("unexpected output %q", header)
	}
	if o.size > held {
		return o, nil
	}
	text := make([]byte, o.size+1) // a newline follows
	if _, err := io.ReadFull(b.out, text); err != nil {
		return nil, err
	}
	o.ReadCloser = small{bytes.NewReader(text[:o.size])}
	return o, nil
}

// small is the content of a small object.
type small struct{ *bytes.Reader }

// Close does nothing.
func (small) Close() error { return nil }

// large is the content of a large object, which a process writes.
type large struct {
	batch  *batch
	left   int64
	closed bool
}

// Read reads the content.
func (l *large) Read(p []byte) (int, error) {
	if l.left == 0 {
		return 0, io.EOF
	}
	n, err := l.batch.out.Read(p[:min(int64(len(p)), l.left)])
	if l.left -= int64(n); errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Close ends the process.
func (l *large) Close() error {
	if !l.closed {
		l.closed = true
		l.batch.end()
	}
	return nil
}

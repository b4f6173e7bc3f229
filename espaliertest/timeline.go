package espaliertest

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"espalier.dev/analysis/timeline"
	"espalier.dev/server"
)

const (
	// maxTimeline is the size of the stored objects in a timeline, in bytes. Older changes are left
	// out.
	maxTimeline = 16 << 20
	// maxDiffLines is the maximum number of lines for the fields of a change in the text: the schema of
	// a CRD has thousands.
	maxDiffLines = 100
)

// WriteTimeline writes the changes since the server was ready into a directory: timeline.txt to read, and
// timeline.jsonl for `espalier timeline`. Further timelines in the directory have a number. It returns
// the path of the text. It is for servers of [Run] and of [Environment], when a test has failed: after
// [Start] there is no need to call it.
func (s *Server) WriteTimeline(dir string) (file string, err error) {
	h, err := s.history()
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		file, _, err = writeTimeline(dir, "", h, s.ready, maxTimeline)
	}
	if err != nil {
		return "", fmt.Errorf("write the timeline: %w", err)
	}
	return file + ".txt", nil
}

// writeTimeline writes the changes since the server was ready into the artifact directory of a test
// that has failed, and logs where they are. It reports problems only in the log, because the test has
// failed for another reason.
func (s *Server) writeTimeline(t testing.TB) {
	t.Helper()
	h, err := s.server.History()
	if err != nil {
		return // there is none in etcd
	}
	dir, err := artifactDir(t)
	if err != nil {
		t.Logf("cannot write the timeline of stored objects: %v: call Server.WriteTimeline with another directory", err)
		return
	}
	file, n, err := writeTimeline(dir, t.Name(), h, s.ready, maxTimeline)
	if err != nil {
		t.Logf("cannot write the timeline of stored objects: %v", err)
		return
	}
	advice := ""
	if f := flag.Lookup("test.artifacts"); f == nil || f.Value.String() != "true" {
		advice = "; the directory is removed after the test: run go test with -artifacts to keep it"
	}
	t.Logf("the timeline of stored objects has %d changes: %s.txt, or espalier timeline %[2]s.jsonl%s", n, file, advice)
}

// panics reports whether the calling function is a cleanup of a test that has panicked. Package testing
// runs them before it marks the test as failed.
func panics() bool {
	calls := make([]uintptr, 64)
	frames := runtime.CallersFrames(calls[:runtime.Callers(2, calls)])
	for {
		frame, more := frames.Next()
		if frame.Function == "runtime.gopanic" {
			return true
		}
		if !more {
			return false
		}
	}
}

// artifactDir returns the artifact directory of a test. A testing.TB that is not of package testing may
// embed one that is nil, and panic.
func artifactDir(t testing.TB) (dir string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the test has no artifact directory: %v", r)
		}
	}()
	if dir = t.ArtifactDir(); dir == "" {
		err = errors.New("the test has no artifact directory")
	}
	return dir, err
}

// writeTimeline writes the changes after a revision as JSON lines and as text, and returns the path of
// both without their extensions, and the number of changes. If the objects have more than some
// bytes, it leaves out the oldest changes. Once the file has so many, it leaves out what deleted objects
// were before.
func writeTimeline(dir, test string, h *server.History, after int64, bytes int) (file string, n int, err error) {
	lines, text, file, err := createTimeline(dir)
	if err != nil {
		return "", 0, err
	}
	defer func() { err = errors.Join(err, lines.Close(), text.Close()) }()
	header := timeline.Header{Test: test, Compacted: h.Begin() > after}
	header.After, header.Omitted = h.Newest(after, bytes)
	masker := timeline.NewMasker()
	lineBuffer, textBuffer := bufio.NewWriter(lines), bufio.NewWriter(text)
	counted := &countingWriter{w: lineBuffer}
	w, err := timeline.NewWriter(counted, header, masker)
	if err != nil {
		return "", 0, err
	}
	forPeople := timeline.NewText(textBuffer, timeline.TextOptions{MaxLines: maxDiffLines, Masker: masker})
	if err := forPeople.Header(header); err != nil {
		return "", 0, err
	}
	for c := range h.Changes(context.Background(), header.After) {
		n++
		if c.Action == timeline.Delete && counted.n > bytes {
			c.Before = nil
		}
		if err := errors.Join(w.Write(c), forPeople.Change(c)); err != nil {
			return "", 0, err
		}
	}
	return file, n, errors.Join(lineBuffer.Flush(), textBuffer.Flush())
}

// countingWriter counts the bytes that are written.
type countingWriter struct {
	w io.Writer
	n int
}

func (w *countingWriter) Write(b []byte) (int, error) {
	n, err := w.w.Write(b)
	w.n += n
	return n, err
}

// createTimeline creates the files of a timeline. A test may have several servers, so the names have
// a number.
func createTimeline(dir string) (lines, text io.WriteCloser, file string, err error) {
	for i := 1; ; i++ {
		file = filepath.Join(dir, "timeline")
		if i > 1 {
			file += fmt.Sprintf("-%d", i)
		}
		lines, err = os.OpenFile(file+".jsonl", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil {
			return nil, nil, "", err
		}
		if text, err = os.OpenFile(file+".txt", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600); err != nil {
			return nil, nil, "", errors.Join(err, lines.Close())
		}
		return lines, text, file, nil
	}
}

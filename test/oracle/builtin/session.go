package builtin

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// module returns the directory of the module, of which all packages share one recording.
var module = sync.OnceValue(func() string {
	dir, err := os.Getwd()
	if err != nil {
		panic(err) // a test runs in the directory of its package
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
})

// recording has the answers of the reference: those of earlier runs, or of this one if it is to
// be recorded.
var recording = sync.OnceValues(func() (*Recording, error) {
	if !Live() {
		return ReadRecording()
	}
	if Records() {
		return &Recording{}, nil
	}
	return nil, nil
})

// Records reports whether the answers of the reference are to be recorded.
func Records() bool { return os.Getenv("ORACLE36_RECORD") != "" }

// built is the directory of the reference, if Open has built it.
var built string

// program builds the reference once, unless its answers are recorded.
var program = sync.OnceValues(func() (_ string, err error) {
	if built, err = os.MkdirTemp("", "oracle36"); err != nil {
		return "", err
	}
	return Build(built)
})

// Open returns a process of the reference, or its recorded answers.
func Open(t testing.TB) *Reference {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	answers, err := recording()
	if err != nil {
		t.Fatal(err)
	}
	ref, err := Start(path, answers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ref.Close(); err != nil {
			t.Error(err)
		}
	})
	return ref
}

// Main runs the tests of a package that opens the reference, and records its answers if that is asked for.
func Main(m *testing.M) (code int) {
	code = m.Run()
	if built != "" {
		_ = os.RemoveAll(built)
	}
	if Records() && code == 0 {
		answers, err := recording()
		if err == nil {
			err = answers.Update(os.Getenv("ORACLE36_RECORD") == "all")
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "cannot record the answers of the reference:", err)
			code = 1
		}
	}
	return code
}

package builtin

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"espalier.dev/kinds"
)

// answersFile has the recorded answers, relative to the directory of the module.
const answersFile = "builtin/testdata/answers.gz"

// Recording holds answers of the reference by the hash of their request. It is safe for
// concurrent use.
//
// The reference is most of Kubernetes, which takes longer to build than all tests take to run. The
// tests therefore compare with recorded answers, unless ORACLE36 is set.
type Recording struct {
	mu      sync.Mutex
	answers map[string]string
}

func requestKey(request []byte) string {
	sum := sha256.Sum256(request)
	return hex.EncodeToString(sum[:12])
}

// ReadRecording reads the recorded answers.
func ReadRecording() (*Recording, error) {
	file, err := os.Open(filepath.Join(module(), answersFile))
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", answersFile, err)
	}
	r := &Recording{answers: map[string]string{}}
	in := bufio.NewReaderSize(unzipped, 1<<20)
	for {
		line, err := in.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return r, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", answersFile, err)
		}
		key, answer, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !ok {
			return nil, fmt.Errorf("%s: a line has no answer", answersFile)
		}
		r.answers[key] = answer
	}
}

// Update adds answers to the recorded ones, or replaces all of them.
func (r *Recording) Update(replace bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.answers) == 0 {
		return nil
	}
	all := maps.Clone(r.answers)
	if !replace {
		before, err := ReadRecording()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err == nil {
			for key, answer := range before.answers {
				if _, ok := all[key]; !ok {
					all[key] = answer
				}
			}
		}
	}
	keys := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		// Similar answers are compressed better if they are adjacent.
		return strings.Compare(all[a]+a, all[b]+b)
	})
	var out bytes.Buffer
	zip, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if _, err := fmt.Fprintf(zip, "%s %s\n", key, all[key]); err != nil {
			return err
		}
	}
	if err := zip.Close(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(module(), answersFile), out.Bytes(), 0o644)
}

// add records an answer. The last one to a request counts: the reference is asked until its answer
// equals ours, if it has several.
func (r *Recording) add(request, answer []byte) error {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(answer, &fields); err != nil {
		return err
	}
	delete(fields, "stack")
	text, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.answers == nil {
		r.answers = map[string]string{}
	}
	r.answers[requestKey(request)] = string(text)
	return nil
}

// ErrNotRecorded is returned for a request without a recorded answer.
var ErrNotRecorded = errors.New("the reference's answer to this request is not recorded: run `make golden-builtin`, or set ORACLE36=build to ask the reference")

func (r *Recording) answer(request []byte) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	answer, ok := r.answers[requestKey(request)]
	if !ok {
		return nil, ErrNotRecorded
	}
	return []byte(answer), nil
}

var timestamps = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)

// withoutClock replaces the times that come from the clock, which differ between both sides and
// between runs, with a fixed one.
func withoutClock(text []byte) []byte {
	return timestamps.ReplaceAllFunc(text, func(found []byte) []byte {
		at, err := time.Parse(time.RFC3339Nano, string(found))
		if err != nil || time.Since(at).Abs() > time.Hour {
			return found
		}
		return []byte(kinds.OfflineTime)
	})
}

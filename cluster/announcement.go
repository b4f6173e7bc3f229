package main

import (
	"strings"
	"sync"
)

// announcement reads what `espalier serve` prints when it is ready.
type announcement struct {
	// ready is closed when the fields below it are valid.
	ready chan struct{}
	url   string
	// quoted is the path of the kubeconfig, quoted for a shell, and kubeconfig the path itself.
	quoted, kubeconfig string

	mu    sync.Mutex
	text  strings.Builder // that is not handled yet
	after strings.Builder // lines after the commands
	found bool
}

func newAnnouncement() *announcement { return &announcement{ready: make(chan struct{})} }

// The lines of the announcement.
const (
	readyPrefix  = "The API server is ready at "
	readySuffix  = ". To use it:"
	exportPrefix = "  export KUBECONFIG="
)

// Write implements io.Writer.
func (a *announcement) Write(data []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.text.Write(data)
	for {
		line, rest, ok := strings.Cut(a.text.String(), "\n")
		if !ok {
			return len(data), nil
		}
		a.text.Reset()
		a.text.WriteString(rest)
		a.line(line)
	}
}

// line handles a line.
func (a *announcement) line(line string) {
	if quoted, ok := strings.CutPrefix(line, exportPrefix); ok && !a.found {
		a.found, a.quoted, a.kubeconfig = true, quoted, unquote(quoted)
		close(a.ready)
	} else if rest, ok := strings.CutPrefix(line, readyPrefix); ok && !a.found {
		a.url = strings.TrimSuffix(rest, readySuffix)
	} else if a.found && !strings.HasPrefix(line, "  ") {
		a.after.WriteString(line + "\n")
	}
}

// rest returns what the server has printed after the commands.
func (a *announcement) rest() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.after.String()
}

// unquote returns a word that the server has quoted for a shell: in single quotes, if at all.
func unquote(word string) string {
	inner, ok := strings.CutPrefix(word, "'")
	if !ok {
		return word
	}
	return strings.ReplaceAll(strings.TrimSuffix(inner, "'"), `'\''`, "'")
}

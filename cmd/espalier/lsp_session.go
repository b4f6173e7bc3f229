package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"espalier.dev/cmd/espalier/internal/config"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/lsp"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/cmd/espalier/internal/source"
)

// lspSession is a session of the language server: the workspaces of one client.
type lspSession struct {
	a       *app
	client  *lsp.Client
	flags   []flagValue
	buffers *input.Buffers
	builtin *builtinVersions
	// cluster has the CRDs of a cluster. It is nil if there is none.
	cluster *lspCluster
	// ctx is that of the session, and running counts the functions in the background.
	ctx     context.Context
	running sync.WaitGroup

	mu sync.Mutex
	// folders are those that are open in the editor, and loose the directories of other open files.
	folders []*workspace
	loose   map[string]*workspace
	// last has the findings about each document that were published last.
	last map[lsp.URI]*diagnosed
	// lenses are the titles of code lenses.
	lenses map[lensData]lensTitle
	// told is the last error of a workspace that the client was told, by folder.
	told map[string]string
	// looked is when the files were last compared with those in the file system, for clients that do
	// not watch files.
	looked time.Time
}

// diagnosed are the findings about a version of a document.
type diagnosed struct {
	text     *lsp.Text
	findings []report.Finding
}

// lookInterval is how often the file system is searched for changes if the client does not watch it.
const lookInterval = 2 * time.Second

// lspOptions are the options of a session.
type lspOptions struct {
	// flags are those of validate and lint that the command line sets.
	flags []flagValue
	// cluster is the one whose CRDs are used, or nil, and caches the directory in which they are kept.
	cluster *source.Cluster
	caches  string
}

func (a *app) newLSPSession(client *lsp.Client, o lspOptions) *lspSession {
	s := &lspSession{a: a, client: client, flags: o.flags, buffers: &input.Buffers{}, builtin: newBuiltinVersions(),
		loose: map[string]*workspace{}, last: map[lsp.URI]*diagnosed{}, lenses: map[lensData]lensTitle{}, told: map[string]string{}}
	s.cluster = s.newLSPCluster(o)
	return s
}

// Initialize opens the folders of the client.
func (s *lspSession) Initialize(ctx context.Context, params *lsp.InitializeParams) (*lsp.Features, error) {
	s.ctx = ctx
	for _, f := range params.Folders() {
		s.addFolder(f.URI)
	}
	if s.cluster != nil {
		s.background("CRDs of the cluster", s.cluster.run)
	}
	return &lsp.Features{
		Name: "espalier", Version: buildVersion().version,
		CompletionTriggers: []string{":", " ", "-", ".", "\"", "/"},
		CodeActionKinds:    []lsp.CodeActionKind{lsp.QuickFix},
		Watch:              []string{"**/*.{yaml,yml,json}", "**/.espalier*"},
	}, nil
}

// Initialized reads the folders before the first document needs it.
func (s *lspSession) Initialized(ctx context.Context) {
	for _, w := range s.workspaces() {
		if w.lock(ctx) != nil {
			return
		}
		s.tell(w, w.refresh(ctx))
		w.unlock()
	}
}

func (s *lspSession) addFolder(uri lsp.URI) {
	path, ok := uri.Path()
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.ContainsFunc(s.folders, func(w *workspace) bool { return w.root == path }) {
		s.folders = append(s.folders, s.newWorkspace(path, true))
	}
}

func (s *lspSession) newWorkspace(root string, recursive bool) *workspace {
	w := newWorkspace(filepath.Clean(root), recursive, s.buffers, s.cluster, func(ctx context.Context, w *workspace) (*checks, error) {
		return s.a.newChecks(ctx, w, s.flags)
	})
	w.charts = &workspaceCharts{start: s.background, changed: s.client.Diagnose,
		log: func(message string) { s.client.LogMessage(lsp.MessageWarning, message) }}
	return w
}

// workspaces returns all workspaces.
func (s *lspSession) workspaces() []*workspace {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.folders)
	for _, w := range s.loose {
		all = append(all, w)
	}
	return all
}

// of returns the workspace of a file: the closest folder that contains it, or its directory.
func (s *lspSession) of(path string) *workspace {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found *workspace
	for _, w := range s.folders {
		if w.contains(path) && (found == nil || len(w.root) > len(found.root)) {
			found = w
		}
	}
	if found != nil {
		return found
	}
	dir := filepath.Dir(path)
	if s.loose[dir] == nil {
		s.loose[dir] = s.newWorkspace(dir, false)
	}
	return s.loose[dir]
}

// Changed remembers what has changed.
func (s *lspSession) Changed(_ *lsp.Documents, change lsp.Change) {
	for _, text := range []*lsp.Text{change.Opened, change.Edited} {
		if text == nil {
			continue
		}
		if path, ok := text.URI().Path(); ok {
			s.buffers.Set(path, text.Bytes())
			if !isConfiguration(path) { // it is read when it is saved
				s.changed(path)
			}
		}
	}
	if change.Closed != "" {
		s.mu.Lock()
		delete(s.last, change.Closed)
		s.mu.Unlock()
		if path, ok := change.Closed.Path(); ok {
			s.buffers.Remove(path)
			if !isConfiguration(path) {
				s.changed(path)
			}
		}
	}
	if change.Saved != nil {
		if path, ok := change.Saved.URI().Path(); ok {
			s.changed(path)
		}
	}
	for _, e := range change.Files {
		if path, ok := e.URI.Path(); ok {
			s.changed(path)
		}
	}
	for _, f := range change.RemovedFolders {
		if path, ok := f.URI.Path(); ok {
			s.mu.Lock()
			s.folders = slices.DeleteFunc(s.folders, func(w *workspace) bool { return w.root == filepath.Clean(path) })
			s.mu.Unlock()
		}
	}
	for _, f := range change.AddedFolders {
		s.addFolder(f.URI)
	}
}

// changed marks a file as changed in all workspaces that may read it: configurations can name CRDs
// anywhere.
func (s *lspSession) changed(path string) {
	s.of(path)
	for _, w := range s.workspaces() {
		w.changed(path)
	}
}

// look marks the files that have changed in the file system, if the client does not tell.
func (s *lspSession) look(ctx context.Context) error {
	if s.client.Capabilities().Workspace.DidChangeWatchedFiles.DynamicRegistration {
		return nil
	}
	s.mu.Lock()
	due := time.Since(s.looked) >= lookInterval
	if due {
		s.looked = time.Now()
	}
	s.mu.Unlock()
	if !due {
		return nil
	}
	for _, w := range s.workspaces() {
		if err := w.look(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Diagnose publishes what validate and lint find in the open documents.
func (s *lspSession) Diagnose(ctx context.Context, docs *lsp.Documents, publish func(lsp.URI, []lsp.Diagnostic)) error {
	if err := s.look(ctx); err != nil {
		return err
	}
	byWorkspace := map[*workspace]map[string]*lsp.Text{}
	for _, text := range docs.All() {
		path, ok := text.URI().Path()
		if !ok {
			continue
		}
		w := s.of(path)
		if byWorkspace[w] == nil {
			byWorkspace[w] = map[string]*lsp.Text{}
		}
		byWorkspace[w][path] = text
	}
	var failed error
	for w, texts := range byWorkspace {
		paths := make([]string, 0, len(texts))
		for path := range texts {
			paths = append(paths, path)
		}
		slices.Sort(paths)
		found, err := w.findings(ctx, paths)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.tell(w, err)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		places := &placer{client: s.client, docs: docs, texts: map[string]*lsp.Text{}}
		for _, path := range paths {
			text := texts[path]
			if now, ok := s.buffers.Text(path); !ok || !bytes.Equal(now, text.Bytes()) {
				continue // it has changed meanwhile, and the next run follows
			}
			s.mu.Lock()
			s.last[text.URI()] = &diagnosed{text, found[path].reported}
			s.mu.Unlock()
			publish(text.URI(), places.diagnostics(text, found[path]))
		}
	}
	return failed // the diagnostics stay
}

// tell tells the client why a workspace cannot be checked, once.
func (s *lspSession) tell(w *workspace, err error) {
	message := ""
	if err != nil && !errors.Is(err, context.Canceled) {
		message = err.Error()
	}
	s.mu.Lock()
	before := s.told[w.root]
	s.told[w.root] = message
	s.mu.Unlock()
	if message == "" || message == before {
		return
	}
	if bad := (*config.Error)(nil); errors.As(err, &bad) {
		message = bad.Error()
	}
	s.client.ShowMessage(lsp.MessageError, fmt.Sprintf("espalier cannot check %s: %s", w.root, message))
}

// Close waits for what runs in the background, whose context has ended.
func (s *lspSession) Close() {
	done := make(chan struct{})
	go func() {
		s.running.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(closeTime): // a program that gets credentials may hang
	}
}

// closeTime is how long the end of a session waits for what runs in the background.
const closeTime = 5 * time.Second

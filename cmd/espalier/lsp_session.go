package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
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
	// interval is how often files are searched for changes.
	interval time.Duration
	a        *app
	client   *lsp.Client
	flags    []flagValue
	buffers  *input.Buffers
	builtin  *builtinVersions
	// cluster has the CRDs of a cluster. It is nil if there is none.
	cluster *lspCluster
	// ctx is that of the session, and running counts the functions in the background. None starts after
	// closed is set. starting guards that.
	ctx      context.Context
	running  sync.WaitGroup
	starting sync.Mutex
	closed   bool

	mu sync.Mutex
	// folders are those that are open in the editor, and loose the directories of other open files.
	folders []*workspace
	loose   map[string]*workspace
	// untitled is the workspace of documents that are no files, if no folder is open.
	untitled *workspace
	// last has the findings about each document that were published last.
	last map[lsp.URI]*diagnosed
	// lenses are the titles of code lenses.
	lenses map[lensData]lensTitle
	// told is the last error of a workspace that the client was told, by folder.
	told map[string]string
	// looked is when the files were last compared with those in the file system, for clients that do
	// not watch files, and looking is set while they are.
	looked  time.Time
	looking bool
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
	// look is the interval at which files are searched for changes. Zero stands for lookInterval.
	look time.Duration
}

func (a *app) newLSPSession(client *lsp.Client, o lspOptions) *lspSession {
	s := &lspSession{a: a, client: client, flags: o.flags, interval: cmp.Or(o.look, lookInterval), buffers: &input.Buffers{}, builtin: newBuiltinVersions(),
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
		Watch:              []string{"**/*.{yaml,yml,json,tpl}", "**/.espalier*", "**/[Kk]ustomization"},
		// A directory that is deleted or renamed has no other events.
		WatchDeleted: []string{"**/*"},
	}, nil
}

// Initialized reads the folders before the first document needs it.
func (s *lspSession) Initialized(ctx context.Context) {
	for _, w := range s.workspaces() {
		if w.lock(ctx) != nil {
			return
		}
		s.tell(w, cmp.Or(w.refresh(ctx), w.trouble()))
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
		if w.bare {
			return s.a.newChecks(ctx, w, append(slices.Clip(s.flags), flagValue{"no-config", "true"}))
		}
		k, err := s.a.newChecks(ctx, w, s.flags)
		if err != nil && ctx.Err() == nil {
			// Completion and most checks need no configuration.
			k, _ = s.a.newChecks(ctx, w, append(slices.Clip(s.flags), flagValue{"no-config", "true"}))
		}
		return k, err
	})
	w.interval = s.interval
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
	if s.untitled != nil {
		all = append(all, s.untitled)
	}
	return all
}

// folderOf returns the closest folder that contains a file, or nil. The caller holds mu.
func (s *lspSession) folderOf(path string) (found *workspace) {
	for _, w := range s.folders {
		if w.contains(path) && (found == nil || len(w.root) > len(found.root)) {
			found = w
		}
	}
	return found
}

// of returns the workspace of an open file: the closest folder that contains it, or its directory. The
// path of a document that is no file is empty: its workspace is the first folder, or has no files.
func (s *lspSession) of(path string) *workspace {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch found := s.folderOf(path); {
	case path == "" && len(s.folders) > 0:
		return s.folders[0]
	case path == "":
		if s.untitled == nil {
			s.untitled = s.newWorkspace(os.TempDir(), false)
			s.untitled.bare = true
		}
		return s.untitled
	case found != nil:
		return found
	}
	dir := filepath.Dir(path)
	if s.loose[dir] == nil {
		s.loose[dir] = s.newWorkspace(dir, false)
	}
	return s.loose[dir]
}

// forget drops the directories in which no file is open that is in no folder.
func (s *lspSession) forget(docs *lsp.Documents) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.loose) == 0 {
		return
	}
	used := map[string]bool{}
	for _, text := range docs.All() {
		if path, ok := text.URI().Path(); ok && s.folderOf(path) == nil {
			used[filepath.Dir(path)] = true
		}
	}
	for dir, w := range s.loose {
		if !used[dir] {
			s.drop(w)
			delete(s.loose, dir)
		}
	}
}

// drop releases a workspace. The caller holds mu.
func (s *lspSession) drop(w *workspace) {
	delete(s.told, w.root)
	s.background("closing "+w.root, w.close)
}

// Changed remembers what has changed.
func (s *lspSession) Changed(docs *lsp.Documents, change lsp.Change) {
	defer s.forget(docs)
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
		if path, ok := e.URI.Path(); ok && s.matters(path) {
			s.changed(path)
		}
	}
	for _, f := range change.RemovedFolders {
		if path, ok := f.URI.Path(); ok {
			s.mu.Lock()
			s.folders = slices.DeleteFunc(s.folders, func(w *workspace) bool {
				removed := w.root == filepath.Clean(path)
				if removed {
					s.drop(w)
				}
				return removed
			})
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
	for _, w := range s.workspaces() {
		w.changed(path)
	}
}

// matters reports whether a file or directory can be part of a workspace.
func (s *lspSession) matters(path string) bool {
	return isWorkspaceFile(path) || slices.ContainsFunc(s.workspaces(), func(w *workspace) bool { return w.hasBelow(path) })
}

// look searches for files that have changed in the file system, if the client does not tell. It does
// so in the background: large folders take a while.
func (s *lspSession) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client.Capabilities().Workspace.DidChangeWatchedFiles.DynamicRegistration || s.looking || time.Since(s.looked) < s.interval {
		return
	}
	s.looking = true
	s.background("looking for changed files", func(ctx context.Context) {
		found := false
		for _, w := range s.workspaces() {
			found = w.look(ctx) || found
		}
		s.mu.Lock()
		s.looking, s.looked = false, time.Now()
		s.mu.Unlock()
		if found {
			s.client.Diagnose()
		}
	})
}

// Diagnose publishes what validate and lint find in the open documents.
func (s *lspSession) Diagnose(ctx context.Context, docs *lsp.Documents, publish func(lsp.URI, []lsp.Diagnostic)) error {
	s.look()
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
		if err == nil && w.hasUnread() { // they have changed meanwhile
			found, err = w.findings(ctx, paths)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.tell(w, cmp.Or(err, w.trouble()))
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		places := &placer{dir: s.a.dir, client: s.client, docs: docs, texts: map[string]*lsp.Text{}}
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
	what := "espalier cannot check " + w.root
	if w.trouble() != nil {
		what = "the configuration of " + w.root + " is not used"
	}
	s.client.ShowMessage(lsp.MessageError, fmt.Sprintf("%s: %s", what, message))
}

// Close waits for what runs in the background, whose context has ended.
func (s *lspSession) Close() {
	s.starting.Lock()
	s.closed = true
	s.starting.Unlock()
	done := make(chan struct{})
	go func() {
		s.running.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(closeTime): // a program that gets credentials may hang
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, w := range s.workspaces() {
		w.close(ctx)
	}
}

// closeTime is how long the end of a session waits for what runs in the background.
const closeTime = 5 * time.Second

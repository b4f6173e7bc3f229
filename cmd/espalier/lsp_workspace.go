package main

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"espalier.dev/analysis/lint"
	"espalier.dev/cmd/espalier/internal/helm"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/workdir"
	"espalier.dev/schema"
)

// workspace is a folder that is open in an editor. It knows which objects its files have, and finds
// in the files what validate and lint find in the folder. A file that is open counts as it is in the
// editor.
//
// Its memory grows with the number of objects, not with the size of files: of an object it keeps the
// identity and the position. Texts are those of open documents; a CRD is compiled when an object needs
// it, and read again from its file. Results are kept for open documents only, rendered charts for open
// templates, up to maxRenderedBytes each.
//
// A workspace starts no goroutine that outlives a call. Its methods are safe for concurrent use: one
// runs at a time, and others wait until it ends or its context does.
type workspace struct {
	root string
	// recursive is false if only the files of the folder itself belong to the workspace.
	recursive bool
	buffers   *input.Buffers
	// bare is set if no files belong to the workspace.
	bare bool
	// newChecks reads the configuration. If that fails, it may return those without it, and the error.
	newChecks func(ctx context.Context, w *workspace) (*checks, error)

	// interval is how often files are searched for changes.
	interval time.Duration

	// running is held by the method that runs.
	running chan struct{}
	// viewed is what requests see. It is nil before the first scan.
	viewed atomic.Pointer[workspaceView]

	// marks guards what other goroutines say about files: stale has those that have changed, reset is
	// set if everything is to be read again, and seen has the files that look has found.
	marks sync.Mutex
	stale map[string]bool
	reset bool
	seen  map[string]fileState
	// excluded reports whether a file or directory is excluded. It is nil before the first scan.
	excluded func(path string, isDir bool) bool
	// invalid is why the configuration is not in use, or nil.
	invalid error

	// checks has the configuration. It is nil before the first scan.
	checks *checks
	files  map[string]*workspaceFile
	// links has the files that are links.
	links fileLinks
	// results are those of the last diagnosis, for files that are open.
	results map[string]*fileResults
	// policies are the findings about policies. They are nil before they are needed.
	policies *policyResults
	// versions is the number of the file that was read last.
	versions int
	// order has the files in the order in which commands read them.
	order []string
	// known are the CRDs that were read, so that one that has not changed is compiled once.
	known map[definitionPlace]*workspaceDefinition
	// definitions are the CRDs of --crd, of the files and of the cluster, and generation counts how
	// often they have changed.
	definitions *definitions
	generation  int
	// indexed are the CRDs of the files in definitions, and given the state of the files of --crd that
	// are not in the workspace when they were read.
	indexed []*workspaceDefinition
	given   givenFiles
	// settings are the configuration and the baselines.
	settings settingFiles
	// cluster has the CRDs of a cluster, and served are those in definitions. Both may be nil.
	cluster *lspCluster
	served  *servedCRDs
	// charts renders charts, and rendered are the results that are in use. Both may be nil.
	charts   *workspaceCharts
	rendered *renderedCharts
	// renderings counts how often rendered has changed.
	renderings int
	// ofCharts are the CRDs of rendered, and indexedCharts those in definitions.
	ofCharts      map[*input.Item]*workspaceDefinition
	indexedCharts []*workspaceDefinition
}

// definitionPlace identifies the text of a CRD in a file.
type definitionPlace struct {
	file   string
	line   int
	offset int64
	base   string
	sum    input.Sum
}

// workspaceDefinition is a CRD of a workspace.
type workspaceDefinition struct {
	*definition
	// names returns the names that it claims.
	names func() *lint.Names
	// round is the last scan that has found it.
	round int
}

// workspaceFile is a file of a workspace.
type workspaceFile struct {
	path string
	// objects are its objects, without their texts.
	objects []workspaceObject
	// version is different each time that it is read.
	version int
}

// workspaceObject is an object of a file.
type workspaceObject struct {
	// item has no text.
	item *input.Item
	at   objectPlace
	// crd is the object if it is a CRD, and policy is set if it is an admission policy or the like.
	crd    *workspaceDefinition
	policy bool
}

// newWorkspace returns a workspace. Nothing is read before it is needed.
func newWorkspace(root string, recursive bool, buffers *input.Buffers, cluster *lspCluster,
	newChecks func(context.Context, *workspace) (*checks, error)) *workspace {
	return &workspace{root: root, recursive: recursive, buffers: buffers, cluster: cluster, newChecks: newChecks, interval: lookInterval,
		running: make(chan struct{}, 1), stale: map[string]bool{}, reset: true, results: map[string]*fileResults{}}
}

// contains reports whether a file is one of the workspace, as far as its path tells.
func (w *workspace) contains(path string) bool {
	if w.bare {
		return false
	}
	if !w.recursive {
		return filepath.Dir(path) == w.root
	}
	below, err := filepath.Rel(w.root, path)
	return err == nil && filepath.IsLocal(below)
}

// changed marks a file or directory as changed, created or deleted.
func (w *workspace) changed(path string) {
	w.marks.Lock()
	w.stale[path] = true
	if filepath.Base(path) == helm.ChartFile {
		w.stale[filepath.Join(filepath.Dir(path), "templates")] = true // they may be templates now, or not anymore
	}
	w.marks.Unlock()
	w.charts.touch(path)
}

// lock waits until no other method runs.
func (w *workspace) lock(ctx context.Context) error {
	select {
	case w.running <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *workspace) unlock() { <-w.running }

// refresh reads what has changed. If it fails, it reads the same again the next time.
func (w *workspace) refresh(ctx context.Context) (err error) {
	w.marks.Lock()
	stale, reset := w.stale, w.reset
	w.stale, w.reset = map[string]bool{}, false
	w.marks.Unlock()
	changed := false
	defer func() {
		if err == nil {
			if reset || changed || len(stale) > 0 {
				w.publish()
			}
			return
		}
		w.marks.Lock()
		defer w.marks.Unlock()
		w.reset = w.reset || reset
		for path := range stale {
			w.stale[path] = true
		}
	}()
	for path := range stale {
		if isWorkspaceSetting(path) {
			reset = true
		}
	}
	if reset = reset || w.settings.changed(w) || len(stale) > maxRescan; reset {
		if err := w.configure(ctx); err != nil {
			return err
		}
		w.known, w.files, w.order, w.definitions = map[definitionPlace]*workspaceDefinition{}, map[string]*workspaceFile{}, nil, nil
		w.links = fileLinks{}
		if err := w.scan(ctx, nil); err != nil {
			return err
		}
		return w.index(ctx)
	}
	rendered := w.useRendered()
	changed = w.unreadable(stale)
	changed = w.given.changed(w) || changed || w.served != w.cluster.crds()
	// What was indexed last counts: it may have failed since these CRDs were rendered.
	changed = changed || !slices.Equal(w.indexedCharts, w.renderedCRDs())
	if len(stale) == 0 && !changed && !rendered {
		return nil
	}
	w.checks.renew()
	if err := w.rescan(ctx, stale); err != nil {
		return err
	}
	for _, path := range w.checks.validating.crds.Paths {
		path = absolute(w.checks.validator.dir, path)
		changed = changed || slices.ContainsFunc(slices.Collect(maps.Keys(stale)), func(file string) bool { return isBelow(file, path) })
	}
	// What was indexed last counts, not what was read before: the last index may have failed.
	if changed || w.definitions == nil || !slices.Equal(w.indexed, w.crds()) {
		return w.index(ctx)
	}
	return nil
}

// configure reads the configuration. If it is wrong, the last one that was not is used, or none.
func (w *workspace) configure(ctx context.Context) error {
	k, err := w.newChecks(ctx, w)
	if k == nil {
		return err
	}
	if err != nil && w.checks != nil {
		k.close()
		k = w.checks
	} else {
		w.checks.close()
		w.checks = k
	}
	excluded, bad := k.validating.objects.Exclusions(w.root)
	if bad != nil {
		return bad
	}
	w.marks.Lock()
	w.invalid, w.excluded = err, excluded
	w.marks.Unlock()
	w.settings.read(w)
	return nil
}

// trouble returns why the configuration is not in use, or nil.
func (w *workspace) trouble() error {
	w.marks.Lock()
	defer w.marks.Unlock()
	return w.invalid
}

// close ends what the workspace has started. It waits for methods that run, which have a context that
// has ended.
func (w *workspace) close(ctx context.Context) {
	if w.lock(ctx) == nil {
		defer w.unlock()
		w.checks.close()
		w.marks.Lock()
		defer w.marks.Unlock()
		w.reset = true // a request that still has it reads it again
	}
}

// hasUnread reports whether a CRD that requests see could not be read again.
func (w *workspace) hasUnread() bool {
	view := w.viewed.Load()
	return view != nil && slices.ContainsFunc(view.files, func(f *workspaceFile) bool {
		return slices.ContainsFunc(f.objects, func(o workspaceObject) bool { return o.crd != nil && o.crd.unread.Load() })
	})
}

// unreadable marks the files of CRDs that could not be read again: they have changed without a
// notification. It reports whether those of --crd are among them.
func (w *workspace) unreadable(stale map[string]bool) (given bool) {
	for _, d := range w.indexed {
		if d.unread.Load() {
			stale[d.file] = true
		}
	}
	return w.definitions != nil && slices.ContainsFunc(w.definitions.All(), func(d *definition) bool { return d.unread.Load() })
}

// maxRescan is the number of changed files above which everything is read again.
const maxRescan = 500

// publish lets requests see what was read.
func (w *workspace) publish() {
	view := &workspaceView{definitions: w.definitions, served: w.served, semantics: w.checks.validator.semantics.Semantics}
	for _, path := range w.order {
		view.files = append(view.files, w.files[path])
	}
	w.viewed.Store(view)
}

// isWorkspaceSetting reports whether a change of a file can affect the findings about other files
// than by its objects: configurations, and kustomizations, which decide which files are patches.
func isWorkspaceSetting(path string) bool {
	name := filepath.Base(path)
	return isConfiguration(path) || strings.EqualFold(strings.TrimSuffix(name, filepath.Ext(name)), "kustomization")
}

// isConfiguration reports whether a file is one of the program, which is read as it is on disk.
func isConfiguration(path string) bool { return strings.HasPrefix(filepath.Base(path), ".espalier") }

// absolute returns the absolute path, or the path itself if there is none.
func absolute(dir workdir.Dir, path string) string {
	if abs, err := dir.Abs(path); err == nil {
		return abs
	}
	return path
}

// rescan reads files, and the files of directories, again.
func (w *workspace) rescan(ctx context.Context, stale map[string]bool) error {
	hidden := w.links.mark(stale, w.isOpen)
	// above has the directories that lead to them.
	above := map[string]bool{}
	for path := range stale {
		for dir := filepath.Dir(path); !above[dir]; dir = filepath.Dir(dir) {
			above[dir] = true
		}
	}
	isStale := func(path string) bool {
		for {
			if stale[path] {
				return true
			}
			dir := filepath.Dir(path)
			if dir == path {
				return false
			}
			path = dir
		}
	}
	for file := range w.files {
		if isStale(file) {
			delete(w.files, file)
		}
	}
	for path := range w.results {
		if isStale(filepath.Dir(path)) {
			delete(w.results, path) // what it is depends on more than its text
		}
	}
	return w.scan(ctx, func(path string) bool { return hidden[path] || !above[path] && !isStale(path) })
}

// scan reads the files of the workspace, except unchanged ones.
func (w *workspace) scan(ctx context.Context, unchanged func(path string) bool) error {
	if w.bare {
		return nil
	}
	flags := w.checks.validating.objects
	flags.Skipped, flags.Unchanged = nil, unchanged
	type found struct {
		file    string
		objects []workspaceObject
	}
	links := newLinkFinder(w.root)
	work := func(d *input.Document) found {
		items, _ := d.Items() // its problem is reported when the file is checked
		return found{d.File, w.summarize(items)}
	}
	err := input.Parallel(ctx, nil, flags, work, func(f found) error {
		file := w.files[f.file]
		if file == nil {
			w.versions++
			file = &workspaceFile{path: f.file, version: w.versions}
			w.files[f.file] = file
			if target := links.target(f.file); target != f.file {
				w.links[f.file] = target
			}
		}
		for i := range f.objects {
			if o := &f.objects[i]; o.crd != nil {
				o.crd = w.remember(o.crd, o.at)
			}
		}
		file.objects = append(file.objects, f.objects...)
		return nil
	}, func(input.Problem) {})
	if err != nil {
		return err
	}
	w.dropLinked()
	w.order = w.order[:0]
	for file := range w.files {
		w.order = append(w.order, file)
	}
	slices.SortFunc(w.order, compareFiles)
	return nil
}

// compareFiles compares two files as commands read them: directories and files by name.
func compareFiles(a, b string) int {
	separator := string(filepath.Separator)
	return slices.Compare(strings.Split(a, separator), strings.Split(b, separator))
}

// summarize returns what a workspace keeps of objects.
func (w *workspace) summarize(items []*input.Item) (all []workspaceObject) {
	for _, it := range items {
		o := workspaceObject{item: it.WithoutText(), at: placeOf(it)}
		switch {
		case isDefinition(it):
			o.crd = newWorkspaceDefinition(it, w.checks.validator.semantics.Semantics)
		case lint.IsPolicy(it.TypeMeta()):
			o.policy = true
		}
		all = append(all, o)
	}
	return all
}

func newWorkspaceDefinition(it *input.Item, sem schema.Semantics) *workspaceDefinition {
	d := &workspaceDefinition{definition: newIndexEntry(it, sem)}
	d.served() // while its text is in memory
	d.names = sync.OnceValue(func() *lint.Names { return lint.NamesOf(d.item().JSON, sem) })
	return d
}

// remember returns the CRD that was read before, if it has not changed.
func (w *workspace) remember(d *workspaceDefinition, at objectPlace) *workspaceDefinition {
	place := definitionPlace{file: at.file, line: at.line, base: at.base, sum: d.sum, offset: d.offset()}
	if known := w.known[place]; known != nil && !known.unread.Load() && known.semantics == d.semantics {
		d = known
	}
	d.round = w.generation
	w.known[place] = d
	return d
}

// forget drops the CRDs that no file has anymore.
func (w *workspace) forget() {
	in := map[*workspaceDefinition]bool{}
	for _, d := range w.crds() {
		in[d] = true
	}
	for place, d := range w.known {
		if !in[d] && d.round != w.generation {
			delete(w.known, place)
		}
	}
}

// crds returns the CRDs of all files, in their order.
func (w *workspace) crds() (all []*workspaceDefinition) {
	for _, path := range w.order {
		for _, o := range w.files[path].objects {
			if o.crd != nil {
				all = append(all, o.crd)
			}
		}
	}
	return all
}

// index makes the definitions in which objects are looked up, as validate does.
func (w *workspace) index(ctx context.Context) error {
	v, o := w.checks.validator, w.checks.validating
	w.generation++
	w.given.read(w)
	given := v.noDefinitions()
	if len(o.crds.Paths) > 0 {
		add := func(it *input.Item, sem schema.Semantics) *definition {
			d := newWorkspaceDefinition(it, sem)
			w.checks.adding.Lock()
			defer w.checks.adding.Unlock()
			return w.remember(d, placeOf(it)).definition
		}
		var err error
		// Problems are reported when the files are checked.
		if given, err = v.indexDefinitions(ctx, o.crds, add, func(input.Problem) {}); err != nil {
			return err
		}
	}
	var found []*definition
	kinds := map[any]bool{}
	for _, d := range w.crds() {
		found = append(found, d.definition)
		kinds[d.kind] = true
	}
	ofCharts := w.renderedCRDs()
	for _, d := range ofCharts {
		if !kinds[d.kind] {
			found = append(found, d.definition)
		}
	}
	w.served = w.cluster.crds()
	others := w.served.of(v.semantics.Semantics)
	given.Extend(func() ([]*definition, error) {
		others := slices.DeleteFunc(slices.Clone(others), func(d *definition) bool { return kinds[d.kind] })
		return append(slices.Clip(found), others...), nil
	})
	w.definitions, w.indexed, w.indexedCharts = given, w.crds(), ofCharts
	w.forget()
	return nil
}

// offset returns the offset of the document of the CRD in its file.
func (d *definition) offset() int64 {
	if d.kept != nil && d.kept.Doc != nil {
		return d.kept.Doc.Offset()
	}
	return d.place.Offset()
}

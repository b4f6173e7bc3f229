package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"espalier.dev/analysis/lint"
	"espalier.dev/cmd/espalier/internal/helm"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/lsp"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/cmd/espalier/internal/workdir"
)

const (
	// renderPause is the time without changes after which a chart is rendered.
	renderPause = 400 * time.Millisecond
	// maxRenderTime and maxRenderedBytes limit one rendering.
	maxRenderTime    = 30 * time.Second
	maxRenderedBytes = 32 << 20
)

// workspaceCharts renders the charts of a workspace whose templates are open, in the background: after
// a pause, one rendering of a chart at a time, with the templates as they are in the editor. Its
// methods are safe for concurrent use.
type workspaceCharts struct {
	// start runs a function in the background, until the session ends.
	start func(what string, run func(context.Context))
	// changed is called when other results are known, and log tells why a chart is not rendered.
	changed func()
	log     func(message string)

	mu    sync.Mutex
	byDir map[string]*workspaceChart
	known atomic.Pointer[renderedCharts]
}

// chartFlags returns the flags that render a chart, and the open files that they read.
type chartFlags func(context.Context) (input.Flags, *input.Buffers)

// chartInput is what a chart is rendered from.
type chartInput struct {
	flags chartFlags
	// outside are the files and directories that are not in its directory.
	outside []string
}

// outsideOf returns the files with values and the local dependencies of a chart.
func outsideOf(current workdir.Dir, dir string, values []string, buffers *input.Buffers) (all []string) {
	for _, file := range values {
		all = append(all, absolute(current, file))
	}
	for _, name := range []string{helm.ChartFile, helm.RequirementsFile} {
		file := filepath.Join(dir, name)
		text, open := buffers.Text(file)
		if !open {
			text, _ = os.ReadFile(file) // rendering reports it
		}
		chart, err := helm.Parse(text)
		if err != nil {
			continue
		}
		for _, d := range chart.Dependencies {
			if local := d.Local(); local != "" {
				all = append(all, filepath.Join(dir, filepath.FromSlash(local)))
			}
		}
	}
	return all
}

// workspaceChart is a chart with an open template.
type workspaceChart struct {
	dir string
	// chartInput follows from settings: with other settings it is rendered again.
	chartInput
	settings *checks
	// touched is the time of the last change, and version counts changes.
	touched time.Time
	version int
	running bool
	result  *renderedChart
}

// renderedChart is what helm renders of a chart.
type renderedChart struct {
	// documents are those of each template, and items the CRDs among them.
	documents map[string][]*input.Document
	crds      []*input.Item
	// buffers are the open files that it was rendered from.
	buffers *input.Buffers
	// problem is why it cannot be rendered, or nil.
	problem *input.Problem
}

// renderedCharts are the results of all charts at one moment. They never change.
type renderedCharts struct{ charts []*renderedChart }

// results returns what is known, or nil.
func (c *workspaceCharts) results() *renderedCharts {
	if c == nil {
		return nil
	}
	return c.known.Load()
}

// of returns the chart whose rendering has a template, or nil.
func (r *renderedCharts) of(template string) *renderedChart {
	if r == nil {
		return nil
	}
	for _, chart := range r.charts {
		if _, rendered := chart.documents[template]; rendered || chart.problem != nil && chart.problem.File == template {
			return chart
		}
	}
	return nil
}

// isCurrent reports whether a template was rendered as it is in buffers. The lines of another text mean
// nothing in it.
func (r *renderedChart) isCurrent(template string, buffers *input.Buffers) bool {
	then, wasOpen := r.buffers.Text(template)
	now, isOpen := buffers.Text(template)
	return wasOpen == isOpen && bytes.Equal(then, now)
}

// chartOf returns the chart of a template, which is the closest directory that has a chart and this
// file below templates, or "".
func chartOf(path string, buffers *input.Buffers) string {
	for dir := filepath.Dir(path); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if filepath.Base(dir) != "templates" {
			continue
		}
		file := filepath.Join(filepath.Dir(dir), helm.ChartFile)
		if _, open := buffers.Text(file); open {
			return filepath.Dir(dir)
		}
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			return filepath.Dir(dir)
		}
	}
	return ""
}

// renderCharts renders the charts of open templates, if there is a helm program.
func (w *workspace) renderCharts(paths []string) {
	if w.charts == nil {
		return
	}
	renderer := w.checks.charts
	wanted := map[string]chartInput{}
	for _, path := range paths {
		text, open := w.buffers.Text(path)
		if renderer == nil || !open || !bytes.Contains(text, []byte("{{")) {
			continue
		}
		dir := chartOf(path, w.buffers)
		if _, found := wanted[dir]; dir == "" || found {
			continue
		}
		if _, err := exec.LookPath("helm"); err != nil {
			break
		}
		flags, buffers, current := w.checks.validating.objects.With(dir), w.buffers, w.checks.validator.dir
		wanted[dir] = chartInput{outside: outsideOf(current, dir, renderer.Values, buffers), flags: func(ctx context.Context) (input.Flags, *input.Buffers) {
			flags.Recursive, flags.Unchanged, flags.Build = false, nil, nil
			flags.Helm, flags.HelmNamed = renderer.Again(maxRenderedBytes), true
			at := buffers.Snapshot()
			flags.Git = input.NewRepositories(ctx, current).WithBuffers(at)
			return flags, at
		}}
	}
	w.charts.keep(wanted, w.checks)
}

// keep renders charts that are not rendered yet with these settings, and forgets others.
func (c *workspaceCharts) keep(wanted map[string]chartInput, settings *checks) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for dir := range c.byDir {
		if _, found := wanted[dir]; !found {
			delete(c.byDir, dir)
			c.publish()
		}
	}
	for dir, from := range wanted {
		if chart := c.byDir[dir]; chart != nil {
			chart.chartInput = from
			if chart.settings != settings {
				chart.settings = settings
				c.change(chart)
			}
			continue
		}
		if c.byDir == nil {
			c.byDir = map[string]*workspaceChart{}
		}
		c.byDir[dir] = &workspaceChart{dir: dir, chartInput: from, settings: settings}
		c.render(c.byDir[dir])
	}
}

// touch renders the charts that a file belongs to again.
func (c *workspaceCharts) touch(path string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for dir, chart := range c.byDir {
		in := func(input string) bool { return isBelow(path, input) || isBelow(input, path) }
		if in(dir) || slices.ContainsFunc(chart.outside, in) {
			c.change(chart)
		}
	}
}

// change renders a chart again after a pause. The caller holds mu.
func (c *workspaceCharts) change(chart *workspaceChart) {
	chart.version++
	chart.touched = time.Now()
	c.render(chart)
}

// render starts to render a chart, unless that is running. The caller holds mu.
func (c *workspaceCharts) render(chart *workspaceChart) {
	if chart.running {
		return
	}
	chart.running = true
	c.start("rendering "+chart.dir, func(ctx context.Context) {
		ended := false
		defer func() {
			if ended {
				return // another one may be running
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			chart.running = false // after a panic
		}()
		for c.renderOnce(ctx, chart) {
		}
		ended = true
	})
}

// renderOnce renders a chart after a pause, and reports whether it has changed meanwhile.
func (c *workspaceCharts) renderOnce(ctx context.Context, chart *workspaceChart) bool {
	c.mu.Lock()
	wait := time.Until(chart.touched.Add(renderPause))
	version, flags := chart.version, chart.flags
	dropped := c.byDir[chart.dir] != chart
	c.mu.Unlock()
	if dropped || ctx.Err() != nil {
		return false
	}
	if wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		return true
	}
	result := renderChart(ctx, flags)
	if ctx.Err() != nil {
		return false
	}
	// Only this function sets chart.result, for one rendering at a time. The client may be slow to read
	// a message, and touch must not wait for it.
	if p := result.problem; p != nil && (chart.result == nil || chart.result.problem == nil || chart.result.problem.Message != p.Message) {
		c.log(fmt.Sprintf("%s: %s: its templates are not checked", chart.dir, p.Message))
	}
	result.reuse(chart.result)
	c.mu.Lock()
	defer c.mu.Unlock()
	chart.result = result
	if c.byDir[chart.dir] == chart {
		c.publish()
	}
	// A change from now on starts another one.
	chart.running = chart.version != version
	return chart.running
}

// publish lets the workspace see the results. The caller holds mu.
func (c *workspaceCharts) publish() {
	now := &renderedCharts{}
	for _, dir := range slices.Sorted(maps.Keys(c.byDir)) {
		if chart := c.byDir[dir]; chart.result != nil {
			now.charts = append(now.charts, chart.result)
		}
	}
	c.known.Store(now)
	c.changed()
}

// renderChart renders the chart that the flags name.
func renderChart(ctx context.Context, of chartFlags) *renderedChart {
	ctx, cancel := context.WithTimeout(ctx, maxRenderTime)
	defer cancel()
	flags, buffers := of(ctx)
	defer func() { _ = flags.Git.Close() }() // it has read files only
	result := &renderedChart{documents: map[string][]*input.Document{}, buffers: buffers}
	fail := func(p input.Problem) {
		if p.Rule == input.Unrendered && result.problem == nil {
			result.problem = &p
		}
	}
	err := input.Documents(ctx, emptyInput{}, flags, func(d *input.Document) error {
		if !d.Rendered() {
			return nil // it is read as a file
		}
		result.documents[d.File] = append(result.documents[d.File], d)
		items, _ := d.Items() // its problem is reported when it is validated
		for _, it := range items {
			if isDefinition(it) {
				result.crds = append(result.crds, it)
			}
		}
		return nil
	}, fail)
	for path := range result.documents {
		// A template without actions is read as a file, which has exact positions.
		if text, err := flags.Git.ReadFile(path); err != nil || !bytes.Contains(text, []byte("{{")) {
			delete(result.documents, path)
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("helm did not end within %v", maxRenderTime)
	}
	if err != nil {
		fail(input.Problem{Rule: input.Unrendered, Message: "cannot render the chart: " + err.Error()})
	}
	return result
}

// useRendered uses what was rendered since the last time, and reports whether there is any.
func (w *workspace) useRendered() bool {
	now := w.charts.results()
	if now == w.rendered {
		return false
	}
	for path, f := range w.files {
		if w.rendered.of(path) != nil || now.of(path) != nil {
			w.versions++
			f.version = w.versions
		}
	}
	w.rendered = now
	w.renderings++
	return true
}

// reuse replaces CRDs by those of the rendering before that are the same: they may be compiled.
func (r *renderedChart) reuse(before *renderedChart) {
	if before == nil {
		return
	}
	for i, it := range r.crds {
		same := slices.IndexFunc(before.crds, func(old *input.Item) bool {
			return old.File == it.File && old.Doc.Line() == it.Doc.Line() && old.Base == it.Base && old.Sum() == it.Sum()
		})
		if same >= 0 && before.isCurrent(it.File, r.buffers) {
			r.crds[i] = before.crds[same]
		}
	}
}

// renderedCRDs returns the CRDs that charts render.
func (w *workspace) renderedCRDs() (all []*workspaceDefinition) {
	if w.rendered == nil {
		return nil
	}
	sem, kept := w.checks.validator.semantics.Semantics, map[*input.Item]*workspaceDefinition{}
	for _, chart := range w.rendered.charts {
		for _, it := range chart.crds {
			d := w.ofCharts[it]
			if d == nil || d.semantics != sem {
				d = &workspaceDefinition{definition: newDefinition(it, sem)}
				d.names = sync.OnceValue(func() *lint.Names { return lint.NamesOf(it.JSON, sem) })
			}
			kept[it] = d
			all = append(all, d)
		}
	}
	w.ofCharts = kept
	return all
}

// renderedItems visits the objects that charts render.
func (w *workspace) renderedItems(visit func(*input.Item)) {
	if w.rendered == nil {
		return
	}
	for _, chart := range w.rendered.charts {
		for _, path := range slices.SortedFunc(maps.Keys(chart.documents), compareFiles) {
			for _, d := range chart.documents[path] {
				items, _ := d.Items() // its problem is reported with the template
				for _, it := range items {
					visit(it)
				}
			}
		}
	}
}

// renderedRange returns the range of a finding about what a template renders: the line of the template
// or, if that is unknown, the start of the document, and whether it is known.
func renderedRange(text *lsp.Text, f *report.Finding) (lsp.Range, bool) {
	line := f.Span.Line
	if line == 0 {
		line = documentStart(string(text.Bytes()), f.Object.Kind)
	}
	start, end := text.Line(min(line, text.Lines()) - 1)
	src := text.Bytes()[start:end]
	trimmed := bytes.TrimSpace(src)
	if len(trimmed) > 0 {
		start += bytes.Index(src, trimmed)
		end = start + len(trimmed)
	}
	return text.Range(start, end), f.Span.Line > 0
}

// documentStart returns the line at which the first document of a template starts that has objects of
// a kind, as far as that can be told.
func documentStart(template, kind string) int {
	lines := strings.Split(template, "\n")
	at := slices.IndexFunc(lines, func(line string) bool {
		value, ok := strings.CutPrefix(strings.TrimSpace(line), "kind:")
		return ok && strings.Trim(strings.TrimSpace(value), `"'`) == kind
	})
	for start := at; start >= 0 && !strings.HasPrefix(lines[start], "---"); start-- {
		if strings.HasPrefix(lines[start], "apiVersion:") || strings.HasPrefix(lines[start], "kind:") {
			at = start
		}
	}
	return cmp.Or(max(at+1, 0), 1)
}

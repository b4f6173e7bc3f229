package input

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"espalier.dev/cmd/espalier/internal/helm"
	"espalier.dev/cmd/espalier/internal/render"
	"espalier.dev/internal/yamlx"
)

// rendering is a chart or a kustomization, which a program renders.
type rendering struct {
	in tree
	// path is a directory, or that of an archive.
	path string
	// kustomization is the name of the kustomization file, or "" for a chart.
	kustomization string
	// found is set if the user did not name it.
	found bool
}

// isChart reports whether a directory with these entries is a chart.
func isChart(in tree, dir string, entries []fs.DirEntry) bool {
	if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == helm.ChartFile && !e.IsDir() }) {
		return false
	}
	data, err := contentOf(in, in.join(dir, helm.ChartFile))
	return err == nil && helm.IsChart(data)
}

// rendersCharts reports whether charts are rendered in directories, and not only those that the user
// names without -R.
func (r *reader) rendersCharts() bool {
	return r.flags.Helm != nil && (!r.flags.HelmNamed || !r.flags.Recursive)
}

// render renders a chart or a kustomization, now or later.
func (r *reader) render(x rendering) error {
	if r.later != nil {
		if taken, err := r.later(x); taken || err != nil {
			return err
		}
	}
	return r.rendered(x)
}

// rendered reads what a chart or a kustomization renders.
func (r *reader) rendered(x rendering) error {
	if x.kustomization != "" {
		return r.build(x)
	}
	if !helm.IsArchive(x.path) {
		return r.chart(x)
	}
	archive, err := r.archive(x)
	switch {
	case err == nil:
		x.in = archive
		return r.chart(x)
	case r.ctx.Err() != nil:
		return r.ctx.Err()
	case !x.found || !errors.Is(err, errNoChart):
		r.fail(x.path, Unreadable, "cannot read: %v", Reason(err))
	}
	return nil
}

func (r *reader) archive(x rendering) (*archiveTree, error) {
	open, err := x.in.open(x.path)
	if err != nil {
		return nil, err
	}
	defer open.Close()
	return readArchive(r.ctx, x.path, x.in.local(x.path), open)
}

// chart reads what a chart renders. If it cannot be rendered, its CRDs and the templates without
// actions are read.
func (r *reader) chart(x rendering) error {
	text, err := r.flags.Helm.Render(r.ctx, x.path, &chartFiles{x.in, x.path, r.flags.Git})
	if err == nil {
		return r.chartDocuments(x, text)
	}
	if r.ctx.Err() != nil {
		return r.ctx.Err()
	}
	if errors.Is(err, helm.ErrLibrary) {
		r.flags.Skipped.Count(LibraryChart)
		return nil
	}
	missing := errors.Is(err, render.ErrMissing)
	if !missing || !r.flags.HelmNamed {
		r.problem(chartProblem(x, err))
	}
	before := r.taken
	templates, readErr := r.unrendered(x.in, x.path, 0)
	switch {
	case !missing || !r.flags.HelmNamed:
	case r.taken == before && templates > 0:
		// The user has named what cannot be read at all.
		r.problem(chartProblem(x, err))
	default:
		r.flags.Skipped.unrendered(x.path, templates)
	}
	return readErr
}

// chartFiles are the files of a chart.
type chartFiles struct {
	in   tree
	path string
	git  *Repositories
}

// ReadValues reads a file with values, which may be one of a revision.
func (c *chartFiles) ReadValues(name string) ([]byte, error) {
	in, path, err := c.git.tree(name)
	if err != nil {
		return nil, err
	}
	return contentOf(in, path)
}

// Copy copies the chart. Links must not leave the Git repository that contains it, or the chart if
// there is none.
func (c *chartFiles) Copy(ctx context.Context, dir string) error {
	root := c.path
	for _, above := range append([]string{c.path}, c.in.parents(c.path)...) {
		if _, err := c.in.stat(c.in.join(above, ".git")); err == nil {
			root = above
			break
		}
	}
	return newCopier(ctx, c.in, root).directory(c.path, dir)
}

// CopyDependency copies a chart in another directory, and those that it depends on there.
func (c *chartFiles) CopyDependency(ctx context.Context, at, dir string) error {
	if filepath.IsAbs(at) {
		return errors.New("its path is not relative")
	}
	if _, ok := c.in.(*archiveTree); ok {
		return errors.New("it is not in the archive")
	}
	dependency := &chartFiles{c.in, c.in.join(c.path, filepath.FromSlash(at)), c.git}
	if _, err := contentOf(c.in, c.in.join(dependency.path, helm.ChartFile)); err != nil {
		return fmt.Errorf("there is no chart in %s", dependency.path)
	}
	return dependency.Copy(ctx, dir)
}

// chartProblem returns the problem of a chart that cannot be rendered, at the position in a template
// if helm names it.
func chartProblem(x rendering, err error) Problem {
	p := Problem{Rule: Unrendered, File: x.path, Message: "cannot render the chart: " + err.Error()}
	var failure *render.Failure
	if !errors.As(err, &failure) {
		return p
	}
	at, message := helm.Explain(failure.Message)
	if at.File != "" {
		p.File, p.Line, p.Column = x.file(at.File), at.Line, at.Column
		if p.Line > 0 {
			p.Column = max(p.Column, 1)
			if data, err := contentOf(x.in, p.File); err == nil {
				p.Source = lineOf(data, p.Line)
			}
		}
	}
	p.Message = "cannot render the chart: " + message
	if p.File != x.path {
		p.Message = "cannot render the chart " + x.path + ": " + message
	}
	if needsValues(message) {
		p.Message += ": set values with --helm-values or --helm-set"
	}
	return p
}

// needsValues reports whether helm fails because of values: a schema of values rejects them, or a
// template requires one.
func needsValues(message string) bool {
	lower := strings.ToLower(message)
	return strings.Contains(lower, "values don't meet the specifications of the schema") ||
		strings.Contains(lower, "required") || strings.Contains(lower, "must be set") || strings.Contains(lower, "please set")
}

// lineOf returns a line of a text.
func lineOf(data []byte, line int) Excerpt {
	for ; line > 1; line-- {
		_, rest, ok := bytes.Cut(data, []byte("\n"))
		if !ok {
			return Excerpt{}
		}
		data = rest
	}
	first, _, _ := bytes.Cut(data, []byte("\n"))
	text := []rune(strings.TrimRight(string(first), "\r"))
	if len(text) > MaxExcerpt {
		return Excerpt{Text: string(text[:MaxExcerpt]), More: true}
	}
	return Excerpt{Text: string(text)}
}

// file returns the path of a file of a chart that helm names.
func (x rendering) file(name string) string {
	join := func(below string) string {
		if below == "" || below == "." || !fs.ValidPath(below) {
			return x.path
		}
		return x.in.join(x.path, below)
	}
	return join(helm.Below(name,
		func(below string) []byte {
			data, err := contentOf(x.in, join(below))
			if err != nil {
				return nil
			}
			return data
		},
		func(below string) (names []string) {
			entries, _ := x.in.readDir(join(below)) // helm has read it
			for _, e := range entries {
				names = append(names, e.Name())
			}
			return names
		}))
}

// chartDocuments visits the documents that helm has rendered, each with the file of the chart that it
// comes from.
func (r *reader) chartDocuments(x rendering, text []byte) error {
	var f file
	var source string
	start := 0 // the line before the first one of the file
	templates := map[string]*template{}
	for documents := yamlx.NewBytesReader(text, r.options()); ; {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		d, err := documents.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			r.badDocument(cmpPath(f.path, x.path), err)
			continue
		}
		if name, lines := helm.Source(d.Source()); name != "" {
			source, start = name, d.Line()+lines-1
			f = file{path: x.file(name)}
			if helm.InCRDs(name) {
				f.in = x.in
			} else if f.rendered = templates[f.path]; f.rendered == nil {
				f.rendered = &template{by: byHelm, in: x.in, path: f.path}
				templates[f.path] = f.rendered
			}
		}
		if d.Empty() {
			continue
		}
		if source == "" {
			f = file{path: x.path, rendered: &template{by: byHelm}}
		}
		if f.rendered == nil {
			// The text is that of the file, and so are its lines.
			if d, err = inFile(d, start); err != nil || d.Empty() {
				continue // it is empty
			}
		}
		if err := r.document(f, d); err != nil {
			return err
		}
	}
}

func cmpPath(file, chart string) string {
	if file == "" {
		return chart
	}
	return file
}

// inFile returns a document with the lines of the file that it comes from, which starts after a line
// of the output of helm.
func inFile(d *yamlx.Document, start int) (*yamlx.Document, error) {
	src, line := d.Source(), d.Line()
	for ; line <= start; line++ {
		_, src, _ = bytes.Cut(src, []byte("\n"))
	}
	return yamlx.NewBytesReader(src, yamlx.Options{Line: line - start, MaxDocument: len(src) + 1}).Next()
}

// maxSubcharts is the maximum depth of charts in charts.
const maxSubcharts = 16

// unrendered reads what needs no program of a chart: its CRDs, and the templates without actions. It
// returns the number of templates that it does not read, including those of subcharts.
func (r *reader) unrendered(in tree, dir string, depth int) (templates int, err error) {
	for _, name := range []string{"crds", "templates"} {
		n, err := r.unrenderedFiles(in, in.join(dir, name), name == "templates", 0)
		if templates += n; err != nil {
			return templates, err
		}
	}
	entries, err := in.readDir(in.join(dir, "charts"))
	if err != nil || depth == maxSubcharts {
		return templates, nil
	}
	for _, entry := range entries {
		if at := in.join(in.join(dir, "charts"), entry.Name()); entry.IsDir() {
			n, err := r.unrendered(in, at, depth+1)
			if templates += n; err != nil {
				return templates, err
			}
		} else if helm.IsArchive(entry.Name()) {
			templates++
		}
	}
	return templates, nil
}

// unrenderedFiles reads the files of a directory of a chart. Those that are templates are counted if
// they have actions.
func (r *reader) unrenderedFiles(in tree, dir string, areTemplates bool, depth int) (templates int, err error) {
	entries, err := in.readDir(dir)
	if err != nil || depth == maxSubcharts {
		return 0, nil
	}
	for _, entry := range entries {
		if err := r.ctx.Err(); err != nil {
			return templates, err
		}
		name := in.join(dir, entry.Name())
		if entry.IsDir() {
			n, err := r.unrenderedFiles(in, name, areTemplates, depth+1)
			if templates += n; err != nil {
				return templates, err
			}
			continue
		}
		if !slices.Contains(extensions(), strings.ToLower(path.Ext(entry.Name()))) || areTemplates && strings.HasPrefix(entry.Name(), "_") ||
			r.excluded(in, name, name, false) {
			continue
		}
		info, err := in.stat(name)
		if err != nil {
			r.fail(name, Unreadable, "cannot read: %v", Reason(err))
			continue
		}
		if areTemplates {
			if data, err := contentOf(in, name); err == nil && bytes.Contains(data, action) {
				templates++
				continue
			}
		}
		if err := r.take(file{path: name, in: in}, info); err != nil {
			return templates, err
		}
	}
	return templates, nil
}

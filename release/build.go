package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"espalier.dev/release/internal/archive"
	"espalier.dev/release/internal/docs"
	"espalier.dev/release/internal/gobuild"
	"espalier.dev/release/internal/sbom"
)

// checksumsFile has the SHA-256 of all other files of a release except its own signatures.
const checksumsFile = "checksums.txt"

// A release is one that is being built, in a temporary directory beside its output.
type release struct {
	program
	*buildOptions
	stamp gobuild.Stamp

	source   string // the files of the commit
	work     string // intermediate files
	out      string // the files of the release
	binaries []gobuild.Binary
	// tags are the build tags of all binaries, and bundled has the licenses of what the web page contains.
	tags    []string
	bundled []byte
	// common has the files of all archives and packages.
	common []archive.File
	// docs has the manual pages and completions of each flavor.
	docs map[string][]archive.File
	// archives has the name of the archive of each binary.
	archives map[gobuild.Binary]string
	// contents reads what the programs consist of, and licenses has the licenses of each binary.
	contents *sbom.Generator
	licenses map[gobuild.Binary][]byte
}

// build builds a release. The output appears at the end, complete, or not at all.
func (p program) build(ctx context.Context, o *buildOptions) (err error) {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	repository, commit, err := checkSource(ctx, o.source, o.version)
	if err != nil {
		return err
	}
	date, err := p.sourceDate(commit.Time)
	if err != nil {
		return err
	}
	temporary, remove, err := makeTemporary(o.output)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()

	r := &release{
		program: p, buildOptions: o,
		stamp:    gobuild.Stamp{Version: o.version, Revision: commit.Hash, Time: date},
		source:   filepath.Join(temporary, "source"),
		work:     filepath.Join(temporary, "work"),
		out:      filepath.Join(temporary, "out"),
		docs:     map[string][]archive.File{},
		archives: map[gobuild.Binary]string{},
		licenses: map[gobuild.Binary][]byte{},
	}
	for _, dir := range []string{r.source, r.work, r.out} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	if err := repository.Export(ctx, commit.Hash, r.source); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{r.editor, r.compile, r.document, r.readLicenses, r.archive, r.sboms, r.packages,
		r.image, r.manifests, r.deploy, r.publicKey, r.provenance, r.checksums, r.sign} {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := step(ctx); err != nil {
			return err
		}
	}
	if err := checkOutput(o.output); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := os.Rename(r.out, o.output); err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "released %s of %.12s in %s\n", o.version, commit.Hash, o.output)
	return nil
}

// makeTemporary creates a directory beside output, and returns a function that removes it and the
// parents that were created for it, if they are empty.
func makeTemporary(output string) (dir string, remove func() error, err error) {
	parent := filepath.Dir(output)
	var created []string
	for p := parent; ; p = filepath.Dir(p) {
		if _, err := os.Stat(p); err == nil || !errors.Is(err, fs.ErrNotExist) || p == filepath.Dir(p) {
			break
		}
		created = append(created, p)
	}
	removeParents := func() {
		for _, p := range created {
			_ = os.Remove(p) // not empty if the release succeeded
		}
	}
	if err := os.MkdirAll(parent, 0o755); err != nil {
		removeParents()
		return "", nil, usagef("create the output: %w", err)
	}
	dir, err = os.MkdirTemp(parent, "."+filepath.Base(output)+"-*")
	if err != nil {
		removeParents()
		return "", nil, usagef("create the output: %w", err)
	}
	return dir, func() error {
		err := os.RemoveAll(dir)
		removeParents()
		return err
	}, nil
}

func (r *release) logf(format string, args ...any) {
	fmt.Fprintf(r.stderr, format+"\n", args...)
}

// editor bundles CodeMirror, the editor of the web page, which npm installs in the versions and with the
// hashes of its lock file. None of their scripts is run.
func (r *release) editor(ctx context.Context) error {
	dir := filepath.Join(r.source, "web", "page", "codemirror")
	if _, err := os.Stat(dir); r.plain || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := exec.LookPath("npm"); err != nil {
		return usagef("npm not found: install Node.js, or use --plain, with which the web page has its plain editor")
	}
	r.logf("bundle CodeMirror")
	for _, c := range []*exec.Cmd{
		command(ctx, dir, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"),
		command(ctx, filepath.Join(r.source, "test", "tools"), "go", "run", "./page", "-editor", "../.."),
	} {
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("bundle CodeMirror: %s: %w\n%s", strings.Join(c.Args, " "), err, bytes.TrimSpace(out))
		}
	}
	text, err := os.ReadFile(filepath.Join(r.source, "web", "page", "bundle", "codemirror-licenses.txt"))
	if err != nil {
		return err
	}
	r.bundled, r.tags = text, append(r.tags, "codemirror")
	return nil
}

func command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = dir
	gobuild.Interruptible(c)
	return c
}

func (r *release) compile(ctx context.Context) (err error) {
	b := &gobuild.Builder{
		Source: r.source, Dir: filepath.Join(r.work, "bin"), Stamp: r.stamp, Tags: r.tags,
		Log: func(f gobuild.Flavor, p gobuild.Platform) { r.logf("build %s for %s", f.Name, p) },
	}
	platforms := r.platforms
	if host := gobuild.Host(); !slices.Contains(platforms, host) {
		platforms = append([]gobuild.Platform{host}, platforms...) // generates the documentation
	}
	r.binaries, err = b.Build(ctx, r.flavors, platforms)
	return err
}

// document generates the manual pages and completions, with the programs for this machine.
func (r *release) document(ctx context.Context) error {
	for _, b := range r.binaries {
		if b.Platform != gobuild.Host() {
			continue
		}
		files, err := docs.Generate(ctx, b, r.stamp, filepath.Join(r.work, "docs", b.Flavor.Name))
		if err != nil {
			return err
		}
		r.docs[b.Flavor.Name] = files
	}
	r.binaries = slices.DeleteFunc(r.binaries, func(b gobuild.Binary) bool { return !slices.Contains(r.platforms, b.Platform) })
	return nil
}

// readLicenses reads the licenses of the modules in each binary, and adds those of the web page.
func (r *release) readLicenses(context.Context) (err error) {
	if r.contents, err = sbom.New(); err != nil {
		return err
	}
	for _, b := range r.binaries {
		if r.licenses[b], err = r.contents.Licenses(b.Path); err != nil {
			return err
		}
		if r.bundled != nil {
			r.licenses[b] = fmt.Appendf(r.licenses[b], "\n%s\nThe web page contains the following packages of npm.\n\n%s", strings.Repeat("=", 80), r.bundled)
		}
	}
	return nil
}

// archive writes an archive for each binary.
func (r *release) archive(ctx context.Context) error {
	var err error
	if r.common, err = r.commonFiles(); err != nil {
		return err
	}
	var tasks []func() error
	for _, b := range r.binaries {
		files := append(r.files(b), archive.File{Name: b.Platform.Exe(), Mode: 0o755, Path: b.Path})
		name := fmt.Sprintf("%s_%s_%s_%s", b.Flavor.Name, r.number(), b.Platform.OS, b.Platform.Arch)
		write := archive.WriteTarGz
		if b.Platform.OS == "windows" {
			name, write = name+".zip", archive.WriteZip
		} else {
			name += ".tar.gz"
		}
		r.archives[b] = name
		tasks = append(tasks, func() error { return write(filepath.Join(r.out, name), files, r.stamp.Time) })
	}
	r.logf("write %d archives", len(tasks))
	return r.parallel(ctx, tasks)
}

// parallel runs at most GOMAXPROCS tasks at a time.
func (r *release) parallel(ctx context.Context, tasks []func() error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, task := range tasks {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return task()
		})
	}
	return group.Wait()
}

// checksums writes the SHA-256 of all files, as sha256sum --check reads them.
func (r *release) checksums(context.Context) error {
	sums, err := digests(r.out)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, s := range sums {
		fmt.Fprintf(&text, "%s  %s\n", s.sha256, s.name)
	}
	return r.write(checksumsFile, []byte(text.String()))
}

// write writes a file of the release.
func (r *release) write(name string, data []byte) error {
	return os.WriteFile(filepath.Join(r.out, name), data, 0o644)
}

// A digest is a file of a release with its SHA-256 in hexadecimal.
type digest struct{ name, sha256 string }

// digests returns the files in dir, sorted by name.
func digests(dir string) (all []digest, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		sum, err := digestFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, digest{e.Name(), sum})
	}
	return all, nil
}

func digestFile(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"

	"espalier.dev/release/internal/gobuild"
	"espalier.dev/release/internal/repo"
)

// localBuilder names the builder if nothing is known about the machine.
const localBuilder = "https://espalier.dev/release/local"

// buildOptions are the flags of the command build.
type buildOptions struct {
	version   string // with v
	source    string
	output    string
	platforms []gobuild.Platform
	flavors   []gobuild.Flavor
	baseURL   string // without a slash at the end
	imageName string // without a tag
	builder   string // URI
	plain     bool
	signing
}

// number returns the version without v, as in the names of files.
func (o *buildOptions) number() string { return strings.TrimPrefix(o.version, "v") }

func (p program) parseBuild(args []string) (*buildOptions, error) {
	o := &buildOptions{}
	var platforms, flavors, keyFile string
	var unsigned bool
	fs := p.flags("build", "")
	fs.StringVar(&o.version, "version", "", "`version` of the release, vX.Y.Z or vX.Y.Z-PRE")
	fs.StringVar(&o.source, "source", ".", "`directory` in the repository to release")
	fs.StringVar(&o.output, "output", "", "`directory` to create with the files of the release")
	fs.StringVar(&platforms, "platforms", "", "comma-separated `platforms` such as linux/amd64; all if empty")
	fs.StringVar(&flavors, "flavors", "", "comma-separated `flavors`, espalier or espalier-cli; both if empty")
	fs.StringVar(&keyFile, "key", "", "PEM `file` with the Ed25519 or ECDSA P-256 key that signs; the default is the key, or its file, in SIGNING_KEY")
	fs.BoolVar(&unsigned, "unsigned", false, "build a release without signatures")
	fs.StringVar(&o.baseURL, "base-url", "https://espalier.dev/releases", "`URL` below which releases are published, as VERSION/FILE")
	fs.StringVar(&o.imageName, "image", "espalier.dev/espalier", "`name` of the container image without a tag, in the chart and the manifests")
	fs.StringVar(&o.builder, "builder", "", "`URI` of who builds, in the provenance; the default is the workflow in GitHub Actions, and "+localBuilder+" elsewhere")
	fs.BoolVar(&o.plain, "plain", false, "leave out CodeMirror, which needs npm: the web page has its plain editor")
	if err := parse(fs, args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, usagef("build takes no arguments: %q", fs.Arg(0))
	}
	if err := checkVersion(o.version); err != nil {
		return nil, usageError{err}
	}
	if o.output == "" {
		return nil, usagef("--output is required")
	}
	var err error
	if o.output, err = filepath.Abs(o.output); err != nil {
		return nil, err
	}
	if o.platforms, err = gobuild.ParsePlatforms(platforms); err != nil {
		return nil, usageError{err}
	}
	if o.flavors, err = parseFlavors(flavors); err != nil {
		return nil, usageError{err}
	}
	if o.baseURL, err = checkBaseURL(o.baseURL); err != nil {
		return nil, err
	}
	if !imageName().MatchString(o.imageName) {
		return nil, usagef("--image %q must be the name of an image without a tag or digest, for example registry.example.com/espalier", o.imageName)
	}
	if o.builder == "" {
		o.builder = p.defaultBuilder()
	} else if u, err := url.Parse(o.builder); err != nil || u.Scheme == "" {
		return nil, usagef("--builder %q must be a URI", o.builder)
	}
	if o.signing, err = p.parseSigning(keyFile, unsigned); err != nil {
		return nil, err
	}
	return o, nil
}

// checkBaseURL returns the URL without a slash at the end.
func checkBaseURL(base string) (string, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return "", usagef("--base-url %q must be an http or https URL without a query", base)
	}
	return strings.TrimSuffix(base, "/"), nil
}

// imageName matches names of images without a tag: an optional registry, and the repository in it.
func imageName() *regexp.Regexp {
	const part = `[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*`
	return regexp.MustCompile(`^(?:[A-Za-z0-9.-]+(?::[0-9]+)?/)?` + part + `(?:/` + part + `)*$`)
}

// defaultBuilder returns the URI of the workflow in GitHub Actions, which is its identity in the
// signatures of cosign as well.
func (p program) defaultBuilder() string {
	server, workflow := p.getenv("GITHUB_SERVER_URL"), p.getenv("GITHUB_WORKFLOW_REF")
	if p.getenv("GITHUB_ACTIONS") != "true" || server == "" || workflow == "" {
		return localBuilder
	}
	return server + "/" + workflow
}

func checkVersion(v string) error {
	switch {
	case v == "":
		return errors.New("a version is required, for example v1.0.0")
	case !semver.IsValid(v) || semver.Canonical(v) != v:
		return fmt.Errorf("%q is no version of a release: use vX.Y.Z or vX.Y.Z-PRE, for example v1.0.0-rc.1", v)
	case module.IsPseudoVersion(v):
		return fmt.Errorf("%q is a pseudo-version, which names a commit and no release: use vX.Y.Z or vX.Y.Z-PRE", v)
	}
	return nil
}

func parseFlavors(list string) ([]gobuild.Flavor, error) {
	all := gobuild.Flavors()
	if list == "" {
		return all, nil
	}
	wanted := map[string]bool{}
	for name := range strings.SplitSeq(list, ",") {
		if !slices.ContainsFunc(all, func(f gobuild.Flavor) bool { return f.Name == name }) {
			return nil, fmt.Errorf("unknown flavor %q: use espalier, espalier-cli or both", name)
		}
		wanted[name] = true
	}
	return slices.DeleteFunc(all, func(f gobuild.Flavor) bool { return !wanted[f.Name] }), nil
}

// checkOutput rejects an output that exists: a release is never mixed with another one.
func checkOutput(dir string) error {
	_, err := os.Lstat(dir)
	switch {
	case err == nil:
		return usagef("%s exists: remove it, or select another directory with --output", dir)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return usageError{err}
}

// checkSource returns the commit to release. The working tree must be clean, and a tag of the
// version must point to the commit.
func checkSource(ctx context.Context, source, version string) (*repo.Repository, repo.Commit, error) {
	none := repo.Commit{}
	r, err := repo.Open(ctx, source)
	if err != nil {
		return nil, none, usageError{err}
	}
	head, err := r.Head(ctx)
	if err != nil {
		return nil, none, usageError{err}
	}
	changes, err := r.Changes(ctx)
	if err != nil {
		return nil, none, err
	}
	if n := len(changes); n > 0 {
		more := ""
		if n > 10 {
			changes, more = changes[:10], fmt.Sprintf("\n  and %d more", n-10)
		}
		return nil, none, usagef("the working tree differs from the commit: commit, remove or ignore these files\n  %s%s", strings.Join(changes, "\n  "), more)
	}
	tagged, err := r.Tag(ctx, version)
	if err != nil {
		return nil, none, err
	}
	if tagged != "" && tagged != head.Hash {
		return nil, none, usagef("the tag %s exists at %.12s, but HEAD is %.12s: check out the tag, or select another version", version, tagged, head.Hash)
	}
	if err := checkChangelog(filepath.Join(source, changelogFile), version); err != nil {
		return nil, none, err
	}
	return r, head, nil
}

// checkChangelog checks that the changelog has a section for the version, unless that is a prerelease.
func checkChangelog(file, version string) error {
	if semver.Prerelease(version) != "" {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return usageError{err}
	}
	if heading := "## [" + strings.TrimPrefix(version, "v") + "]"; !strings.Contains("\n"+string(text), "\n"+heading) {
		return usagef("%s has no section %q: describe the release there, for example below the heading of what was [Unreleased]", changelogFile, heading)
	}
	return nil
}

// sourceDate returns the time of everything in the release: SOURCE_DATE_EPOCH, or the time of the
// commit.
func (p program) sourceDate(commit time.Time) (time.Time, error) {
	epoch := p.getenv("SOURCE_DATE_EPOCH")
	if epoch == "" {
		return commit, nil
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil || seconds < 0 {
		return time.Time{}, usagef("SOURCE_DATE_EPOCH is %q: it must be a number of seconds since 1970", epoch)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"espalier.dev/release/internal/archive"
	"espalier.dev/release/internal/chart"
	"espalier.dev/release/internal/gobuild"
	"espalier.dev/release/internal/image"
	"espalier.dev/release/internal/manifests"
	"espalier.dev/release/internal/packages"
	"espalier.dev/release/internal/provenance"
)

const (
	provenanceFile = "provenance.json"
	changelogFile  = "CHANGELOG.md"
	envelopeFile   = "provenance.intoto.jsonl"
	// repositoryURI names the source in the provenance. Clones have other URLs.
	repositoryURI = "git+https://espalier.dev"
)

// sboms writes an SBOM for each archive.
func (r *release) sboms(ctx context.Context) error {
	r.logf("write SBOMs")
	var tasks []func() error
	for _, b := range r.binaries {
		tasks = append(tasks, func() error {
			text, err := r.contents.Generate(b.Path, r.version, r.stamp.Time)
			if err != nil {
				return err
			}
			return r.write(r.archives[b]+".cdx.json", text)
		})
	}
	return r.parallel(ctx, tasks)
}

// packages writes the Debian and RPM packages.
func (r *release) packages(ctx context.Context) error {
	var tasks []func() error
	for _, b := range r.binaries {
		if b.Platform.OS != "linux" {
			continue
		}
		work := filepath.Join(r.work, "packages", b.Flavor.Name+"_"+b.Platform.Arch)
		if err := os.MkdirAll(work, 0o755); err != nil {
			return err
		}
		p := &packages.Package{
			Name: b.Flavor.Name, Version: r.number(), Arch: b.Platform.Arch, Time: r.stamp.Time,
			Program: b.Path, Docs: r.files(b), Work: work,
		}
		if b.Flavor.Tags == "" {
			p.Service = filepath.Join(r.source, "deploy", "systemd")
		}
		tasks = append(tasks, func() error { return p.Write(r.out) })
	}
	r.logf("write packages")
	return r.parallel(ctx, tasks)
}

// image writes the container image, for the architectures of Linux that are built.
func (r *release) image(context.Context) error {
	var programs []image.Program
	for _, b := range r.binaries {
		if b.Platform.OS == "linux" && b.Flavor.Tags == "" {
			programs = append(programs, image.Program{Arch: b.Platform.Arch, Path: b.Path, Licenses: r.legal(b)})
		}
	}
	if len(programs) == 0 {
		return nil
	}
	r.logf("write the image")
	return image.Write(filepath.Join(r.out, "espalier_"+r.number()+"_oci.tar"), filepath.Join(r.work, "image"), programs,
		image.Labels{Name: r.imageName, Version: r.number(), Revision: r.stamp.Revision, Time: r.stamp.Time})
}

// manifests writes the files for package managers.
func (r *release) manifests(context.Context) error {
	m := manifests.Release{Version: r.number()}
	for _, b := range r.binaries {
		name := r.archives[b]
		sum, err := digestFile(filepath.Join(r.out, name))
		if err != nil {
			return err
		}
		m.Archives = append(m.Archives, manifests.Archive{Flavor: b.Flavor.Name, Platform: b.Platform,
			URL: r.baseURL + "/" + r.version + "/" + name, SHA256: sum})
	}
	files, err := manifests.Write(m)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := r.write(f.Name, f.Data); err != nil {
			return err
		}
	}
	return nil
}

// deploy writes the Helm chart and the manifests for clusters, if the source has them.
func (r *release) deploy(context.Context) error {
	c := chart.Chart{Dir: filepath.Join(r.source, "deploy"), Version: r.number(), Image: r.imageName}
	if _, err := os.Stat(filepath.Join(c.Dir, "chart")); errors.Is(err, fs.ErrNotExist) {
		r.logf("no chart: deploy/chart does not exist")
		return nil
	}
	if err := c.Write(filepath.Join(r.out, "espalier-chart-"+r.number()+".tgz"), r.stamp.Time); err != nil {
		return err
	}
	text, err := c.Manifests()
	if err != nil {
		return err
	}
	return r.write("espalier-kubernetes-"+r.number()+".yaml", text)
}

// provenance writes how all files so far were built, and signs it.
func (r *release) provenance(ctx context.Context) error {
	version, err := gobuild.GoVersion(ctx, r.source)
	if err != nil {
		return err
	}
	sums, err := digests(r.out)
	if err != nil {
		return err
	}
	var subjects []provenance.Resource
	for _, s := range sums {
		subjects = append(subjects, provenance.Resource{Name: s.name, Digest: map[string]string{"sha256": s.sha256}})
	}
	p := provenance.Parameters{
		Version: r.version, Source: provenance.Source{URI: repositoryURI, Revision: r.stamp.Revision},
		BaseURL: r.baseURL, Image: r.imageName, Epoch: r.stamp.Time.Unix(), Plain: r.plain,
	}
	for _, platform := range r.platforms {
		p.Platforms = append(p.Platforms, platform.String())
	}
	for _, f := range r.flavors {
		p.Flavors = append(p.Flavors, f.Name)
	}
	text, err := json.MarshalIndent(provenance.New(p, version, r.builder, subjects), "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if err := r.write(provenanceFile, text); err != nil {
		return err
	}
	if r.signer == nil {
		return nil
	}
	envelope, err := r.signer.Envelope(provenance.PayloadType, text)
	if err != nil {
		return err
	}
	return r.write(envelopeFile, envelope)
}

// files returns the files of the archive and the package of a binary, but not the binary itself.
func (r *release) files(b gobuild.Binary) []archive.File {
	return slices.Concat(r.legal(b), r.common, r.docs[b.Flavor.Name])
}

// legal returns the licenses of a binary.
func (r *release) legal(b gobuild.Binary) []archive.File {
	return []archive.File{
		{Name: "LICENSE", Mode: 0o644, Path: filepath.Join(r.source, "LICENSE")},
		{Name: "THIRD-PARTY-LICENSES", Mode: 0o644, Data: r.licenses[b]},
	}
}

// commonFiles returns the files of all archives and packages.
func (r *release) commonFiles() ([]archive.File, error) {
	// The quick start of the README uses them.
	files, err := archive.FromDir(filepath.Join(r.source, "examples", "crontab"), "examples/crontab")
	if err != nil {
		return nil, fmt.Errorf("examples: %w", err)
	}
	texts := []string{"README.md", changelogFile}
	names := append([]string{"LICENSE"}, texts...)
	for _, f := range files {
		names = append(names, f.Name)
	}
	for _, name := range texts {
		text, err := os.ReadFile(filepath.Join(r.source, name))
		if err != nil {
			return nil, err
		}
		files = append(files, archive.File{Name: name, Mode: 0o644, Data: unlink(text, names)})
	}
	return files, nil
}

// link matches a link of Markdown to a file, and not to a section or URL.
var link = regexp.MustCompile(`\[([^\]\n]*)\]\(([^):#][^):]*)\)`)

// unlink replaces links to files of the source by their texts, but not links to names, or to directories
// with them.
func unlink(text []byte, names []string) []byte {
	return link.ReplaceAllFunc(text, func(found []byte) []byte {
		parts := link.FindSubmatch(found)
		target, _, _ := strings.Cut(string(parts[2]), "#")
		if slices.ContainsFunc(names, func(name string) bool {
			return name == target || strings.HasPrefix(name, strings.TrimSuffix(target, "/")+"/")
		}) {
			return found
		}
		return parts[1]
	})
}

// Package packages writes Debian and RPM packages.
package packages

import (
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"

	"espalier.dev/release/internal/archive"
	"espalier.dev/release/internal/docs"
)

// A Package is a program with its documentation, for one architecture.
type Package struct {
	// Name is espalier or espalier-cli. Both install /usr/bin/espalier, so they exclude each other.
	Name    string
	Version string // without v
	Arch    string // as Go names it
	Time    time.Time
	// Program is the file of the program.
	Program string
	// Docs are manual pages and completions, as docs.Generate returns them, and what else belongs
	// into the documentation: LICENSE, README.md, examples.
	Docs []archive.File
	// Service is the directory deploy/systemd, or "" for a package without the server.
	Service string
	// Work is an empty directory for temporary files.
	Work string
}

// Write writes a Debian and an RPM package to dir, with the names that are usual for them. The
// version of a prerelease is 1.2.3~rc.1 in the package, and 1.2.3-rc.1 in the name of its file:
// GitHub replaces ~ in the names of files, which then differ from those in the checksums.
func (p *Package) Write(dir string) error {
	contents, err := p.contents()
	if err != nil {
		return err
	}
	for _, format := range []struct {
		name     string
		packager nfpm.PackagerWithExtension
	}{{"deb", deb.Default}, {"rpm", rpm.DefaultRPM}} {
		// The packager completes the description, so each gets its own.
		name := strings.ReplaceAll(format.packager.ConventionalFileName(p.info(format.name, contents)), "~", "-")
		if err := write(filepath.Join(dir, name), func(w io.Writer) error {
			return format.packager.Package(p.info(format.name, contents), w)
		}); err != nil {
			return fmt.Errorf("package %s: %w", name, err)
		}
	}
	return nil
}

// info returns the description of the package in one format.
func (p *Package) info(format string, contents []files.Content) *nfpm.Info {
	other, server := "espalier-cli", "the command line and the API server"
	if p.Service == "" {
		other, server = "espalier", "the command line"
	}
	info := &nfpm.Info{
		Name: p.Name, Arch: p.Arch, Platform: "linux", Version: p.Version, MTime: p.Time,
		Section: "devel", Priority: "optional",
		Maintainer: "Espalier <releases@espalier.dev>", Vendor: "Espalier", Homepage: "https://espalier.dev", License: "Apache-2.0",
		Description: "Kubernetes CustomResourceDefinitions without a cluster\n" +
			"Espalier prunes, defaults and validates custom resources as kube-apiserver\n" +
			"does. This package contains " + server + ".",
		DisableGlobbing: true,
	}
	info.Conflicts = []string{other}
	if p.Service != "" {
		info.Provides = []string{"espalier-cli"} // it has all commands of it
		info.Scripts = nfpm.Scripts{
			PostInstall: filepath.Join(p.Service, "postinstall.sh"),
			PreRemove:   filepath.Join(p.Service, "preremove.sh"),
			PostRemove:  filepath.Join(p.Service, "postremove.sh"),
		}
	}
	if format == "deb" && p.Service != "" {
		// With Conflicts it lets dpkg install espalier in place of espalier-cli. The other way round
		// would remove a server. In RPM it would mean Obsoletes, and an upgrade of espalier-cli would
		// install espalier.
		info.Replaces = []string{other}
	}
	info.Deb.Compression = "gzip"
	info.RPM.Compression = "gzip"
	info.RPM.BuildHost = "localhost" // not the name of this machine
	info.RPM.Group = "Development/Tools"
	info.RPM.Summary = "Kubernetes CustomResourceDefinitions without a cluster"
	for _, c := range contents {
		fileInfo := *c.FileInfo
		c.FileInfo = &fileInfo
		info.Contents = append(info.Contents, &c)
	}
	return nfpm.WithDefaults(info)
}

// contents returns the files of the package. nfpm reads them from disk.
func (p *Package) contents() (all []files.Content, err error) {
	add := func(source, destination, kind string, mode os.FileMode) {
		all = append(all, files.Content{Source: source, Destination: destination, Type: kind,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: p.Time}})
	}
	add(p.Program, "/usr/bin/espalier", "", 0o755)
	for i, f := range p.Docs {
		destination := p.destination(f.Name)
		if destination == "" {
			continue
		}
		r, _, err := f.Open()
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(r)
		r.Close()
		if err != nil {
			return nil, err
		}
		if strings.HasSuffix(destination, ".gz") {
			if data, err = archive.Gzip(data); err != nil {
				return nil, err
			}
		}
		source := filepath.Join(p.Work, fmt.Sprint(i))
		if err := os.WriteFile(source, data, 0o644); err != nil {
			return nil, err
		}
		add(source, destination, "", 0o644)
	}
	if p.Service != "" {
		add(filepath.Join(p.Service, "espalier.service"), "/usr/lib/systemd/system/espalier.service", "", 0o644)
		add(filepath.Join(p.Service, "espalier.sysusers"), "/usr/lib/sysusers.d/espalier.conf", "", 0o644)
		add(filepath.Join(p.Service, "espalier.default"), "/etc/default/espalier", files.TypeConfigNoReplace, 0o644)
	}
	return all, nil
}

// destination returns the path of a file of an archive in the package, or "" if it is not part of
// packages. Manual pages are compressed.
func (p *Package) destination(name string) string {
	doc := "/usr/share/doc/" + p.Name
	switch {
	case name == "LICENSE":
		return doc + "/copyright"
	case strings.HasPrefix(name, "man/man1/"):
		return "/usr/share/man/man1/" + path.Base(name) + ".gz"
	case strings.HasPrefix(name, "completions/"):
		for _, c := range docs.Completions() {
			if c.File == path.Base(name) {
				return c.Installed
			}
		}
		return ""
	}
	return doc + "/" + name
}

func write(name string, content func(io.Writer) error) (err error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
	}()
	return content(f)
}

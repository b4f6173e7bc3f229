// Package sbom tells what Go programs contain: software bills of materials (SBOM), and the texts of the
// licenses of their modules.
package sbom

import (
	"bytes"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/CycloneDX/cyclonedx-gomod/pkg/generate/bin"
	"github.com/google/licensecheck"
	"github.com/rs/zerolog"
	"golang.org/x/mod/module"
)

// license is that of the product itself.
const license = "Apache-2.0"

// Generator writes SBOMs and texts of licenses. It is safe for concurrent use and reads the license of each module once.
type Generator struct {
	root, cache string // of Go: the standard library, and the downloaded modules

	mu   sync.Mutex
	read map[string]*licenses // by directory
}

// licenses are those of a module.
type licenses struct {
	ids   []string // of SPDX, sorted
	texts []string // of the files with licenses and notices, in the order of their names
}

// New returns a Generator for programs that were built with this machine's module cache.
func New() (*Generator, error) {
	out, err := exec.Command("go", "env", "GOROOT", "GOMODCACHE").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 2 {
		return nil, fmt.Errorf("go env: unexpected output %q", out)
	}
	return &Generator{root: lines[0], cache: lines[1], read: map[string]*licenses{}}, nil
}

// Generate returns an SBOM of a program in CycloneDX JSON: its modules with their hashes and licenses,
// and the standard library. The modules are read from the program itself, for whichever platform it
// was built, and their licenses from the module cache. The SBOM has no serial number, which would be
// random, and the given time.
func (g *Generator) Generate(program, version string, date time.Time) ([]byte, error) {
	// The generator could read licenses too, but downloads all modules for it, also the main module.
	generator, err := bin.NewGenerator(program, bin.WithIncludeStdlib(true), bin.WithVersionOverride(version),
		bin.WithLogger(zerolog.Nop()))
	if err != nil {
		return nil, err
	}
	bom, err := generator.Generate()
	if err != nil {
		return nil, fmt.Errorf("SBOM of %s: %w", program, err)
	}
	bom.SerialNumber = ""
	bom.Metadata.Timestamp = date.UTC().Format(time.RFC3339)
	bom.Metadata.Component.Licenses = &cdx.Licenses{{License: &cdx.License{ID: license}}}
	for i := range *bom.Components {
		c := &(*bom.Components)[i]
		found, err := g.licensesOf(c.Name, c.Version)
		if err != nil {
			return nil, fmt.Errorf("SBOM of %s: %w", program, err)
		}
		c.Licenses = &cdx.Licenses{}
		for _, id := range found.ids {
			*c.Licenses = append(*c.Licenses, cdx.LicenseChoice{License: &cdx.License{ID: id}})
		}
	}
	slices.SortFunc(*bom.Components, func(a, b cdx.Component) int { return strings.Compare(a.BOMRef, b.BOMRef) })
	var b bytes.Buffer
	e := cdx.NewBOMEncoder(&b, cdx.BOMFileFormatJSON).SetPretty(true)
	if err := e.EncodeVersion(bom, cdx.SpecVersion1_6); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Licenses returns the texts of the licenses and notices of all modules of a program, and of the
// standard library. Modules with the same text share it.
func (g *Generator) Licenses(program string) ([]byte, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, fmt.Errorf("modules of %s: %w", program, err)
	}
	modules := []*debug.Module{{Path: standardLibrary, Version: info.GoVersion}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		modules = append(modules, m)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "The program contains the following modules. Their licenses follow the names.\n")
	var order []string
	users := map[string][]string{}
	for _, m := range modules {
		found, err := g.licensesOf(m.Path, m.Version)
		if err != nil {
			return nil, fmt.Errorf("licenses of %s: %w", program, err)
		}
		text := strings.Join(found.texts, "\n")
		if users[text] == nil {
			order = append(order, text)
		}
		users[text] = append(users[text], m.Path+" "+m.Version+" ("+strings.Join(found.ids, ", ")+")")
	}
	for _, text := range order {
		fmt.Fprintf(&b, "\n%s\n%s\n\n%s", strings.Repeat("=", 80), strings.Join(users[text], "\n"), text)
	}
	return b.Bytes(), nil
}

// standardLibrary is its name in SBOMs.
const standardLibrary = "std"

func (g *Generator) licensesOf(path, version string) (*licenses, error) {
	dir := g.root
	if path != standardLibrary {
		p, err := module.EscapePath(path)
		if err != nil {
			return nil, err
		}
		v, err := module.EscapeVersion(version)
		if err != nil {
			return nil, err
		}
		dir = filepath.Join(g.cache, filepath.FromSlash(p)+"@"+v)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if found := g.read[dir]; found != nil {
		return found, nil
	}
	found, err := readLicenses(dir)
	if err != nil {
		return nil, fmt.Errorf("license of %s %s: %w", path, version, err)
	}
	g.read[dir] = found
	return found, nil
}

// readLicenses reads the licenses in the files of a directory. A file with a license must consist of
// it but for a quarter, which leaves space for the names of authors, and for licenses that no list has.
func readLicenses(dir string) (*licenses, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	found := &licenses{}
	for _, entry := range entries {
		if !entry.Type().IsRegular() || !licenseFile.MatchString(entry.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		found.texts = append(found.texts, strings.TrimRight(string(text), "\n")+"\n")
		if coverage := licensecheck.Scan(text); coverage.Percent >= 75 {
			for _, match := range coverage.Match {
				found.ids = append(found.ids, match.ID)
			}
		}
	}
	slices.Sort(found.ids)
	if found.ids = slices.Compact(found.ids); len(found.ids) == 0 {
		return nil, errors.New("none found in " + dir)
	}
	return found, nil
}

// licenseFile matches the names of files with licenses and notices, such as LICENSE, LICENSE-MIT.txt
// and NOTICE, but not license.go.
var licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice)([-.][^.]*)?(\.(md|txt))?$`)

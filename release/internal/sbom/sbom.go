// Package sbom writes software bills of materials (SBOM) of Go programs.
package sbom

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// Generator writes SBOMs. It is safe for concurrent use and reads the license of each module once.
type Generator struct {
	root, cache string // of Go: the standard library, and the downloaded modules

	mu       sync.Mutex
	licenses map[string]*cdx.Licenses // by directory
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
	return &Generator{root: lines[0], cache: lines[1], licenses: map[string]*cdx.Licenses{}}, nil
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
		if c.Licenses, err = g.licensesOf(c.Name, c.Version); err != nil {
			return nil, fmt.Errorf("SBOM of %s: license of %s %s: %w", program, c.Name, c.Version, err)
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

func (g *Generator) licensesOf(path, version string) (*cdx.Licenses, error) {
	dir := g.root
	if path != "std" {
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
	if found, ok := g.licenses[dir]; ok {
		return found, nil
	}
	found, err := detect(dir)
	if err != nil {
		return nil, err
	}
	g.licenses[dir] = found
	return found, nil
}

// detect returns the licenses in the files of a directory that have one, in the order of their SPDX
// identifiers. A file must consist of the license but for a quarter, which leaves space for the names
// of authors and for licenses that no list has.
func detect(dir string) (*cdx.Licenses, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, entry := range entries {
		name := strings.ToUpper(strings.TrimSuffix(strings.TrimSuffix(entry.Name(), ".md"), ".txt"))
		if !entry.Type().IsRegular() || !strings.HasPrefix(name, "LICENSE") && !strings.HasPrefix(name, "LICENCE") && name != "COPYING" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		if coverage := licensecheck.Scan(text); coverage.Percent >= 75 {
			for _, match := range coverage.Match {
				ids = append(ids, match.ID)
			}
		}
	}
	slices.Sort(ids)
	var found cdx.Licenses
	for _, id := range slices.Compact(ids) {
		found = append(found, cdx.LicenseChoice{License: &cdx.License{ID: id}})
	}
	if len(found) == 0 {
		return nil, errors.New("none found in " + dir)
	}
	return &found, nil
}

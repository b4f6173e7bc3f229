// Package sbom writes software bills of materials (SBOM) of Go programs.
package sbom

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/CycloneDX/cyclonedx-gomod/pkg/generate/bin"
	"github.com/rs/zerolog"
)

// Generate returns an SBOM of a program in CycloneDX JSON: its modules with their hashes, and the
// standard library. They are read from the program itself, for whichever platform it was built. The
// SBOM has no serial number, which would be random, and the given time.
func Generate(program, version string, date time.Time) ([]byte, error) {
	g, err := bin.NewGenerator(program, bin.WithIncludeStdlib(true), bin.WithVersionOverride(version),
		bin.WithLogger(zerolog.Nop()))
	if err != nil {
		return nil, err
	}
	bom, err := g.Generate()
	if err != nil {
		return nil, fmt.Errorf("SBOM of %s: %w", program, err)
	}
	bom.SerialNumber = ""
	bom.Metadata.Timestamp = date.UTC().Format(time.RFC3339)
	bom.Metadata.Component.Licenses = &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}}
	slices.SortFunc(*bom.Components, func(a, b cdx.Component) int { return strings.Compare(a.BOMRef, b.BOMRef) })
	var b bytes.Buffer
	e := cdx.NewBOMEncoder(&b, cdx.BOMFileFormatJSON).SetPretty(true)
	if err := e.EncodeVersion(bom, cdx.SpecVersion1_6); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

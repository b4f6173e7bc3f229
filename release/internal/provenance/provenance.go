// Package provenance describes how a release was built: an in-toto statement with the SLSA
// provenance predicate, version 1.
package provenance

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Types of in-toto and SLSA.
const (
	PayloadType   = "application/vnd.in-toto+json"
	statementType = "https://in-toto.io/Statement/v1"
	predicateType = "https://slsa.dev/provenance/v1"
	buildType     = "https://espalier.dev/release/build/v1"
)

// A Statement says about its subjects how they were built.
type Statement struct {
	Type          string     `json:"_type"`
	Subject       []Resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     Predicate  `json:"predicate"`
}

// A Resource is a file or another artifact with its digests.
type Resource struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest"`
}

// A Predicate is the SLSA provenance.
type Predicate struct {
	BuildDefinition BuildDefinition `json:"buildDefinition"`
	RunDetails      RunDetails      `json:"runDetails"`
}

// A BuildDefinition has all inputs of the build.
type BuildDefinition struct {
	BuildType            string            `json:"buildType"`
	ExternalParameters   map[string]any    `json:"externalParameters"`
	InternalParameters   map[string]string `json:"internalParameters"`
	ResolvedDependencies []Resource        `json:"resolvedDependencies"`
}

// RunDetails say who ran the build. They have no times, which would make each release different.
type RunDetails struct {
	Builder struct {
		ID string `json:"id"`
	} `json:"builder"`
}

// Parameters are the inputs of a release.
type Parameters struct {
	Version    string
	Repository string // URI
	Commit     string
	GoVersion  string
	Epoch      int64
	Platforms  []string
	Flavors    []string
	Builder    string // URI of the machine or service that builds
}

// New returns the provenance of files, by name, with their SHA-256.
func New(p Parameters, files []Resource) *Statement {
	s := &Statement{Type: statementType, PredicateType: predicateType, Subject: files}
	s.Predicate.BuildDefinition = BuildDefinition{
		BuildType: buildType,
		ExternalParameters: map[string]any{
			"version": p.Version, "platforms": p.Platforms, "flavors": p.Flavors,
			"source": map[string]string{"uri": "git+" + p.Repository, "revision": p.Commit},
		},
		InternalParameters: map[string]string{"go": p.GoVersion, "SOURCE_DATE_EPOCH": fmt.Sprint(p.Epoch)},
		ResolvedDependencies: []Resource{{
			URI: "git+" + p.Repository + "@" + p.Commit, Digest: map[string]string{"gitCommit": p.Commit},
		}},
	}
	s.Predicate.RunDetails.Builder.ID = p.Builder
	return s
}

// Parse reads a statement, and checks its types.
func Parse(data []byte) (*Statement, error) {
	s := &Statement{}
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("no in-toto statement: %w", err)
	}
	if s.Type != statementType || s.PredicateType != predicateType {
		return nil, errors.New("no in-toto statement with SLSA provenance v1")
	}
	return s, nil
}

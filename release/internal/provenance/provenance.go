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
	ExternalParameters   Parameters        `json:"externalParameters"`
	InternalParameters   map[string]string `json:"internalParameters"`
	ResolvedDependencies []Resource        `json:"resolvedDependencies"`
}

// Parameters are what the user of the build sets. With the version of Go and the key they determine
// all files.
type Parameters struct {
	Version   string   `json:"version"`
	Source    Source   `json:"source"`
	Platforms []string `json:"platforms"`
	Flavors   []string `json:"flavors"`
	BaseURL   string   `json:"baseURL"`
	Image     string   `json:"image"`
	// Epoch is the time of all files, in seconds since 1970.
	Epoch int64 `json:"sourceDateEpoch"`
	// Plain is set if the web page has its plain editor.
	Plain bool `json:"plain,omitempty"`
}

// A Source is a commit.
type Source struct {
	URI      string `json:"uri"`
	Revision string `json:"revision"`
}

// RunDetails say who ran the build. They have no times, which would make each release different.
type RunDetails struct {
	Builder struct {
		ID string `json:"id"`
	} `json:"builder"`
}

// New returns the provenance of files, by name, with their SHA-256. The builder is the URI of the
// machine or service that builds.
func New(p Parameters, goVersion, builder string, files []Resource) *Statement {
	s := &Statement{Type: statementType, PredicateType: predicateType, Subject: files}
	s.Predicate.BuildDefinition = BuildDefinition{
		BuildType:          buildType,
		ExternalParameters: p,
		InternalParameters: map[string]string{"go": goVersion},
		ResolvedDependencies: []Resource{{
			URI: p.Source.URI + "@" + p.Source.Revision, Digest: map[string]string{"gitCommit": p.Source.Revision},
		}},
	}
	s.Predicate.RunDetails.Builder.ID = builder
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

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"espalier.dev/analysis"
	"espalier.dev/api"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/cmd/espalier/internal/source"
	"espalier.dev/crd"
)

// recordedSemantics sets the semantics to those that the source was written with, unless the user
// has set them.
func (a *app) recordedSemantics(ctx context.Context, c *cobra.Command, src source.Source) error {
	set, err := a.environmentSemantics(c)
	if err != nil || set || a.config.Semantics != "" {
		return err
	}
	recorded, err := src.Semantics(ctx)
	if err != nil || recorded == "" {
		return err
	}
	return a.semantics.Set(recorded)
}

// storedDefinition returns a stored CRD, ready to use.
func storedDefinition(text []byte, o crd.Options) (*crd.Definition, error) {
	hub, err := decodeCRD(text, o.Semantics)
	if err != nil {
		return nil, err
	}
	d, err := crd.New(hub, o)
	if err == nil && d.Storage() == nil {
		err = errors.New("it has no storage version")
	}
	return d, err
}

// definitionIdentity returns the identity of a CRD.
func definitionIdentity(name string) input.Identity {
	return input.Identity{APIVersion: api.APIVersion, Kind: api.Kind, Name: name}
}

// failureKey identifies failures that are reported once.
type failureKey struct {
	definition string
	reason     source.Reason
}

// failureCount counts failures. first is the one with the smallest place.
type failureCount struct {
	count int
	first *source.Failure
}

// sourceFailures are the parts of a source that cannot be read. Those of a CRD and a reason are
// one finding: each object can be encrypted.
type sourceFailures map[failureKey]*failureCount

// add adds a failure. Those of manifests are reported at once, each with its position.
func (s sourceFailures) add(r *report.Reporter, f *source.Failure) {
	var problem *input.Problem
	if errors.As(f.Err, &problem) {
		r.Failure(*problem)
		return
	}
	key := failureKey{f.Object.Definition, f.Reason}
	c := s[key]
	if c == nil {
		c = &failureCount{first: f}
		s[key] = c
	}
	if c.count++; f.Object.Where() < c.first.Object.Where() {
		c.first = f
	}
}

// failureRule returns the rule for what cannot be read.
func failureRule(reason source.Reason) string {
	switch reason {
	case source.Encrypted:
		return ruleEncrypted
	case source.Forbidden:
		return ruleForbidden
	case source.Vanished:
		return ruleNotServed
	case source.Failing:
		return ruleNotListed
	}
	return input.Unreadable
}

// report reports the failures, in the order of the CRDs.
func (s sourceFailures) report(r *report.Reporter) {
	keys := make([]failureKey, 0, len(s))
	for key := range s {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b failureKey) int {
		if c := strings.Compare(a.definition, b.definition); c != 0 {
			return c
		}
		return int(a.reason) - int(b.reason)
	})
	for _, key := range keys {
		c := s[key]
		p := input.Problem{Rule: failureRule(key.reason), Message: c.first.Error(), Object: definitionIdentity(key.definition)}
		if c.count > 1 {
			p.Message += fmt.Sprintf(" (and %s)", analysis.Plural(c.count-1, "more object"))
		}
		r.Failure(p)
	}
}

// servedFinding returns the finding about objects that come from an API server. advice is what
// to do.
func servedFinding(advice string) report.Finding {
	return report.Finding{Finding: analysis.Finding{
		Rule: ruleServed, Severity: analysis.Info,
		Message: "these are objects as an API server serves them: unspecified fields and the stored version are not visible; " + advice,
	}}
}

package suite

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
)

// Candidate is a CRD that a suite may be for.
type Candidate struct {
	Name, File string
	// JSON is the CRD.
	JSON []byte
}

// Candidates are the CRDs from which that of a suite is chosen.
type Candidates struct {
	// File is the file of the suite.
	File string
	// Given are the CRDs of the command line, Named those in the files that the suite names,
	// Around those next to all suites, and Configured those of the configuration file.
	Given, Named, Around, Configured []Candidate
	// Cluster returns the CRDs of a cluster with a name or, if it is empty, of a kind. It is nil
	// if there is no cluster.
	Cluster func(name string, kind runtimeschema.GroupKind) ([]Candidate, error)
}

// Choose returns the CRD of the suite: the only one of the first source that has any. The command
// line takes precedence over the suite, which takes precedence over the configuration file, and that
// over the cluster, whose CRD is that of the suite's objects. The pointer is the place in the suite
// to which an error refers.
func (s *Suite) Choose(c Candidates) (_ Candidate, pointer string, _ error) {
	var sources [][]Candidate
	if len(s.Files) > 0 {
		pointer = "/crd"
		if len(c.Named) == 0 {
			return Candidate{}, pointer, fmt.Errorf("no CRD found in %s", strings.Join(s.Files, ", "))
		}
		sources = [][]Candidate{c.Given, c.Named, c.Configured}
	} else {
		same := slices.DeleteFunc(slices.Clone(c.Around), func(d Candidate) bool { return d.File != c.File })
		sources = [][]Candidate{c.Given, same, c.Around, c.Configured}
	}
	for i, source := range sources {
		fitting := slices.DeleteFunc(slices.Clone(source), func(d Candidate) bool { return s.Definition != "" && d.Name != s.Definition })
		switch len(fitting) {
		case 0:
			continue
		case 1:
			return fitting[0], pointer, nil
		}
		var places []string
		for _, d := range fitting {
			places = append(places, fmt.Sprintf("%s in %s", d.Name, d.File))
		}
		how := "select one with crd in the suite, or with --crd"
		if i == 0 {
			how = "--crd takes precedence over the suite, so pass only one of these"
		}
		return Candidate{}, pointer, fmt.Errorf("more than one CRD found: %s\n%s", how, strings.Join(places, "\n"))
	}
	if c.Cluster != nil {
		return s.fromCluster(c)
	}
	if s.Definition != "" {
		return Candidate{}, "/crdName", fmt.Errorf("CRD %s not found: name its file with --crd", s.Definition)
	}
	return Candidate{}, "", errors.New("no CRD found: name its file with crd in the suite, or with --crd")
}

// fromCluster returns the CRD of the suite in a cluster.
func (s *Suite) fromCluster(c Candidates) (_ Candidate, pointer string, _ error) {
	var kind runtimeschema.GroupKind
	what := "CRD " + s.Definition
	if s.Definition != "" {
		pointer = "/crdName"
	} else {
		types := s.types()
		if len(types) == 0 {
			return Candidate{}, "", errors.New("no CRD found: to find it in the cluster, base needs apiVersion and kind")
		}
		kind = types[0].GroupVersionKind().GroupKind()
		what = "CRD for " + types[0].APIVersion + " " + types[0].Kind
	}
	found, err := c.Cluster(s.Definition, kind)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("the cluster has no %s: name its file with crd in the suite, or with --crd", what)
	}
	if err != nil {
		return Candidate{}, pointer, err
	}
	return found[0], pointer, nil
}

// NeedsNoCRD reports whether all objects of the suite are of kinds that has reports, and the suite
// names no CRD. Objects without apiVersion and kind are of the returned type.
func (s *Suite) NeedsNoCRD(has func(apiVersion, kind string) bool) (metav1.TypeMeta, bool) {
	types := s.types()
	if len(types) == 0 || len(s.Files) > 0 || s.Definition != "" {
		return metav1.TypeMeta{}, false
	}
	return types[0], !slices.ContainsFunc(types, func(t metav1.TypeMeta) bool { return !has(t.APIVersion, t.Kind) })
}

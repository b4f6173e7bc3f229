package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"espalier.dev/api"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/cmd/espalier/internal/source"
)

// clusterGiven reports whether the flags name a cluster. It is a usage error if they name files
// with CRDs too: flag is the one that does.
func (f *sourceFlags) clusterGiven(c *cobra.Command, flag string) (bool, error) {
	if len(f.named(c)) == 0 {
		return false, nil
	}
	if c.Flags().Changed(flag) {
		return false, usageError(c, fmt.Errorf("--from-cluster and --%s exclude each other: %s reads CRDs from one place", flag, c.Name()))
	}
	return true, nil
}

// completeArgs completes arguments, unless the flags name a cluster: then they are names of CRDs,
// which completion does not ask the server for.
func (f *sourceFlags) completeArgs(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
		found, directive := complete(c, args, start)
		if len(f.named(c)) > 0 && directive&cobra.ShellCompDirectiveFilterFileExt != 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return found, directive
	}
}

// clusterItems returns the objects of a sequence of a source. What cannot be read is a problem.
func clusterItems(all iter.Seq2[source.Object, error], problem func(input.Problem)) (items []*input.Item, err error) {
	failed := func(f *source.Failure) { problem(failureProblem(f)) }
	err = source.Each(all, failed, func(o source.Object) error {
		it, err := o.AsItem()
		if failure := (*source.Failure)(nil); errors.As(err, &failure) {
			failed(failure)
			return nil
		}
		items = append(items, it)
		return err
	})
	return items, err
}

// failureProblem returns the problem with a CRD of a source that cannot be read.
func failureProblem(f *source.Failure) input.Problem {
	rule := failureRule(f.Reason)
	if f.Reason == source.Vanished {
		rule = ruleNoDefinitions
	}
	return input.Problem{Rule: rule, File: f.Object.Where(), Message: f.Err.Error(), Object: definitionIdentity(f.Object.Definition)}
}

// clusterCRDs reads the CRDs of the cluster that the flags name: those with the names or, if there
// are none, all. What cannot be read, and a cluster without CRDs, is a problem.
func (a *app) clusterCRDs(ctx context.Context, f *sourceFlags, names []string, problem func(input.Problem)) ([]*input.Item, error) {
	src, err := a.openCluster(f)
	if err != nil {
		return nil, err
	}
	if len(names) > 0 {
		return clusterItems(definitionsNamed(ctx, src, names), problem)
	}
	failed := false
	items, err := clusterItems(src.Definitions(ctx), func(p input.Problem) {
		failed = true
		problem(p)
	})
	if len(items) == 0 && err == nil && !failed {
		problem(input.Problem{Rule: ruleNoDefinitions, Message: "no CRD found in the cluster"})
	}
	return items, err
}

// definitionsNamed returns the CRDs with names.
func definitionsNamed(ctx context.Context, src source.Finder, names []string) iter.Seq2[source.Object, error] {
	return func(yield func(source.Object, error) bool) {
		for _, name := range names {
			o, err := src.Definition(ctx, name)
			if failure := (*source.Failure)(nil); errors.As(err, &failure) && failure.Reason == source.Vanished {
				failure.Err = fmt.Errorf("the cluster has no CRD %q: CRDs are named like crontabs.example.com", name)
			}
			if !yield(o, err) {
				return
			}
		}
	}
}

// resourceCRDs returns the CRDs of the resources that requests name, as explain does, and reads no
// other ones. It also returns the names of all resources of the cluster.
func resourceCRDs(ctx context.Context, src source.Finder, requests []string) (crds []*input.Item, names []string, err error) {
	resources, err := src.Resources(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, r := range resources {
		names = append(names, r.Names...)
	}
	for _, r := range requestedResources(resources, requests) {
		o, err := src.Definition(ctx, r.String())
		if failure := (*source.Failure)(nil); errors.As(err, &failure) && failure.Reason == source.Vanished {
			continue // a resource of Kubernetes, or of an API server behind this one
		}
		if err != nil {
			return nil, nil, err
		}
		it, err := o.AsItem()
		if err != nil {
			return nil, nil, err
		}
		crds = append(crds, it)
	}
	return crds, names, nil
}

// requestedResources returns the resources that requests name, of those that CRDs may define. If a
// request has a group, it names none of another group.
func requestedResources(resources []source.Resource, requests []string) (found []source.Resource) {
	for _, request := range requests {
		name, rest, _ := strings.Cut(request, ".")
		var all, inGroup []source.Resource
		for _, r := range resources {
			// The groups of CRDs are domains.
			if !strings.Contains(r.Group, ".") || r.Group == api.GroupName ||
				!slices.ContainsFunc(r.Names, func(n string) bool { return strings.EqualFold(n, name) }) {
				continue
			}
			all = append(all, r)
			if strings.Contains("."+rest+".", "."+r.Group+".") {
				inGroup = append(inGroup, r)
			}
		}
		if len(inGroup) > 0 {
			all = inGroup
		}
		for _, r := range all {
			if !slices.ContainsFunc(found, func(other source.Resource) bool { return other.GroupResource == r.GroupResource }) {
				found = append(found, r)
			}
		}
	}
	return found
}

// namedDefinitions reads CRDs for a command that describes resources: those of a cluster if the flags
// name one, else those of files, or nil if there are none. Of a cluster it reads those of the
// requested resources or, if there are none, all; names has the names of its resources.
func (a *app) namedDefinitions(c *cobra.Command, f *sourceFlags, files input.Flags, requests []string,
	r *report.Reporter) (ds *definitions, names []string, err error) {
	switch fromCluster := len(f.named(c)) > 0; {
	case fromCluster && len(requests) > 0:
		src, err := a.openCluster(f)
		if err != nil {
			return nil, nil, err
		}
		items, names, err := resourceCRDs(c.Context(), src, requests)
		return a.definitionsOf(items), names, err
	case fromCluster:
		items, err := a.clusterCRDs(c.Context(), f, nil, r.Failure)
		return a.definitionsOf(items), nil, err
	case len(files.Paths) > 0:
		ds, err = a.loadDefinitions(c.Context(), files, r.Failure)
	}
	return ds, nil, err
}

// definitionsOf returns CRDs in which objects and resources are looked up.
func (a *app) definitionsOf(items []*input.Item) *definitions {
	ds := a.noDefinitions()
	for _, it := range items {
		ds.Add(newDefinition(it, ds.semantics))
	}
	return ds
}

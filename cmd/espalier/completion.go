package main

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"espalier.dev/analysis/explain"
	"espalier.dev/api"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/crd"
	"espalier.dev/kinds/schemas"
)

// completeValues completes a flag with one of a set of values.
func completeValues(c *cobra.Command, flag string, values ...string) {
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// completeList completes a flag that is a comma-separated list of values. A value may have a
// description after a tab.
func completeList(c *cobra.Command, flag string, values func() []string) {
	_ = c.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, _ []string, start string) ([]string, cobra.ShellCompDirective) {
		return nextItems(start, values()), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	})
}

// nextItems returns the lists that start with the complete items of start and continue with
// one more value.
func nextItems(start string, values []string) (lists []string) {
	before := start[:strings.LastIndexByte(start, ',')+1]
	used := strings.Split(before, ",")
	for _, v := range values {
		name, _, _ := strings.Cut(v, "\t")
		if list := before + v; strings.HasPrefix(list, start) && !slices.Contains(used, name) {
			lists = append(lists, list)
		}
	}
	return lists
}

// completeSeverities completes a flag that is a list of RULE=SEVERITY.
func completeSeverities(c *cobra.Command, flag string, rules func() []string) {
	_ = c.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, _ []string, start string) ([]string, cobra.ShellCompDirective) {
		var values []string
		item := start[strings.LastIndexByte(start, ',')+1:]
		rule, _, hasSeverity := strings.Cut(item, "=")
		if hasSeverity {
			values = []string{rule + "=error", rule + "=warning", rule + "=info"}
		} else {
			for _, r := range rules() {
				name, title, _ := strings.Cut(r, "\t")
				values = append(values, name+"=\t"+title)
			}
		}
		return nextItems(start, values), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	})
}

// completionDefinitions reads CRDs for completion, as far as they can be read.
func (a *app) completionDefinitions(c *cobra.Command, flags func() input.Flags) (definitions []*crd.Definition) {
	if a.configure(c) != nil {
		return nil
	}
	read := flags()
	read.Build, read.Helm = nil, nil // programs that render take too long
	if len(read.Paths) == 0 || slices.Contains(read.Paths, "-") {
		return nil
	}
	ds, err := a.loadDefinitions(c.Context(), read, func(input.Problem) {})
	if err != nil {
		return nil
	}
	for _, d := range ds.All() {
		if base, err := d.base(); err == nil {
			definitions = append(definitions, base)
		}
	}
	return definitions
}

// completeResource completes RESOURCE[.FIELD...].
func (a *app) completeResource(flags func() input.Flags) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		definitions := a.completionDefinitions(c, flags)
		const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		dot := strings.LastIndexByte(start, '.')
		if dot < 0 {
			return withPrefix(start, resourceNames(definitions)), directive
		}
		apiVersion := ""
		if f := c.Flags().Lookup("api-version"); f != nil {
			apiVersion = f.Value.String()
		}
		return withPrefix(start, fieldNames(definitions, start[:dot], apiVersion)), directive
	}
}

// resourceNames returns the names of resources, with their kind and group as a description.
// Names that several resources have are followed by the group.
func resourceNames(definitions []*crd.Definition) (names []string) {
	type resource struct {
		group, name string
		names       api.CustomResourceDefinitionNames
	}
	var all []resource
	for _, k := range schemas.All() {
		all = append(all, resource{k.Group, k.FullName(), k.Names})
	}
	for _, d := range definitions {
		all = append(all, resource{d.Group(), d.Name(), d.Names()})
	}
	count := map[string]int{}
	for _, r := range all {
		count[r.names.Plural]++
	}
	for _, r := range all {
		plural := r.names.Plural
		if count[plural] > 1 {
			plural = r.name
		}
		group := "in group " + r.group
		if r.group == "" {
			group = "in the core group"
		}
		for _, name := range append([]string{plural}, r.names.ShortNames...) {
			names = append(names, name+"\t"+r.names.Kind+" "+group)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// fieldNames returns the fields below a resource or field, with their types.
func fieldNames(definitions []*crd.Definition, parent, apiVersion string) (names []string) {
	v, err := findResource(definitions, parent, apiVersion, "")
	if err != nil {
		return nil
	}
	doc, err := explain.Describe(v.Version, v.Path, explain.Options{})
	if err != nil || doc.Field == nil {
		return nil
	}
	field := doc.Field
	for len(field.Fields) == 0 && (field.Items != nil || field.Values != nil) {
		if field.Items != nil {
			field = field.Items
		} else {
			field = field.Values
		}
	}
	for _, f := range field.Fields {
		if name := f.Name; !strings.ContainsAny(name, ".[") {
			names = append(names, parent+"."+name+"\t"+f.Type)
		}
	}
	return names
}

// completeVersions completes a flag that names a version of a CRD.
func (a *app) completeVersions(c *cobra.Command, flag string, flags func(args []string) input.Flags) {
	_ = c.RegisterFlagCompletionFunc(flag, func(c *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
		var names []string
		for _, k := range namedKinds(args) {
			for _, v := range k.Versions {
				names = append(names, v.Name)
			}
		}
		for _, d := range a.completionDefinitions(c, func() input.Flags { return flags(args) }) {
			for _, v := range d.Versions() {
				names = append(names, v.Name())
			}
		}
		slices.Sort(names)
		return withPrefix(start, slices.Compact(names)), cobra.ShellCompDirectiveNoFileComp
	})
}

// namedKinds returns the built-in kinds that arguments name.
func namedKinds(args []string) (kinds []*schemas.Kind) {
	for _, arg := range args {
		name, _, _ := strings.Cut(arg, ".")
		kinds = append(kinds, schemas.Called(name)...)
	}
	return kinds
}

// completeKindOrPath completes an argument with a path, or with the name of a resource if no path
// starts like it.
func (a *app) completeKindOrPath(c *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
	if matches, err := filepath.Glob(a.dir.Path(start) + "*"); err != nil || start == "" || len(matches) > 0 {
		return completePaths(c, args, start)
	}
	return withPrefix(start, resourceNames(nil)), cobra.ShellCompDirectiveNoFileComp
}

// completeKinds completes a comma-separated list of kinds, of CRDs and built-in ones.
func (a *app) completeKinds(c *cobra.Command, flag string, flags func() input.Flags) {
	_ = c.RegisterFlagCompletionFunc(flag, func(c *cobra.Command, _ []string, start string) ([]string, cobra.ShellCompDirective) {
		var names []string
		for _, k := range schemas.All() {
			names = append(names, k.Names.Kind)
		}
		for _, d := range a.completionDefinitions(c, flags) {
			names = append(names, d.Names().Kind)
		}
		slices.Sort(names)
		return nextItems(start, slices.Compact(names)), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	})
}

func withPrefix(prefix string, names []string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, prefix) })
}

package kubeapiserver

import (
	_ "embed" // the table of flags
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"

	"espalier.dev/server"
)

// table lists the flags of kube-apiserver with their types, one in each line, by section of its
// help text. Section names end with a colon.
//
//go:embed flags.txt
var table string

// A flag of kube-apiserver has an effect if it is one of the options of the server, or of this
// package. All others are accepted and ignored.
type flags struct {
	set      *pflag.FlagSet
	sections cliflag.NamedFlagSets
	// ignored has the names of flags without effect.
	ignored map[string]bool
}

// ignoredSection is the section of the help text for flags without effect.
const ignoredSection = "ineffective"

// newFlags returns the flags of kube-apiserver. Those of own are not options of the server.
func newFlags(o *server.Options, own *pflag.FlagSet) (*flags, error) {
	f := &flags{set: pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError), ignored: map[string]bool{}}
	f.set.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	options := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.AddFlags(options)
	var without [][]string
	section := ""
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 1 && strings.HasSuffix(fields[0], ":"):
			section = strings.TrimSuffix(fields[0], ":")
		case len(fields) == 2:
			flag := own.Lookup(fields[0])
			if flag == nil {
				flag = options.Lookup(fields[0])
			}
			if flag == nil {
				without = append(without, fields)
				continue
			}
			f.sections.FlagSet(section).AddFlag(flag)
		case len(fields) > 0:
			return nil, fmt.Errorf("the table of flags has the line %q", line)
		}
	}
	for _, fields := range without {
		f.ignored[fields[0]] = true
		ignore(f.sections.FlagSet(ignoredSection), fields[0], fields[1])
	}
	for _, name := range f.sections.Order {
		f.set.AddFlagSet(f.sections.FlagSets[name])
	}
	return f, nil
}

// ignore adds a flag whose value is parsed like that of kube-apiserver and then ignored.
func ignore(set *pflag.FlagSet, name, kind string) {
	switch kind {
	case "bool":
		set.Bool(name, false, "")
	case "int", "int32":
		set.Int(name, 0, "")
	case "uint":
		set.Uint(name, 0, "")
	case "float":
		set.Float64(name, 0, "")
	case "duration":
		set.Duration(name, 0, "")
	case "strings":
		set.StringSlice(name, nil, "")
	default:
		// The last value counts for strings, and all of them for lists and maps: either way it
		// may have been given more than once.
		set.String(name, "", "")
	}
}

// given returns the names of the flags without effect that the command line has.
func (f *flags) given() []string {
	var names []string
	f.set.Visit(func(flag *pflag.Flag) {
		if f.ignored[flag.Name] {
			names = append(names, "--"+flag.Name)
		}
	})
	slices.Sort(names)
	return names
}

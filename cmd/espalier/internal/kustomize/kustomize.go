// Package kustomize reads kustomization files as far as other commands need them: which files of a
// directory are objects and which are patches, configurations or inputs of generators, what would
// be loaded from the network, and which patches apply to an object. [Builder] runs a program that
// builds a kustomization.
package kustomize

import (
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// FileNames returns the names of kustomization files, in the order in which kustomize looks for
// them.
func FileNames() []string {
	return []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}
}

// IsFile reports whether a file name is that of a kustomization file.
func IsFile(name string) bool { return slices.Contains(FileNames(), name) }

// Role is what a kustomization uses a file for.
type Role uint8

const (
	// None is the role of a file that a kustomization does not name.
	None Role = iota
	// Resource is the role of a file with objects.
	Resource
	// Patch is the role of a file that changes objects.
	Patch
	// Configuration is the role of a file that configures kustomize or one of its plugins.
	Configuration
	// GeneratorInput is the role of a file that becomes part of a generated object.
	GeneratorInput
)

// Kustomization is what a kustomization file says about other files. Paths are relative to its
// directory, with slashes.
type Kustomization struct {
	// files are the roles of files and directories. A directory stands for all its files.
	files map[string]Role
	// Directories are the kustomizations that it includes.
	Directories []string
	// Remote lists what is loaded from the network, as it is written.
	Remote []string
	// component is set for a component.
	component bool
	// Patches are the patches that it applies.
	Patches []PatchSource
}

// Resources returns the files with objects, sorted.
func (k *Kustomization) Resources() (files []string) {
	for file, role := range k.files {
		if role == Resource {
			files = append(files, file)
		}
	}
	slices.Sort(files)
	return files
}

// PatchSource is a patch in a file, or inline.
type PatchSource struct {
	// Path is the file of the patch, or "" if Text is the patch.
	Path, Text string
	// Target selects objects by their fields. Patches without a target name their object.
	Target map[string]string
}

// Parse parses a kustomization file. Parts that are malformed are skipped: kustomize reports them.
func Parse(data []byte) (*Kustomization, error) {
	var fields map[string]any
	if err := yaml.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	k := &Kustomization{files: map[string]Role{}, component: text(fields["kind"]) == "Component"}
	for _, name := range []string{"resources", "bases", "components", "crds"} {
		for _, text := range texts(fields[name]) {
			k.include(text)
		}
	}
	for _, name := range []string{"patches", "patchesStrategicMerge", "patchesJson6902"} {
		for _, value := range list(fields[name]) {
			k.patch(value)
		}
	}
	for _, name := range []string{"configurations", "generators", "transformers", "validators"} {
		for _, text := range texts(fields[name]) {
			if isInline(text) {
				continue
			}
			k.use(text, Configuration)
			// Plugins can be those that another kustomization builds.
			if name != "configurations" && !hasExtension(text) && !isRemote(text) {
				k.Directories = append(k.Directories, clean(text))
			}
		}
	}
	k.use(text(object(fields["openapi"])["path"]), Configuration)
	for _, value := range list(fields["replacements"]) {
		k.use(text(object(value)["path"]), Configuration)
	}
	for _, name := range []string{"configMapGenerator", "secretGenerator"} {
		for _, value := range list(fields[name]) {
			k.generator(object(value))
		}
	}
	k.helm(fields)
	return k, nil
}

// include adds an entry of resources, bases, components or crds: a file, a directory, or a URL.
func (k *Kustomization) include(entry string) {
	switch {
	case isRemote(entry):
		k.Remote = append(k.Remote, entry)
	case hasExtension(entry):
		k.use(entry, Resource)
	default:
		k.Directories = append(k.Directories, clean(entry))
	}
}

// use sets the role of a file. What is an object stays one.
func (k *Kustomization) use(file string, role Role) {
	if isRemote(file) {
		k.Remote = append(k.Remote, file)
		return
	}
	if file == "" {
		return
	}
	if file = clean(file); k.files[file] != Resource {
		k.files[file] = role
	}
}

// patch adds an entry of patches, patchesStrategicMerge or patchesJson6902.
func (k *Kustomization) patch(value any) {
	if entry, ok := value.(string); ok {
		if isInline(entry) {
			k.Patches = append(k.Patches, PatchSource{Text: entry})
			return
		}
		k.use(entry, Patch)
		k.Patches = append(k.Patches, PatchSource{Path: clean(entry)})
		return
	}
	fields := object(value)
	p := PatchSource{Text: text(fields["patch"])}
	if file := text(fields["path"]); file != "" {
		k.use(file, Patch)
		p.Path = clean(file)
	}
	for name, value := range object(fields["target"]) {
		if p.Target == nil {
			p.Target = map[string]string{}
		}
		p.Target[name] = text(value)
	}
	k.Patches = append(k.Patches, p)
}

// generator adds the inputs of a generator of ConfigMaps or Secrets.
func (k *Kustomization) generator(fields map[string]any) {
	for _, entry := range texts(fields["files"]) {
		if _, file, named := strings.Cut(entry, "="); named {
			entry = file
		}
		k.use(entry, GeneratorInput)
	}
	for _, entry := range append(texts(fields["envs"]), text(fields["env"])) {
		k.use(entry, GeneratorInput)
	}
}

// helm adds the charts, and the files with their values.
func (k *Kustomization) helm(fields map[string]any) {
	home := text(object(fields["helmGlobals"])["chartHome"])
	if home == "" {
		home = "charts"
	}
	for _, name := range []string{"helmCharts", "helmChartInflationGenerator"} {
		for _, value := range list(fields[name]) {
			chart := object(value)
			for _, file := range append(texts(chart["additionalValuesFiles"]), text(chart["valuesFile"]), text(chart["values"])) {
				k.use(file, GeneratorInput)
			}
			title := text(chart["name"])
			if title == "" {
				title = text(chart["chartName"])
			}
			repository := text(chart["repo"])
			if repository == "" {
				repository = text(chart["chartRepoUrl"])
			}
			if repository != "" {
				title = strings.TrimSuffix(repository, "/") + "/" + title
			}
			k.Remote = append(k.Remote, "Helm chart "+title)
			k.use(home, GeneratorInput)
		}
	}
}

// Role returns the role of a file, whose path is relative to the directory of the kustomization.
func (k *Kustomization) Role(file string) Role {
	for at := file; at != "." && at != "/"; at = path.Dir(at) {
		role, ok := k.files[at]
		if !ok || at != file && role == Resource {
			continue
		}
		return role
	}
	return None
}

// NamedLikePatch reports whether a file that no kustomization names is a patch by its name, as
// those that the scaffold of kubebuilder comments out: it is in a directory patches, or its name
// has the word patch.
func NamedLikePatch(file string) bool {
	if slices.ContainsFunc(strings.Split(path.Dir(file), "/"), func(dir string) bool { return dir == "patches" || dir == "patch" }) {
		return true
	}
	base := strings.TrimSuffix(path.Base(file), path.Ext(file))
	return slices.Contains(strings.FieldsFunc(base, func(c rune) bool { return c == '_' || c == '-' || c == '.' }), "patch")
}

// isInline reports whether an entry that may be a path is a document instead.
func isInline(entry string) bool {
	return strings.Contains(strings.TrimSpace(entry), "\n") || strings.HasPrefix(strings.TrimSpace(entry), "{")
}

// isRemote reports whether an entry is loaded from the network: a URL, or the short form of a
// repository.
func isRemote(entry string) bool {
	if strings.Contains(entry, "://") || strings.HasPrefix(entry, "git@") || strings.HasPrefix(entry, "git::") || strings.Contains(entry, "?ref=") {
		return true
	}
	first, _, _ := strings.Cut(entry, "/")
	host, _, _ := strings.Cut(first, ":")
	return slices.Contains([]string{"github.com", "gitlab.com", "bitbucket.org", "gh"}, strings.ToLower(host)) && first != entry ||
		strings.Contains(first, "@") && strings.Contains(first, ":")
}

// hasExtension reports whether an entry is the path of a file and not of a directory.
func hasExtension(entry string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(path.Ext(entry)))
}

func clean(entry string) string { return path.Clean(strings.ReplaceAll(entry, `\`, "/")) }

func text(value any) string {
	s, _ := value.(string)
	return s
}

func list(value any) []any {
	values, _ := value.([]any)
	return values
}

func object(value any) map[string]any {
	fields, _ := value.(map[string]any)
	return fields
}

func texts(value any) (all []string) {
	for _, value := range list(value) {
		if s := text(value); s != "" {
			all = append(all, s)
		}
	}
	return all
}

package input

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"espalier.dev/cmd/espalier/internal/kustomize"
	"espalier.dev/cmd/espalier/internal/render"
	"espalier.dev/internal/yamlx"
)

// kustomizations holds what is known of directories.
type kustomizations map[string]kustomizationDir

// kustomizationDir is a directory. The kustomization is nil if there is none.
type kustomizationDir struct {
	*kustomize.Kustomization
	// root is set for the root of a Git repository: what is above does not belong to it.
	root bool
}

// isKustomize reports whether kustomize uses a file, which is not an object: a kustomization file,
// or what one in its directory or above names as a patch, a configuration, or the input of a
// generator. Kustomize does not read files outside of the directory of a kustomization.
func (r *reader) isKustomize(f file) bool {
	if r.flags.ReadKustomize || f.named && r.flags.Keep == Everything {
		return false
	}
	if kustomize.IsFile(filepath.Base(f.path)) {
		return true
	}
	above := r.parents(f)
	if !above.kustomized {
		return false
	}
	var found kustomize.Role
	nearest := true
	for i, dir := range above.names {
		k := r.kustomization(f.in, dir)
		if k.Kustomization != nil {
			full, err := r.flags.Git.Dir().Abs(f.in.local(f.path))
			if err != nil {
				return false
			}
			names := strings.Split(filepath.ToSlash(full), "/")
			below := strings.Join(names[len(names)-1-i:], "/")
			role := k.Role(below)
			if role == kustomize.None && nearest && kustomize.NamedLikePatch(below) {
				role = kustomize.Patch
			}
			nearest = false
			if role == kustomize.Resource {
				return false
			}
			found = max(found, role)
		}
		if k.root {
			break
		}
	}
	return found != kustomize.None
}

// directory is a directory of a tree, as it is named.
type directory struct {
	in   tree
	name string
}

// parents are the directories above a file.
type parents struct {
	names []string
	// kustomized is set if one of them, up to the root of the repository, has a kustomization.
	kustomized bool
}

// parents returns the directories above a file. They are the same for all files of a directory.
func (r *reader) parents(f file) parents {
	d := directory{f.in, f.path[:strings.LastIndexByte(filepath.ToSlash(f.path), '/')+1]}
	above, ok := r.above[d]
	if ok {
		return above
	}
	above.names = f.in.parents(f.path)
	for _, dir := range above.names {
		k := r.kustomization(f.in, dir)
		above.kustomized = above.kustomized || k.Kustomization != nil
		if k.root {
			break
		}
	}
	if r.above == nil {
		r.above = map[directory]parents{}
	}
	r.above[d] = above
	return above
}

// kustomization returns the kustomization of a directory.
func (r *reader) kustomization(in tree, dir string) kustomizationDir {
	k, ok := r.kustomizations[dir]
	if ok {
		return k
	}
	for _, name := range kustomize.FileNames() {
		if data, err := contentOf(in, in.join(dir, name)); err == nil {
			k.Kustomization, _ = kustomize.Parse(data) // kustomize reports what is wrong with it
			break
		}
	}
	_, err := in.stat(in.join(dir, ".git"))
	k.root = err == nil
	if r.kustomizations == nil {
		r.kustomizations = kustomizations{}
	}
	r.kustomizations[dir] = k
	return k
}

// webhookPatches holds the patches of the kustomizations of a tree that make webhooks convert the
// objects of CRDs. It is safe for concurrent use.
type webhookPatches struct {
	mu sync.Mutex
	// reader has the kustomizations.
	reader reader
	dirs   map[string][]*kustomize.WebhookPatch
}

// ConvertedByPatch reports whether a kustomization in the directory of the CRD, or above, patches it
// so that a webhook converts its objects: the layout of kubebuilder has CRDs without their
// conversion.
func (it *Item) ConvertedByPatch() bool {
	if it.in == nil {
		return false
	}
	w := it.in.webhookPatches()
	w.mu.Lock()
	defer w.mu.Unlock()
	above, root := it.in.parents(it.File), ""
	for i, dir := range above {
		if w.reader.kustomization(it.in, dir).root {
			above, root = above[:i+1], dir
			break
		}
	}
	for _, dir := range above {
		if slices.ContainsFunc(w.of(it.in, dir, cmp.Or(root, dir)), func(p *kustomize.WebhookPatch) bool { return p.Converts(it.Name()) }) {
			return true
		}
	}
	return false
}

// of returns the patches of the kustomization in a directory. Files outside of root are not read.
func (w *webhookPatches) of(in tree, dir, root string) []*kustomize.WebhookPatch {
	found, ok := w.dirs[dir]
	if ok {
		return found
	}
	if k := w.reader.kustomization(in, dir); k.Kustomization != nil {
		for _, patch := range k.Patches {
			text := patch.Text
			if patch.Path != "" {
				file := in.join(dir, filepath.FromSlash(patch.Path))
				if !in.contains(root, file) {
					continue
				}
				data, _ := contentOf(in, file) // kustomize reports it
				text = string(data)
			}
			if p := patch.Webhook(text); p != nil {
				found = append(found, p)
			}
		}
	}
	if w.dirs == nil {
		w.dirs = map[string][]*kustomize.WebhookPatch{}
	}
	w.dirs[dir] = found
	return found
}

// contentOf returns the content of a file of kustomize. Like other documents it must not exceed a
// limit.
func contentOf(in tree, path string) ([]byte, error) {
	open, err := in.open(path)
	if err != nil {
		return nil, err
	}
	defer open.Close()
	data, err := io.ReadAll(io.LimitReader(open, yamlx.DefaultMaxDocument+1))
	if err != nil {
		return nil, err
	}
	if len(data) > yamlx.DefaultMaxDocument {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("it is larger than %d MiB", yamlx.DefaultMaxDocument>>20)}
	}
	return data, nil
}

// kustomizationFile returns the name of the kustomization file in a directory, or "".
func kustomizationFile(entries []fs.DirEntry) string {
	for _, name := range kustomize.FileNames() {
		if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == name && !e.IsDir() }) {
			return name
		}
	}
	return ""
}

// kustomized reads what the kustomization of a directory builds, in place of what the directory
// contains, or returns false if it is not built.
func (r *reader) kustomized(x rendering) (bool, error) {
	if r.flags.Build == nil || r.flags.BuildNamed && r.flags.Recursive {
		return false, nil
	}
	if r.flags.Unchanged != nil && !slices.ContainsFunc(r.included(x.in, x.path), func(dir string) bool { return !r.unchanged(x.in, dir) }) {
		return true, nil
	}
	if !r.flags.BuildNamed {
		return true, r.render(x)
	}
	if r.later != nil && r.visit == nil {
		return r.later(x) // nothing is read
	}
	text, err := r.buildText(x)
	var remote *kustomize.RemoteError
	switch {
	case errors.Is(err, render.ErrMissing), errors.As(err, &remote):
		r.unbuilt = err
		return false, nil
	}
	return true, r.built(x, text, err)
}

// build reads what the kustomization of a directory builds.
func (r *reader) build(x rendering) error {
	text, err := r.buildText(x)
	return r.built(x, text, err)
}

// errComponent is returned for a component, which only a kustomization that includes it can build.
var errComponent = errors.New("it is a component")

// buildText returns what a kustomization builds.
func (r *reader) buildText(x rendering) ([]byte, error) {
	if data, err := contentOf(x.in, x.in.join(x.path, x.kustomization)); err != nil {
		return nil, err
	} else if kustomize.IsComponent(data) {
		return nil, errComponent
	}
	read := func(path string) ([]byte, error) { return contentOf(r.flags.Git.files, path) }
	if in, ok := x.in.(osTree); ok {
		return r.flags.Build.Build(r.ctx, in.dir, x.path, read)
	}
	return r.flags.Build.BuildCopy(r.ctx, x.path, func(build func(string, kustomize.Reader) ([]byte, error)) ([]byte, error) {
		return render.WithTemp(func(dir string) ([]byte, error) {
			prefix := x.in.join("", "")
			for _, from := range r.included(x.in, x.path) {
				if err := newCopier(r.ctx, x.in, "").directory(from, filepath.Join(dir, filepath.FromSlash(strings.TrimPrefix(from, prefix)))); err != nil {
					return nil, err
				}
			}
			text, err := build(filepath.Join(dir, filepath.FromSlash(strings.TrimPrefix(x.path, prefix))), read)
			var failure *render.Failure
			if errors.As(err, &failure) {
				// Paths in the copy mean nothing to the user.
				failure.Message = strings.ReplaceAll(failure.Message, dir+string(filepath.Separator), prefix)
			}
			return text, err
		})
	})
}

// included returns the directory of a kustomization and those of all that it includes, without the
// ones that are below another.
func (r *reader) included(in tree, dir string) []string {
	all := r.directories(in, dir)
	root := in.join("", "")
	return slices.DeleteFunc(slices.Clone(all), func(at string) bool {
		return slices.ContainsFunc(all, func(above string) bool {
			return at != above && (above == root || strings.HasPrefix(at, above+"/"))
		})
	})
}

// directories returns the directory of a kustomization and those of all that it includes.
func (r *reader) directories(in tree, dir string) []string {
	all := []string{dir}
	for i := 0; i < len(all) && len(all) < maxIncluded; i++ {
		k := r.kustomization(in, all[i])
		if k.Kustomization == nil {
			continue
		}
		for _, below := range k.Directories {
			if at := in.join(all[i], below); !slices.Contains(all, at) {
				if info, err := in.stat(at); err == nil && info.IsDir() {
					all = append(all, at)
				}
			}
		}
	}
	return all
}

// maxIncluded is the maximum number of directories that a kustomization of a revision includes.
const maxIncluded = 1000

// built reads what a kustomization has built.
func (r *reader) built(x rendering, text []byte, err error) error {
	var unreadable *fs.PathError
	switch {
	case err == nil:
		return r.builtDocuments(x, text)
	case r.ctx.Err() != nil:
		return r.ctx.Err()
	case errors.Is(err, errComponent):
		r.flags.Skipped.Count(KustomizeFile)
	case errors.As(err, &unreadable) && unreadable.Path == x.in.join(x.path, x.kustomization):
		r.fail(unreadable.Path, Unreadable, "cannot read: %v", Reason(err))
	default:
		r.fail(x.path, Unrendered, "cannot build the kustomization: %v", err)
	}
	return nil
}

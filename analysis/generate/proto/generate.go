package proto

import (
	"fmt"
	"path"

	"espalier.dev/analysis/generate"
)

// Options configure Generate.
type Options struct {
	// GoPackage is the import path of the output directory, for the option go_package, which
	// compilers to Go need. If it is empty, the files do not have the option.
	GoPackage string
}

// Generate returns the .proto file and the lock file of each package. existing are the files
// of an earlier run, among them the lock files. The error is a [LockError] with the name of
// the file.
func Generate(packages []*generate.Package, existing generate.Files, o Options) (generate.Files, error) {
	files := generate.Files{}
	for _, p := range packages {
		name := p.Dir() + "/types.proto"
		lockName := name + ".lock"
		lock := NewLock(PackageName(p.Group, p.Version))
		switch old, ok := existing[lockName]; {
		case ok:
			var err error
			if lock, err = ParseLock(old, lock.pkg); err != nil {
				return nil, fmt.Errorf("%s: %w", lockName, err)
			}
		case existing[name] != nil:
			return nil, fmt.Errorf("%s: %w", lockName, &LockError{LockMissing, name + " was generated with it"})
		}
		f := NewFile(p, lock)
		if o.GoPackage != "" {
			f.goPackage = path.Join(o.GoPackage, p.Dir())
		}
		files[name], files[lockName] = f.Text(), lock.Bytes()
	}
	return files, nil
}

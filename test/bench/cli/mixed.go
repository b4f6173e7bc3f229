package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// The files of a repository that keeps CRDs and objects together.
const (
	mixedDefinitions = 466
	mixedObjects     = 5556
)

// mixed compares the programs on a directory of CRDs and objects, as repositories have them: ours
// finds the CRDs of objects in the same directory, and validates the CRDs too. kubeconform uses
// converted schemas, and skips the CRDs. kubectl-validate cannot do either.
func mixed(ctx context.Context, dir string, programs []program, in *inputs, rounds int) error {
	out := *in
	out.dir = filepath.Join(dir, "mixed")
	if err := os.RemoveAll(out.dir); err != nil {
		return err
	}
	crds, err := filepath.Glob(filepath.Join(in.crds, "*.yaml"))
	if err != nil {
		return err
	}
	objects, err := filepath.Glob(filepath.Join(in.dir, "yaml", "*.yaml"))
	if err != nil {
		return err
	}
	crds, objects = crds[:min(len(crds), mixedDefinitions)], objects[:min(len(objects), mixedObjects)]
	for _, file := range slices.Concat(crds, objects) {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := write(filepath.Join(out.dir, "yaml", filepath.Base(file)), text); err != nil {
			return err
		}
	}
	var compared []program
	for _, p := range programs {
		if p.mixed != nil {
			p.args = p.mixed
			compared = append(compared, p)
		}
	}
	fmt.Printf("one directory: %d CRDs, %d objects\n\n", len(crds), len(objects))
	return sideBySide(ctx, compared, &out, "yaml", rounds)
}

package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"espalier.dev/analysis/lookup"
	"espalier.dev/cmd/espalier/internal/input"
)

// skipFlags are the flags that skip objects.
type skipFlags struct {
	missing, builtin bool
	kinds            []string
}

// addSkipFlags adds --ignore-missing-crds, --skip-builtin-kinds and --skip-kind.
func addSkipFlags(c *cobra.Command, flags *skipFlags) {
	c.Flags().BoolVar(&flags.missing, "ignore-missing-crds", false, "skip objects of unknown kinds, in groups that no CRD has")
	c.Flags().BoolVar(&flags.builtin, "skip-builtin-kinds", false, "skip objects of Kubernetes' own kinds, such as Deployments")
	c.Flags().StringSliceVar(&flags.kinds, "skip-kind", nil, "comma-separated `KINDS` to skip, as Kind, group/Kind or group/version/Kind; repeatable")
	groupFlags(c.Flags(), checkFlags, "ignore-missing-crds", "skip-builtin-kinds", "skip-kind")
}

// check returns an error if a kind is malformed.
func (f *skipFlags) check() error {
	for _, kind := range f.kinds {
		parts := strings.Split(kind, "/")
		for _, part := range parts {
			if part == "" || len(parts) > 3 {
				return fmt.Errorf("--skip-kind=%s: must be Kind, group/Kind or group/version/Kind", kind)
			}
		}
	}
	return nil
}

// byKind returns why an object is skipped because of its kind, or "".
func (f *skipFlags) byKind(it *input.Item) string {
	if len(f.kinds) == 0 || it.Kind() == "" {
		return ""
	}
	group := lookup.KindOf(it).Group
	for _, kind := range f.kinds {
		// The core group has no name, so that v1/Secret is a version and a kind.
		switch kind {
		case it.Kind(), group + "/" + it.Kind(), it.APIVersion() + "/" + it.Kind():
			return "skipped by --skip-kind=" + kind
		}
	}
	return ""
}

// byBuiltin returns why objects of built-in kinds are skipped, or "".
func (f *skipFlags) byBuiltin() string {
	if !f.builtin {
		return ""
	}
	return "skipped by --skip-builtin-kinds"
}

// byError returns why an object is skipped because its CRD is missing, or "".
func (f *skipFlags) byError(err error) string {
	var missing *lookup.Missing
	if f.missing && errors.As(err, &missing) && missing.Unrelated {
		return missing.Message
	}
	return ""
}

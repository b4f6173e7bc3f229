package main

import (
	"runtime/debug"
	"strings"
)

// kubernetesLevel is the Kubernetes version that the kubernetes semantics and the built-in kinds
// follow.
const kubernetesLevel = "1.37"

// The linker sets these variables in release builds, with -X main.version=v1.0.0,
// -X main.revision=COMMIT and -X main.date=2026-11-17T12:00:00Z. They take precedence over what
// the go command records. Nothing else writes them.
var version, revision, date string

// build describes how the program was built. Fields that are not known are empty.
type build struct {
	// version starts with v, or is devel.
	version string
	// revision is the commit, and time is when it was made.
	revision, time string
	// modified reports whether the source differed from the commit.
	modified bool
}

func buildVersion() build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return buildOf(info, build{version: version, revision: revision, time: date})
}

// buildOf joins what the linker has set with what the go command has recorded.
func buildOf(info *debug.BuildInfo, linked build) build {
	b := build{version: "devel"}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.version = v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.revision = s.Value
		case "vcs.time":
			b.time = s.Value
		case "vcs.modified":
			b.modified = s.Value == "true"
		}
	}
	if linked.version != "" {
		b.version = "v" + strings.TrimPrefix(linked.version, "v")
	}
	if linked.revision != "" {
		// The time and the state of the source belong to a commit.
		b.revision, b.time, b.modified = linked.revision, "", false
	}
	if linked.time != "" {
		b.time = linked.time
	}
	return b
}

// release returns the version if others can install it, where linked is the one that the linker has set. The
// version of a work tree names a commit that need not be published.
func (b build) release(linked string) string {
	if b.version == "devel" || linked == "" && b.revision != "" {
		return ""
	}
	return b.version
}

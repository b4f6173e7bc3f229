package main

import (
	"runtime/debug"
)

// kubernetesLevel is the Kubernetes version that the kubernetes semantics and the built-in kinds
// follow.
const kubernetesLevel = "1.37"

// build describes how the program was built.
type build struct {
	version, revision, time string
	modified                bool
}

func buildVersion() build {
	b := build{version: "devel"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
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
	return b
}

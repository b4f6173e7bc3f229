package main

import (
	"bytes"
	"encoding/json"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestBuildOf checks what is known about a build of a release, of a module and of a work tree.
func TestBuildOf(t *testing.T) {
	t.Parallel()
	const commit, other = "0123456789012345678901234567890123456789", "9876543210987654321098765432109876543210"
	tree := func(version string) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: version}, Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: commit}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}, {Key: "vcs.modified", Value: "true"}}}
	}
	for name, test := range map[string]struct {
		info         *debug.BuildInfo
		linked, want build
		release      string
	}{
		"nothing recorded": {&debug.BuildInfo{}, build{}, build{version: "devel"}, ""},
		"go run":           {&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, build{}, build{version: "devel"}, ""},
		"go install":       {&debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, build{}, build{version: "v1.2.3"}, "v1.2.3"},
		"work tree":        {tree("v1.2.4-0.2026"), build{}, build{"v1.2.4-0.2026", commit, "2026-01-02T03:04:05Z", true}, ""},
		"release": {&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, build{version: "v1.2.3", revision: other, time: "2026-02-03T04:05:06Z"},
			build{"v1.2.3", other, "2026-02-03T04:05:06Z", false}, "v1.2.3"},
		"release without v":           {&debug.BuildInfo{}, build{version: "1.2.3"}, build{version: "v1.2.3"}, "v1.2.3"},
		"release over a work tree":    {tree("v1"), build{version: "v1.2.3", revision: other}, build{version: "v1.2.3", revision: other}, "v1.2.3"},
		"version only, in a worktree": {tree("v1"), build{version: "v1.2.3"}, build{"v1.2.3", commit, "2026-01-02T03:04:05Z", true}, "v1.2.3"},
	} {
		if got := buildOf(test.info, test.linked); got != test.want {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		} else if release := got.release(test.linked.version); release != test.release {
			t.Errorf("%s: is release %q, want %q", name, release, test.release)
		}
	}
}

// TestVersionFields checks the names of the fields, which programs read, and that all formats
// agree.
func TestVersionFields(t *testing.T) {
	t.Parallel()
	full := build{"v1.2.3", "0123456789012345678901234567890123456789", "2026-01-02T03:04:05Z", true}
	for _, test := range []struct {
		build build
		keys  string
		lines []string
	}{
		{full, "commit date defaultSemantics go kubernetes modified platform semantics server version", []string{
			"espalier v1.2.3",
			"  commit      0123456789012345678901234567890123456789 (2026-01-02T03:04:05Z, with changes)",
			"  go          " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH,
			"  kubernetes  " + kubernetesLevel,
			"  semantics   kep (default), kubernetes",
			"  server      yes",
		}},
		{build{version: "v1.2.3"}, "defaultSemantics go kubernetes platform semantics server version", []string{
			"espalier v1.2.3",
			"  go          " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH,
		}},
		{build{version: "v1.2.3", revision: "abc"}, "commit defaultSemantics go kubernetes platform semantics server version", []string{
			"espalier v1.2.3",
			"  commit      abc",
		}},
	} {
		outputs := map[string]string{}
		for _, format := range []string{"text", "json", "yaml"} {
			var stdout bytes.Buffer
			a := &app{stdout: &stdout}
			if err := a.version(test.build, format); err != nil {
				t.Fatal(err)
			}
			outputs[format] = stdout.String()
		}
		got := strings.Split(outputs["text"], "\n")
		if len(got) < len(test.lines) || !slices.Equal(got[:len(test.lines)], test.lines) {
			t.Errorf("got %q, want %q", got, test.lines)
		}
		fromYAML, err := yaml.YAMLToJSON([]byte(outputs["yaml"]))
		if err != nil {
			t.Fatal(err)
		}
		for format, text := range map[string][]byte{"json": []byte(outputs["json"]), "yaml": fromYAML} {
			var fields map[string]any
			if err := json.Unmarshal(text, &fields); err != nil {
				t.Fatal(err)
			}
			var keys []string
			for k := range fields {
				keys = append(keys, k)
			}
			slices.Sort(keys)
			if got := strings.Join(keys, " "); got != test.keys || fields["version"] != "v1.2.3" || fields["server"] != true {
				t.Errorf("%s: got %s: %v, want %s", format, got, fields, test.keys)
			}
		}
	}
}

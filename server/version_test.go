package server

import "testing"

// TestBuild checks what /version says about a build.
func TestBuild(t *testing.T) {
	for build, state := range map[Build]string{
		{}: "",
		{Commit: "abc", Date: "2026-01-02T03:04:05Z"}: "clean",
		{Commit: "abc", Modified: true}:               "dirty",
	} {
		v, err := (&Options{Build: build}).applyFeatures()
		if err != nil {
			t.Fatal(err)
		}
		if got := v.Info(); got.GitVersion != "v"+KubernetesVersion+"+espalier" || got.GitCommit != build.Commit || got.BuildDate != build.Date || got.GitTreeState != state {
			t.Errorf("%+v: got %+v", build, got)
		}
	}
}

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"espalier.dev/cmd/espalier/internal/helm"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/kustomize"
)

// addRenderFlags adds the flags about charts and kustomizations.
func addRenderFlags(c *cobra.Command, flags *input.Flags) {
	builder, renderer := new(kustomize.Builder), &helm.Renderer{KubeVersion: "v" + kubernetesLevel + ".0"}
	flags.Build, flags.BuildNamed, flags.Helm, flags.HelmNamed = builder, true, renderer, true
	kustomizeModes, helmModes := []string{"auto", "build", "skip", "read"}, []string{"auto", "render", "read"}
	c.Flags().Var(&modeFlag{value: "auto", modes: kustomizeModes, set: func(mode string) {
		flags.ReadKustomize, flags.BuildNamed, flags.Build = mode == "read", mode == "auto", builder
		if mode == "skip" || mode == "read" {
			flags.Build = nil
		}
	}}, "kustomize",
		"handling of directories with a kustomization: `build` them, skip files that are no objects, such as patches, or read all files;\n"+
			"auto builds those that PATH names without -R")
	c.Flags().Lookup("kustomize").NoOptDefVal = "build"
	c.Flags().BoolVar(&builder.Network, "kustomize-network", false, "let kustomize load parts from the network, and Helm charts; only for kustomizations that you trust: those with charts can run programs")
	c.Flags().Var(&modeFlag{value: "auto", modes: helmModes, set: func(mode string) {
		flags.HelmNamed, flags.Helm = mode == "auto", renderer
		if mode == "read" {
			flags.Helm = nil
		}
	}}, "helm", "handling of Helm charts: `render` them, or read all files;\nauto renders those that PATH names without -R")
	c.Flags().Lookup("helm").NoOptDefVal = "render"
	c.Flags().StringArrayVar(&renderer.Values, "helm-values", nil, "`FILE` with values for charts; repeatable")
	c.Flags().StringArrayVar(&renderer.Set, "helm-set", nil, "`KEY=VALUE` for charts, as --set of helm has it; repeatable")
	c.Flags().StringVar(&renderer.Release, "helm-release", helm.DefaultRelease, "`name` of the release that charts are rendered for")
	c.Flags().StringVar(&renderer.Namespace, "helm-namespace", helm.DefaultNamespace, "`namespace` of this release")
	c.Flags().StringSliceVar(&renderer.APIVersions, "helm-api-versions", nil,
		"comma-separated `VERSIONS` that the cluster serves, as group/version or group/version/Kind, for charts that ask; repeatable")
	c.Flags().BoolVar(&renderer.Network, "helm-network", false, "let helm load the dependencies of charts from the network")
	completeValues(c, "kustomize", kustomizeModes...)
	completeValues(c, "helm", helmModes...)
	_ = c.MarkFlagFilename("helm-values", manifestExtensions()...)
	names := []string{"kustomize", "kustomize-network", "helm", "helm-values", "helm-set", "helm-release", "helm-namespace", "helm-api-versions", "helm-network"}
	for _, name := range names[4:8] {
		_ = c.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
	groupFlags(c.Flags(), inputFlags, names...)
}

// modeFlag is a flag with one of several values, such as --kustomize.
type modeFlag struct {
	value string
	modes []string
	set   func(mode string)
}

// Set parses the flag.
func (f *modeFlag) Set(s string) error {
	if !slices.Contains(f.modes, s) {
		last := len(f.modes) - 1
		return fmt.Errorf("must be %s or %s", strings.Join(f.modes[:last], ", "), f.modes[last])
	}
	f.value = s
	f.set(s)
	return nil
}

// String returns the value of the flag.
func (f *modeFlag) String() string { return f.value }

// Type returns the name of the value in help texts.
func (f *modeFlag) Type() string { return "mode" }

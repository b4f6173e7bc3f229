package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kwok/kustomize/stage/node/fast"
	lease "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	pod "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	"sigs.k8s.io/kwok/pkg/apis/internalversion"
	"sigs.k8s.io/kwok/pkg/apis/v1alpha1"
	"sigs.k8s.io/kwok/pkg/utils/gotpl"
	"sigs.k8s.io/kwok/pkg/utils/lifecycle"
	"sigs.k8s.io/yaml"
)

func newStagesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stages [FILE]",
		Short: "Print the stages that kwok plays: those in a file, and kwok's default ones for nodes and pods",
		Long: "If the file has stages for nodes, the default ones for nodes are left out, and the same holds for pods.\n" +
			"Stages are checked, because kwok reports errors in them only when they apply to an object.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			var own []byte
			if len(args) > 0 {
				var err error
				if own, err = os.ReadFile(args[0]); err != nil {
					return err
				}
			}
			all, err := mergeStages(own)
			if err != nil && len(args) > 0 {
				return fmt.Errorf("%s: %w", args[0], err)
			} else if err != nil {
				return err
			}
			_, err = io.WriteString(c.OutOrStdout(), strings.Join(all, "---\n"))
			return err
		},
	}
}

// mergeStages returns the stages in a YAML stream, and kwok's default ones for nodes and pods, if the stream
// has none for them.
func mergeStages(own []byte) (all []string, err error) {
	has := map[string]bool{}
	for i, text := range splitYAML(own) {
		var empty any
		if err := yaml.Unmarshal([]byte(text), &empty); err == nil && empty == nil {
			continue // only comments
		}
		stage, err := parseStage([]byte(text))
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", i+1, err)
		}
		has[stage.Spec.ResourceRef.Kind] = true
		all = append(all, strings.TrimSpace(text)+"\n")
	}
	if len(own) > 0 && len(all) == 0 {
		return nil, errors.New("the file has no stages")
	}
	defaults := map[string][]string{
		"Node": {fast.DefaultNodeInit, lease.DefaultNodeHeartbeatWithLease},
		"Pod":  {pod.DefaultPodReady, pod.DefaultPodComplete, pod.DefaultPodDelete},
	}
	for _, kind := range []string{"Node", "Pod"} {
		if !has[kind] {
			for _, text := range defaults[kind] {
				all = append(all, strings.TrimSpace(text)+"\n")
			}
		}
	}
	return all, nil
}

// splitYAML returns the documents of a YAML stream.
func splitYAML(data []byte) (documents []string) {
	var current strings.Builder
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "---") {
			documents = append(documents, current.String())
			current.Reset()
			continue
		}
		current.WriteString(line)
	}
	return append(documents, current.String())
}

// parseStage returns the stage in a document, if kwok can play it.
func parseStage(document []byte) (*v1alpha1.Stage, error) {
	var stage v1alpha1.Stage
	if err := yaml.UnmarshalStrict(document, &stage); err != nil {
		return nil, err
	}
	if want := v1alpha1.GroupVersion.String(); stage.APIVersion != want || stage.Kind != v1alpha1.StageKind {
		return nil, fmt.Errorf("it is %q of %q: must be a Stage of %s", stage.Kind, stage.APIVersion, want)
	}
	internal, err := internalversion.ConvertToInternalStage(&stage)
	if err != nil {
		return nil, fmt.Errorf("stage %q: %w", stage.Name, err)
	}
	s := internal.Spec
	switch {
	case stage.Name == "":
		return nil, errors.New("a stage has no metadata.name")
	case s.ResourceRef.Kind == "":
		return nil, fmt.Errorf("stage %q has no spec.resourceRef.kind", stage.Name)
	case s.Selector == nil:
		return nil, fmt.Errorf("stage %q has no spec.selector, so kwok never plays it", stage.Name)
	case len(s.Steps) == 0:
		return nil, fmt.Errorf("stage %q has no spec.steps, and nothing in spec.next", stage.Name)
	}
	lc, err := lifecycle.NewLifecycle([]*internalversion.Stage{internal})
	if err != nil {
		return nil, fmt.Errorf("stage %q: %w", stage.Name, err)
	}
	// Expressions are compiled when they are first evaluated. That of an empty object may fail.
	object := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{}, "spec": map[string]any{}, "status": map[string]any{}}}
	if _, err := lc.ListAllPossible(context.Background(), &lifecycle.Event{Data: object}); err != nil && !strings.Contains(err.Error(), "no such key") {
		return nil, fmt.Errorf("stage %q: %w", stage.Name, err)
	}
	for _, step := range s.Steps {
		for _, text := range templates(step) {
			if err := checkTemplate(text); err != nil {
				return nil, fmt.Errorf("stage %q: %w", stage.Name, err)
			}
		}
	}
	return &stage, nil
}

// templates returns the templates of a step.
func templates(step internalversion.StageStep) (all []string) {
	if step.Patch != nil {
		all = append(all, step.Patch.Template)
	}
	if step.Apply != nil {
		all = append(all, step.Apply.Template)
	}
	return all
}

// checkTemplate returns an error if a template cannot be parsed.
func checkTemplate(text string) error {
	none := func(...any) any { return nil }
	functions := gotpl.FuncMap{}
	for _, name := range []string{"NodeIP", "NodeIPs", "NodeName", "NodePort", "NodeIPWith", "NodeIPsWith", "PodIP", "PodIPs", "PodIPWith", "PodIPsWith"} {
		functions[name] = none
	}
	// It is also executed, which fails without the fields of an object.
	if _, err := gotpl.NewRenderer(functions).ToText(text, map[string]any{}); err != nil && strings.HasPrefix(err.Error(), "build template: ") {
		return fmt.Errorf("template: %w", errors.Unwrap(errors.Unwrap(err)))
	}
	return nil
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"espalier.dev/analysis/lookup"
	"espalier.dev/analysis/object"
	"espalier.dev/analysis/why"
	"espalier.dev/api"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/cmd/espalier/internal/source"
	"espalier.dev/crd"
	"espalier.dev/internal/nearest"
	"espalier.dev/kinds"
)

// whyOptions are the flags of why.
type whyOptions struct {
	source sourceFlags
	files  input.Flags
	crds   input.Flags
	output string
}

func newWhyCommand(a *app) *cobra.Command {
	var o whyOptions
	c := &cobra.Command{
		Use:   "why RESOURCE/NAME FIELD (--from-cluster | --snapshot FILE | --etcd-servers URLS | --dump PATH | -f PATH)",
		Short: "Explain what is stored and served at a field of an object, and which schema decides it",
		Long: `Why explains one field of one stored object: what is stored there, what each version of
the CRD serves, and the schema that decides it. A value is served because the schema
specifies it, preserves unknown fields or has a default. It is stored but not served
because the schema does not specify it or does not allow null, or because the conversion
to the version drops it.

RESOURCE is the plural name, singular name, kind or a short name, in any case, followed by
the group if the name is ambiguous: crontabs/nightly, ct/nightly,
crontabs.stable.example.com/nightly. If objects in several namespaces have the name, -n
selects one.

FIELD is a path as in the reports of other commands, or a JSON pointer: spec.steps[0].image,
metadata.annotations["example.com/owner"], /spec/steps/0/image.

Built-in kinds, such as deployments, need no CRD: their Go types decide what is
served, so that why names no schema.

Objects come from a source as in espalier audit. The API of a running cluster does not show
what is stored: for that, use --snapshot or --etcd-servers. CRDs come from the same source,
unless --crd names others. Conversion webhooks are not called.

Exit codes: 0 success, ` + otherExitCodes + `.`,
		Example: `  # Explain why a field of a stored object is not served
  espalier why crontabs/nightly spec.replica --snapshot snapshot.db

  # Explain it for the CRD of the next release
  espalier why ct/nightly spec.replica --snapshot snapshot.db --crd crontab-crd.yaml

  # Explain where a value comes from, as JSON
  espalier why ct/nightly spec.policy -f crontab-typo.yaml --crd crontab-crd.yaml -o json

  # Explain where a field of a Deployment comes from
  espalier why deployments/web spec.strategy -f manifests/web.yaml

  # Explain a field of an object in a running cluster
  espalier why crontabs.stable.example.com/nightly spec.replicas --from-cluster -n default`,
		Args:              exactArgs("RESOURCE/NAME", "FIELD"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(c *cobra.Command, args []string) error { return a.why(c, o, args[0], args[1]) },
	}
	addSourceFlags(c, &o.source)
	addInputFlags(c, &o.files, "objects", input.Manifests)
	addCRDFlag(c, &o.crds)
	addTextOutputFlag(c, &o.output)
	return c
}

func (a *app) why(c *cobra.Command, o whyOptions, target, path string) (err error) {
	if err := checkTextOutput(o.output); err != nil {
		return err
	}
	resource, name, ok := strings.Cut(target, "/")
	if !ok || resource == "" || name == "" || strings.Contains(name, "/") {
		return usageError(c, fmt.Errorf("%q is not an object: write RESOURCE/NAME, as in crontabs/nightly", target))
	}
	if err := stdinOnce(o.crds, o.files); err != nil {
		return err
	}
	ctx := c.Context()
	src, sourceName, err := a.openSource(ctx, c, &o.source, o.files, "-f PATH")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	if err := a.recordedSemantics(ctx, c, src); err != nil {
		return err
	}
	side, err := a.newSideReporter(c, "")
	if err != nil {
		return err
	}
	defer func() { err = side.Finish(err) }()
	f := &finder{source: src, name: sourceName, options: crd.Options{Semantics: a.semantics.Semantics,
		IgnoreRules: true}, texts: map[*crd.Definition]object.Options{}}
	if len(o.crds.Paths) > 0 {
		err = f.definitionsFrom(ctx, a, o.files.With(o.crds.Paths...), side.Failure)
	} else {
		err = f.definitions(ctx)
	}
	if err != nil {
		return err
	}
	d, missing, err := f.resource(resource)
	if err != nil {
		return err
	}
	found, err := f.object(ctx, d, name, o.source.namespaces)
	if err != nil {
		return errors.Join(err, missing)
	}
	record := whyRecord{Definition: d.Name(), Namespace: found.Namespace, Name: found.Name, Where: found.Where()}
	options := why.Options{Text: f.texts[d], FromServer: !src.Stored()}
	if missing != nil {
		rules, err := kinds.NewOffline(nil)
		if err != nil {
			return err
		}
		record.Explanation, err = why.ExplainKind(d, rules, found.JSON, path, options)
		if err != nil {
			return err
		}
	} else {
		record.Semantics = a.semantics.String()
		if record.Explanation, err = why.Explain(d, found.JSON, path, options); err != nil {
			return err
		}
	}
	if o.output == "text" {
		return record.writeText(a.stdout)
	}
	p := &printer{a: a, output: o.output}
	return p.print("", record)
}

// finder finds the object that the user names.
type finder struct {
	source  source.Source
	name    string
	options crd.Options

	known []*crd.Definition
	texts map[*crd.Definition]object.Options
	// unusable has the reasons why CRDs cannot be used. They matter only if one of them may be
	// the requested one.
	unusable []error
}

// definitions reads the CRDs of the source.
func (f *finder) definitions(ctx context.Context) error {
	failed := func(failure *source.Failure) { f.unusable = append(f.unusable, failure) }
	return source.Each(f.source.Definitions(ctx), failed, func(o source.Object) error {
		// A CRD may be stored as v1beta1. Without a file, pointers refer to what the API serves:
		// v1.
		var text object.Options
		if o.Item != nil {
			text = newDefinition(o.Item, f.options.Semantics).text()
		}
		f.define(o.Name, o.JSON, text)
		return nil
	})
}

// definitionsFrom reads the CRDs that --crd names.
func (f *finder) definitionsFrom(ctx context.Context, a *app, flags input.Flags, problem func(input.Problem)) error {
	ds, err := a.loadDefinitions(ctx, flags, problem)
	if err != nil {
		return err
	}
	for _, d := range ds.All() {
		f.define(d.identity().Name, d.readable(), d.text())
	}
	return nil
}

func (f *finder) define(name string, src []byte, text object.Options) {
	d, err := storedDefinition(src, f.options)
	if err != nil {
		f.unusable = append(f.unusable, fmt.Errorf("the CRD %s cannot be used: %w", name, err))
		return
	}
	f.known = append(f.known, d)
	f.texts[d] = text
}

// resource returns the CRD of a resource or, if there is none, the description of a built-in kind
// and why there is no CRD.
func (f *finder) resource(name string) (d *crd.Definition, missing, err error) {
	if d, missing = f.custom(name); missing == nil {
		return d, nil, nil
	}
	if found, unknown := findResource(nil, name, "", ""); unknown == nil && found.Path == "" &&
		found.Definition().Group() != api.GroupName {
		return found.Definition(), missing, nil
	}
	return nil, nil, missing
}

// custom returns the CRD of a resource.
func (f *finder) custom(name string) (*crd.Definition, error) {
	if len(f.known) == 0 && len(f.unusable) == 0 {
		return nil, fmt.Errorf("no CRD found in %s: add CRDs with --crd", f.name)
	}
	v, rest, err := lookup.Find(f.known, name, "")
	if err == nil && rest != "" {
		err = fmt.Errorf("no CRD defines a resource %q: there is %s", name, v.Definition().Name())
	}
	if err != nil {
		return nil, errors.Join(append([]error{err}, f.unusable...)...)
	}
	return v.Definition(), nil
}

// object returns the object of a CRD with a name, which must be the only one in the namespaces.
func (f *finder) object(ctx context.Context, d *crd.Definition, name string, namespaces []string) (source.Object, error) {
	var found []source.Object
	var failures []error
	all := f.source.Objects(ctx, source.Selection{Definitions: []*crd.Definition{d}, Namespaces: namespaces, Name: name})
	err := source.Each(all, func(failure *source.Failure) { failures = append(failures, failure) }, func(o source.Object) error {
		found = append(found, o)
		return nil
	})
	switch {
	case err != nil:
		return source.Object{}, err
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		var names []string
		for i := range found {
			names = append(names, fmt.Sprintf("%s (%s)", found[i].FullName(), found[i].Where()))
		}
		return source.Object{}, fmt.Errorf("%s has several objects %q: select one with -n: %s", f.name, name, nearest.First(names, 5))
	case len(failures) > 0:
		return source.Object{}, errors.Join(failures...)
	}
	where := f.name
	if len(namespaces) > 0 {
		where += ", namespace " + strings.Join(namespaces, ", ")
	}
	return source.Object{}, fmt.Errorf("no object %s/%s found in %s", d.GroupResource(), name, where)
}

// whyRecord is an explanation with the object that it is about.
type whyRecord struct {
	Definition string `json:"definition"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	Where      string `json:"where,omitempty"`
	// Semantics is empty for a built-in kind.
	Semantics string `json:"semantics,omitempty"`
	*why.Explanation
}

// writeText writes the explanation for people.
func (r *whyRecord) writeText(w io.Writer) error {
	var b strings.Builder
	line := func(indent, label, text string) {
		fmt.Fprintf(&b, "%s%-11s %s\n", indent, label+":", report.OneLine(text))
	}
	line("", "OBJECT", fmt.Sprintf("%s %s (%s)", r.Definition, input.Identity{Namespace: r.Namespace, Name: r.Name}.FullName(), r.Where))
	line("", "FIELD", r.Path)
	if r.Semantics != "" {
		line("", "SEMANTICS", r.Semantics)
	}
	switch s := r.Stored; {
	case s == nil:
		line("", "STORED", "not known: the API does not show what is stored")
	case s.Found:
		line("", "STORED", fmt.Sprintf("%s (in %s)", jsonText(s.Value), s.APIVersion))
	default:
		line("", "STORED", fmt.Sprintf("nothing (in %s)", s.APIVersion))
	}
	for i := range r.Versions {
		v := &r.Versions[i]
		label := "served"
		if !v.Served {
			label = "not served"
		}
		if v.Storage {
			label += ", storage version"
		}
		fmt.Fprintf(&b, "\nVERSION %s (%s)\n", v.Name, label)
		value := "nothing"
		switch {
		case v.Found:
			value = jsonText(v.Value)
		case v.Decision == why.Webhook:
			value = "not known"
		}
		line("  ", "VALUE", value)
		reason := fmt.Sprintf("%s: %s", v.Decision, v.Reason)
		if v.Nearest != "" {
			reason += fmt.Sprintf("; did you mean %q?", v.Nearest)
		}
		line("  ", "DECISION", reason)
		if v.Schema != nil {
			line("  ", "SCHEMA", schemaText(v.Schema))
		}
		for _, violation := range v.Violations {
			line("  ", "VIOLATION", violation)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// schemaText returns the position of a schema for people.
func schemaText(s *why.Schema) string {
	text := s.Pointer
	if s.Version != "" {
		text = s.Version + " " + s.Path
		if s.Path == "" {
			text = s.Version + " (root)"
		}
	}
	switch {
	case s.File != "":
		text += fmt.Sprintf(" (%s:%d:%d)", s.File, s.Line, s.Column)
	case s.Version != "":
		text += " (" + s.Pointer + ")"
	}
	return text
}

// jsonText returns a value as JSON in one line.
func jsonText(v any) string {
	text, err := indentedJSON(v)
	var b bytes.Buffer
	if err != nil || json.Compact(&b, text) != nil {
		return fmt.Sprint(v)
	}
	return b.String()
}

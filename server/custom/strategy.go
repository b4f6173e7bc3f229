package custom

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/names"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"espalier.dev/crd"
	"espalier.dev/server/ids"
)

// strategy implements the strategies of the generic store with a Kind.
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
	version *crd.Version
	kind    Kind
	ids     *ids.Source
	fields  []selectableField
}

var (
	_ rest.RESTCreateStrategy  = &strategy{}
	_ rest.RESTUpdateStrategy  = &strategy{}
	_ rest.RESTDeleteStrategy  = &strategy{}
	_ rest.ResetFieldsStrategy = &strategy{}
)

func newStrategy(v *crd.Version, kind Kind, typer runtime.ObjectTyper, source *ids.Source) (*strategy, error) {
	s := &strategy{ObjectTyper: typer, NameGenerator: source.Names(v.Definition().GroupResource()), version: v, kind: kind, ids: source}
	for _, f := range v.Spec().SelectableFields {
		p := jsonpath.New("selectableField")
		p.AllowMissingKeys(true)
		if err := p.Parse("{" + f.JSONPath + "}"); err != nil {
			return nil, fmt.Errorf("selectable field %s: %w", f.JSONPath, err)
		}
		s.fields = append(s.fields, newSelectableField(f.JSONPath, p))
	}
	return s, nil
}

func (s *strategy) NamespaceScoped() bool { return s.version.Definition().Namespaced() }

func (s *strategy) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	if meta, ok := obj.(metav1.Object); ok {
		s.ids.SetUID(s.version.Definition().GroupResource(), meta)
	}
	outcomeOf(ctx).prepare = s.kind.Prepare(ctx, obj, nil)
}

func (s *strategy) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	return s.judge(ctx, obj, nil, s.kind.Validate)
}

func (s *strategy) WarningsOnCreate(ctx context.Context, _ runtime.Object) []string {
	return outcomeOf(ctx).warnings
}

func (s *strategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	outcomeOf(ctx).prepare = s.kind.Prepare(ctx, obj, old)
}

func (s *strategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	return s.judge(ctx, obj, old, s.kind.Validate)
}

func (s *strategy) WarningsOnUpdate(ctx context.Context, _, _ runtime.Object) []string {
	return outcomeOf(ctx).warnings
}

// judge validates an object unless its preparation failed.
func (s *strategy) judge(ctx context.Context, obj, old runtime.Object, validate func(context.Context,
	runtime.Object, runtime.Object) (field.ErrorList, []string)) field.ErrorList {
	o := outcomeOf(ctx)
	o.warnings = nil
	if o.prepare != nil {
		return field.ErrorList{field.InternalError(nil, o.prepare)}
	}
	errs, warnings := validate(ctx, obj, old)
	o.warnings = warnings
	return crd.BoundErrors(errs)
}

func (s *strategy) Canonicalize(runtime.Object) {}

func (s *strategy) AllowCreateOnUpdate(context.Context) bool      { return false }
func (s *strategy) AllowUnconditionalUpdate(context.Context) bool { return false }

// GetResetFields returns the fields that writers of the main endpoint never own.
func (s *strategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	if !s.version.HasStatus() {
		return nil
	}
	return s.resetting(fieldpath.NewSet(fieldpath.MakePathOrDie("status")))
}

func (s *strategy) resetting(set *fieldpath.Set) map[fieldpath.APIVersion]*fieldpath.Set {
	gv := s.version.GroupVersionKind().GroupVersion()
	return map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(gv.String()): set}
}

// statusStrategy is the strategy of the status endpoint.
type statusStrategy struct{ *strategy }

func (s statusStrategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	outcomeOf(ctx).prepare = s.kind.PrepareStatus(ctx, obj, old)
}

func (s statusStrategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	return s.judge(ctx, obj, old, s.kind.ValidateStatus)
}

// GetResetFields returns the fields that writers of the status never own.
func (s statusStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.resetting(fieldpath.NewSet(fieldpath.MakePathOrDie("metadata"), fieldpath.MakePathOrDie("spec")))
}

// selectableField is a field that lists can be filtered by.
type selectableField struct {
	name string
	path *jsonpath.JSONPath
	// steps are the names on the way to the field, or nil if the path is more than that.
	steps []string
}

func newSelectableField(path string, p *jsonpath.JSONPath) selectableField {
	f := selectableField{name: strings.TrimPrefix(path, "."), path: p}
	if !strings.ContainsFunc(f.name, func(r rune) bool {
		return r != '.' && r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) {
		f.steps = strings.Split(f.name, ".")
	}
	return f
}

// text returns the value of the field in a tree, as a text.
func (f *selectableField) text(tree any) (string, error) {
	found, err := f.path.FindResults(tree)
	if err != nil {
		return "", fmt.Errorf("selectable field %s: %w", f.name, err)
	}
	if len(found) > 0 && len(found[0]) > 0 {
		if v := found[0][0].Interface(); v != nil {
			return fmt.Sprint(v), nil
		}
	}
	return "", nil
}

// attributes returns the labels and fields for selectors.
func (s *strategy) attributes(obj runtime.Object) (labels.Set, fields.Set, error) {
	attributes := storage.DefaultClusterScopedAttr
	if s.NamespaceScoped() {
		attributes = storage.DefaultNamespaceScopedAttr
	}
	labels, set, err := attributes(obj)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range s.fields {
		if set[f.name], err = f.text(content(obj)); err != nil {
			return nil, nil, err
		}
	}
	return labels, set, nil
}

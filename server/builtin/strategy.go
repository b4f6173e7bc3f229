package builtin

import (
	"context"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"espalier.dev/crd"
	"espalier.dev/kinds"
	"espalier.dev/kinds/kind"
	"espalier.dev/server/ids"
)

// strategy implements the strategies of the generic store with the rules of a kind.
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
	resource *kinds.Resource
	rules    *kind.Rules
	write    *kind.Write
	ids      *ids.Source
	// tracked returns an error if the fields of an object of a kind would take too long to
	// track. It is nil if they are not tracked.
	tracked func(runtimeschema.GroupVersionKind, runtime.Object) error
	// permitted may be nil.
	permitted permission
}

// permission returns errors if a request may not write an object because of its user or namespace. old is
// nil if the object is created.
type permission func(ctx context.Context, obj, old runtime.Object) field.ErrorList

var (
	_ rest.RESTCreateStrategy              = &strategy{}
	_ rest.RESTUpdateStrategy              = &strategy{}
	_ rest.RESTGracefulDeleteStrategy      = &gracefulStrategy{}
	_ rest.GarbageCollectionDeleteStrategy = &strategy{}
	_ rest.ResetFieldsStrategy             = &strategy{}
)

// nameGenerator returns what completes the generateName of new objects.
func nameGenerator(rules *kind.Rules, r *kinds.Resource, source *ids.Source) names.NameGenerator {
	if rules.KeepsPrefix {
		return prefixGenerator{}
	}
	return source.Names(r.GroupResource())
}

// prefixGenerator generates names that are equal to their prefix.
type prefixGenerator struct{}

func (prefixGenerator) GenerateName(base string) string { return base }

func (s *strategy) NamespaceScoped() bool { return s.resource.Namespaced }

func (s *strategy) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	if s.ids != nil {
		s.ids.SetUID(s.resource.GroupResource(), obj.(kind.Object))
	}
	s.prepare(obj, nil)
	if by, ok := apirequest.UserFrom(ctx); ok && s.rules.Requester != nil {
		s.rules.Requester(obj.(kind.Object), by)
	}
}

func (s *strategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) { s.prepare(obj, old) }

func (s *strategy) prepare(obj, old runtime.Object) {
	if s.write.Prepare != nil {
		before, _ := old.(kind.Object)
		s.write.Prepare(obj.(kind.Object), before)
	}
}

func (s *strategy) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	return s.validate(ctx, obj, nil)
}

func (s *strategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	return s.validate(ctx, obj, old)
}

func (s *strategy) validate(ctx context.Context, obj, old runtime.Object) (errs field.ErrorList) {
	if s.tracked != nil {
		// Field management has only logged the error. An object that was stored before there was
		// a limit can be updated.
		if err := s.tracked(s.resource.StoredKind(), obj); err != nil && (old == nil || s.tracked(s.resource.StoredKind(), old) == nil) {
			return field.ErrorList{field.Forbidden(field.NewPath("metadata", "managedFields"), err.Error())}
		}
	}
	if s.permitted != nil {
		errs = s.permitted(ctx, obj, old)
	}
	if s.write.Validate == nil {
		return errs
	}
	before, _ := old.(kind.Object)
	return append(errs, crd.BoundErrors(s.write.Validate(obj.(kind.Object), before))...)
}

func (s *strategy) WarningsOnCreate(_ context.Context, obj runtime.Object) []string {
	return s.warnings(obj, nil)
}

func (s *strategy) WarningsOnUpdate(_ context.Context, obj, old runtime.Object) []string {
	return s.warnings(obj, old)
}

func (s *strategy) warnings(obj, old runtime.Object) []string {
	if s.write.Warnings == nil {
		return nil
	}
	before, _ := old.(kind.Object)
	return s.write.Warnings(obj.(kind.Object), before)
}

func (s *strategy) Canonicalize(obj runtime.Object) {
	if s.write.Canonicalize != nil {
		s.write.Canonicalize(obj.(kind.Object))
	}
}

func (s *strategy) AllowCreateOnUpdate(context.Context) bool      { return s.rules.CreateOnUpdate }
func (s *strategy) AllowUnconditionalUpdate(context.Context) bool { return !s.rules.Conditional }

// DefaultGarbageCollectionPolicy returns what happens to dependents if the client does not say.
func (s *strategy) DefaultGarbageCollectionPolicy(context.Context) rest.GarbageCollectionPolicy {
	switch {
	case s.resource.IsEvent():
		return rest.Unsupported // events have no dependents: they are deleted at once
	case s.resource.Orphans:
		return rest.OrphanDependents
	}
	return rest.DeleteDependents
}

// GetResetFields returns the fields that writers of the endpoint never own.
func (s *strategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	if len(s.write.Reset) == 0 {
		return nil
	}
	set := fieldpath.NewSet()
	for _, path := range s.write.Reset {
		set.Insert(parsePath(path))
	}
	return map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(s.resource.GroupVersionKind().GroupVersion().String()): set}
}

// gracefulStrategy is the strategy of a kind whose objects are deleted after a grace period.
type gracefulStrategy struct{ *strategy }

// CheckGracefulDelete sets the grace period of a deletion.
func (s *gracefulStrategy) CheckGracefulDelete(ctx context.Context, obj runtime.Object, o *metav1.DeleteOptions) bool {
	if o == nil {
		return false
	}
	period := s.rules.Graceful(obj.(kind.Object), o.GracePeriodSeconds)
	o.GracePeriodSeconds = &period
	return period > 0 || ctx.Value(unmarkedKey{}) == nil
}

// attributes returns the labels and fields of an object for selectors.
func (s *strategy) attributes(obj runtime.Object) (labels.Set, fields.Set, error) {
	attributes := storage.DefaultClusterScopedAttr
	if s.resource.Namespaced {
		attributes = storage.DefaultNamespaceScopedAttr
	}
	labels, set, err := attributes(obj)
	if o, ok := obj.(kind.Object); ok && err == nil && s.rules.Fields != nil {
		maps.Copy(set, s.rules.Fields(o))
	}
	return labels, set, err
}

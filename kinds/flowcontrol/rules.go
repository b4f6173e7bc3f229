// Package flowcontrol has the rules of flow schemas and priority levels.
package flowcontrol

import (
	v1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/kinds/kind"
	"espalier.dev/kinds/rules"
)

// Rules returns the rules of the kinds of flowcontrol.apiserver.k8s.io, by resource.
func Rules() map[string]kind.Rules {
	return map[string]kind.Rules{
		"flowschemas": {
			Default: kind.On(func(s *v1.FlowSchema) { rules.SetDefault(&s.Spec.MatchingPrecedence, 1000) }),
			Main: kind.Write{
				Prepare: kind.Change(func(obj, old *v1.FlowSchema) {
					obj.Status = v1.FlowSchemaStatus{}
					if old != nil {
						obj.Status = old.Status
					}
					rules.Generation(obj, old, old != nil && equality.Semantic.DeepEqual(obj.Spec, old.Spec))
				}),
				Validate: kind.Check(validateSchema),
				Reset:    []string{"status"},
			},
			Status: &kind.Write{
				Prepare: kind.Change(func(obj, old *v1.FlowSchema) {
					keepMeta(&obj.ObjectMeta, &old.ObjectMeta)
					obj.Spec = old.Spec
				}),
				Validate: kind.Check(validateSchemaStatus),
				Reset:    []string{"metadata", "spec"},
			},
		},
		"prioritylevelconfigurations": {
			Default: kind.On(defaultLevel),
			Main: kind.Write{
				Prepare: kind.Change(func(obj, old *v1.PriorityLevelConfiguration) {
					obj.Status = v1.PriorityLevelConfigurationStatus{}
					if old != nil {
						obj.Status = old.Status
					}
					rules.Generation(obj, old, old != nil && equality.Semantic.DeepEqual(obj.Spec, old.Spec))
				}),
				Validate: kind.Check(validateLevel),
				Reset:    []string{"status"},
			},
			Status: &kind.Write{
				Prepare: kind.Change(func(obj, old *v1.PriorityLevelConfiguration) {
					keepMeta(&obj.ObjectMeta, &old.ObjectMeta)
					obj.Spec = old.Spec
				}),
				Validate: kind.Check(validateLevelStatus),
				Reset:    []string{"metadata", "spec"},
			},
		},
	}
}

// keepMeta keeps the metadata of the stored object, apart from the managed fields.
func keepMeta(meta, old *metav1.ObjectMeta) {
	managed := meta.ManagedFields
	old.DeepCopyInto(meta)
	meta.ManagedFields = managed
}

func defaultLevel(l *v1.PriorityLevelConfiguration) {
	if e := l.Spec.Exempt; e != nil {
		rules.SetDefaultPointer(&e.NominalConcurrencyShares, 0)
		rules.SetDefaultPointer(&e.LendablePercent, 0)
	}
	if limited := l.Spec.Limited; limited != nil {
		rules.SetDefaultPointer(&limited.NominalConcurrencyShares, 30)
		rules.SetDefaultPointer(&limited.LendablePercent, 0)
		if q := limited.LimitResponse.Queuing; q != nil {
			rules.SetDefault(&q.HandSize, 8)
			rules.SetDefault(&q.Queues, 64)
			rules.SetDefault(&q.QueueLengthLimit, 50)
		}
	}
}

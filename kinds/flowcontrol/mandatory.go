package flowcontrol

import (
	"math"

	v1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// mostEntropy is the number of bits that a request has to choose its queues with.
const mostEntropy = 60

// entropy estimates how many bits it takes to choose some of the queues.
func entropy(queues, handSize int32) int {
	return int(math.Ceil(math.Log2(float64(queues)) * float64(handSize)))
}

// mandatoryLevels returns the priority levels that cannot be changed.
func mandatoryLevels() []*v1.PriorityLevelConfiguration {
	level := func(name string, spec v1.PriorityLevelConfigurationSpec) *v1.PriorityLevelConfiguration {
		return &v1.PriorityLevelConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	}
	return []*v1.PriorityLevelConfiguration{
		level(v1.PriorityLevelConfigurationNameExempt, v1.PriorityLevelConfigurationSpec{
			Type:   v1.PriorityLevelEnablementExempt,
			Exempt: &v1.ExemptPriorityLevelConfiguration{NominalConcurrencyShares: new(int32(0)), LendablePercent: new(int32(0))},
		}),
		level(v1.PriorityLevelConfigurationNameCatchAll, v1.PriorityLevelConfigurationSpec{
			Type: v1.PriorityLevelEnablementLimited,
			Limited: &v1.LimitedPriorityLevelConfiguration{
				NominalConcurrencyShares: new(int32(5)), LendablePercent: new(int32(0)),
				LimitResponse: v1.LimitResponse{Type: v1.LimitResponseTypeReject},
			},
		}),
	}
}

// mandatorySchemas returns the flow schemas that cannot be changed.
func mandatorySchemas() []*v1.FlowSchema {
	all := func(name, level string, precedence int32, by *v1.FlowDistinguisherMethod, groups ...string) *v1.FlowSchema {
		rules := v1.PolicyRulesWithSubjects{
			ResourceRules: []v1.ResourcePolicyRule{{
				Verbs: []string{v1.VerbAll}, APIGroups: []string{v1.APIGroupAll}, Resources: []string{v1.ResourceAll},
				Namespaces: []string{v1.NamespaceEvery}, ClusterScope: true,
			}},
			NonResourceRules: []v1.NonResourcePolicyRule{{Verbs: []string{v1.VerbAll}, NonResourceURLs: []string{v1.NonResourceAll}}},
		}
		for _, g := range groups {
			rules.Subjects = append(rules.Subjects, v1.Subject{Kind: v1.SubjectKindGroup, Group: &v1.GroupSubject{Name: g}})
		}
		return &v1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.FlowSchemaSpec{
			PriorityLevelConfiguration: v1.PriorityLevelConfigurationReference{Name: level},
			MatchingPrecedence:         precedence, DistinguisherMethod: by, Rules: []v1.PolicyRulesWithSubjects{rules},
		}}
	}
	return []*v1.FlowSchema{
		all("exempt", v1.PriorityLevelConfigurationNameExempt, 1, nil, "system:masters"),
		all(v1.FlowSchemaNameCatchAll, v1.PriorityLevelConfigurationNameCatchAll, 10000,
			&v1.FlowDistinguisherMethod{Type: v1.FlowDistinguisherMethodByUserType},
			"system:unauthenticated", "system:authenticated"),
	}
}

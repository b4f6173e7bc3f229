package columns

import (
	"cmp"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	nodev1 "k8s.io/api/node/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

func apiServiceColumns() []column {
	return []column{
		name(),
		text("Service", "The reference to the service that hosts this API endpoint.", func(s *apiregistrationv1.APIService) any {
			if s.Spec.Service == nil {
				return "Local"
			}
			return s.Spec.Service.Namespace + "/" + s.Spec.Service.Name
		}),
		text("Available", "Whether this service is available.", func(s *apiregistrationv1.APIService) any {
			for _, c := range s.Status.Conditions {
				switch {
				case c.Type != apiregistrationv1.Available:
				case c.Status != apiregistrationv1.ConditionTrue && c.Reason != "":
					return string(c.Status) + " (" + c.Reason + ")"
				default:
					return string(c.Status)
				}
			}
			return string(apiregistrationv1.ConditionUnknown)
		}),
		age(),
	}
}

func leaseColumns() []column {
	return []column{
		name(),
		text("Holder", coordinationv1.LeaseSpec{}.SwaggerDoc()["holderIdentity"],
			func(l *coordinationv1.Lease) any { return orElse(l.Spec.HolderIdentity, "") }),
		age(),
	}
}

func runtimeClassColumns() []column {
	// Kube-apiserver has no description of the handler.
	return []column{name(), text("Handler", "", func(c *nodev1.RuntimeClass) any { return c.Handler }), age()}
}

func flowSchemaColumns() []column {
	spec := flowcontrolv1.FlowSchemaSpec{}.SwaggerDoc()
	return []column{
		name(),
		text("PriorityLevel", flowcontrolv1.PriorityLevelConfigurationReference{}.SwaggerDoc()["name"],
			func(s *flowcontrolv1.FlowSchema) any {
				return s.Spec.PriorityLevelConfiguration.Name
			}),
		text("MatchingPrecedence", spec["matchingPrecedence"],
			func(s *flowcontrolv1.FlowSchema) any { return int64(s.Spec.MatchingPrecedence) }),
		text("DistinguisherMethod", spec["distinguisherMethod"], func(s *flowcontrolv1.FlowSchema) any {
			if s.Spec.DistinguisherMethod == nil {
				return none
			}
			return string(s.Spec.DistinguisherMethod.Type)
		}),
		age(),
		text("MissingPL", "references a broken or non-existent PriorityLevelConfiguration", func(s *flowcontrolv1.FlowSchema) any {
			for _, c := range s.Status.Conditions {
				if c.Type == flowcontrolv1.FlowSchemaConditionDangling {
					return string(c.Status)
				}
			}
			return "?"
		}),
	}
}

// byPrecedence orders flow schemas as they are matched.
func byPrecedence(a, b runtime.Object) int {
	x, y := a.(*flowcontrolv1.FlowSchema), b.(*flowcontrolv1.FlowSchema)
	return cmp.Or(cmp.Compare(x.Spec.MatchingPrecedence, y.Spec.MatchingPrecedence), strings.Compare(x.Name, y.Name))
}

func priorityLevelColumns() []column {
	queuing := flowcontrolv1.QueuingConfiguration{}.SwaggerDoc()
	queue := func(name string, value func(*flowcontrolv1.QueuingConfiguration) int32) column {
		return text(strings.ToUpper(name[:1])+name[1:], queuing[name], func(l *flowcontrolv1.PriorityLevelConfiguration) any {
			if l.Spec.Limited == nil || l.Spec.Limited.LimitResponse.Queuing == nil {
				return none
			}
			return int64(value(l.Spec.Limited.LimitResponse.Queuing))
		})
	}
	return []column{
		name(),
		text("Type", flowcontrolv1.PriorityLevelConfigurationSpec{}.SwaggerDoc()["type"],
			func(l *flowcontrolv1.PriorityLevelConfiguration) any {
				return string(l.Spec.Type)
			}),
		text("NominalConcurrencyShares", flowcontrolv1.LimitedPriorityLevelConfiguration{}.SwaggerDoc()["nominalConcurrencyShares"],
			func(l *flowcontrolv1.PriorityLevelConfiguration) any {
				if l.Spec.Limited == nil {
					return none
				}
				if l.Spec.Limited.NominalConcurrencyShares == nil {
					return int64(0)
				}
				return int64(*l.Spec.Limited.NominalConcurrencyShares)
			}),
		queue("queues", func(q *flowcontrolv1.QueuingConfiguration) int32 { return q.Queues }),
		queue("handSize", func(q *flowcontrolv1.QueuingConfiguration) int32 { return q.HandSize }),
		queue("queueLengthLimit", func(q *flowcontrolv1.QueuingConfiguration) int32 { return q.QueueLengthLimit }),
		age(),
	}
}

func resourceClaimColumns() []column {
	return []column{
		name(),
		text("State", "A summary of the current state (allocated, pending, reserved, etc.).", func(c *resourcev1.ResourceClaim) any {
			var states []string
			if c.DeletionTimestamp != nil {
				states = append(states, "deleted")
			}
			switch allocated := c.Status.Allocation != nil; {
			case allocated && len(c.Status.ReservedFor) > 0:
				states = append(states, "allocated", "reserved")
			case allocated:
				states = append(states, "allocated")
			case c.DeletionTimestamp == nil:
				states = append(states, "pending")
			}
			return strings.Join(states, ",")
		}),
		age(),
	}
}

func resourceSliceColumns() []column {
	spec := resourcev1.ResourceSliceSpec{}.SwaggerDoc()
	return []column{
		name(),
		text("Node", spec["nodeName"], func(s *resourcev1.ResourceSlice) any { return orElse(s.Spec.NodeName, "") }),
		text("Driver", spec["driver"], func(s *resourcev1.ResourceSlice) any { return s.Spec.Driver }),
		text("Pool", resourcev1.ResourcePool{}.SwaggerDoc()["name"], func(s *resourcev1.ResourceSlice) any { return s.Spec.Pool.Name }),
		age(),
	}
}

func deviceTaintRuleColumns() []column {
	doc := resourcev1.DeviceTaint{}.SwaggerDoc()
	return []column{
		name(),
		text("Key", doc["key"], func(r *resourcev1.DeviceTaintRule) any { return r.Spec.Taint.Key }),
		text("Value", doc["value"], func(r *resourcev1.DeviceTaintRule) any { return r.Spec.Taint.Value }),
		text("Effect", doc["effect"], func(r *resourcev1.DeviceTaintRule) any { return string(r.Spec.Taint.Effect) }),
		text("TimeAdded", doc["timeAdded"], func(r *resourcev1.DeviceTaintRule) any {
			if r.Spec.Taint.TimeAdded == nil {
				return ""
			}
			return since(r.Spec.Taint.TimeAdded.Time)
		}),
		age(),
	}
}

package fairness

import (
	"context"
	"errors"

	v1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	applyconfigurations "k8s.io/client-go/applyconfigurations/flowcontrol/v1"
	typed "k8s.io/client-go/kubernetes/typed/flowcontrol/v1"
)

// client writes the conditions of flow schemas into the storage, without a request. A call of any other
// method would panic.
type client struct {
	typed.FlowcontrolV1Interface
	c *Control
}

func (c client) FlowSchemas() typed.FlowSchemaInterface { return schemaClient{c: c.c} }

type schemaClient struct {
	typed.FlowSchemaInterface
	c *Control
}

// errStopping is the error of a write while nothing may be written.
var errStopping = errors.New("the server is starting or stopping")

// ApplyStatus writes the conditions of a flow schema. Its caller has no context, so the write has that
// of Follow, which waits for it.
func (s schemaClient) ApplyStatus(_ context.Context, wanted *applyconfigurations.FlowSchemaApplyConfiguration,
	o metav1.ApplyOptions) (*v1.FlowSchema, error) {
	s.c.mu.Lock()
	ctx := s.c.writes
	if ctx == nil {
		s.c.mu.Unlock()
		return nil, errStopping
	}
	s.c.writing.Add(1)
	s.c.mu.Unlock()
	defer s.c.writing.Done()

	status, err := s.c.kinds.Subresource(schemas, "status")
	if err != nil {
		return nil, err
	}
	obj, _, err := status.Update(ctx, *wanted.GetName(), rest.DefaultUpdatedObjectInfo(nil,
		func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
			changed := old.DeepCopyObject().(*v1.FlowSchema)
			for _, one := range wanted.Status.Conditions {
				setCondition(changed, v1.FlowSchemaCondition{Type: *one.Type, Status: *one.Status,
					LastTransitionTime: *one.LastTransitionTime, Reason: *one.Reason, Message: *one.Message}, o.FieldManager)
			}
			return changed, nil
		}), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	if err != nil {
		return nil, err
	}
	return obj.(*v1.FlowSchema), nil
}

// setCondition sets the condition Dangling of a flow schema, which is the only one, as a server-side
// apply of a manager would.
func setCondition(s *v1.FlowSchema, c v1.FlowSchemaCondition, manager string) {
	found := false
	for i := range s.Status.Conditions {
		if s.Status.Conditions[i].Type == c.Type {
			s.Status.Conditions[i], found = c, true
		}
	}
	if !found {
		s.Status.Conditions = append(s.Status.Conditions, c)
	}
	entry := metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: v1.SchemeGroupVersion.String(),
		Time: new(c.LastTransitionTime), Subresource: "status",
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:conditions":{"k:{\"type\":\"Dangling\"}":` +
			`{".":{},"f:lastTransitionTime":{},"f:message":{},"f:reason":{},"f:status":{},"f:type":{}}}}}`),
	}
	for i := range s.ManagedFields {
		if s.ManagedFields[i].Manager == manager && s.ManagedFields[i].Subresource == "status" {
			s.ManagedFields[i] = entry
			return
		}
	}
	s.ManagedFields = append(s.ManagedFields, entry)
}

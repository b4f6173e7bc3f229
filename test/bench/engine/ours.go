package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"espalier.dev"
	"espalier.dev/api"
	"espalier.dev/schema"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ours is the engine with the semantics of the reference.
type ours struct {
	props   *api.JSONSchemaProps
	program *schema.Program
	// admitter is built from a CRD for the kind of the objects.
	admitter *espalier.Admitter
}

func newOurs(src []byte) (*ours, error) {
	o := &ours{props: &api.JSONSchemaProps{}}
	if err := json.Unmarshal(src, o.props); err != nil {
		return nil, fmt.Errorf("ours: reading the schema: %w", err)
	}
	return o, o.compile()
}

func (o *ours) compile() error {
	s, err := schema.NewStructural(o.props)
	if err != nil {
		return fmt.Errorf("ours: %w", err)
	}
	o.program, err = schema.Compile(s, schema.WithSemantics(schema.Kubernetes), schema.WithoutRules())
	if err != nil {
		return fmt.Errorf("ours: %w", err)
	}
	return nil
}

func (o *ours) decode(src []byte) (map[string]any, error) {
	obj, _, err := o.program.Decode(src, schema.DecodeOptions{})
	return obj, err
}

func (o *ours) validate(ctx context.Context, obj map[string]any) field.ErrorList {
	return o.program.Validate(ctx, obj, nil).FieldErrors()
}

// prune does more than the reference: a Program cannot prune without also handling nulls,
// defaults and metadata.
func (o *ours) prune(obj map[string]any) error {
	_, err := o.program.Normalize(obj, schema.DecodeOptions{})
	return err
}

// define builds an Admitter from a CRD with the schema.
func (o *ours) define(gvk runtimeschema.GroupVersionKind) error {
	plural := strings.ToLower(gvk.Kind) + "s"
	definition := &api.CustomResourceDefinition{}
	definition.Name = plural + "." + gvk.Group
	definition.Spec = api.CustomResourceDefinitionSpec{
		Group: gvk.Group,
		Scope: api.NamespaceScoped,
		Names: api.CustomResourceDefinitionNames{Plural: plural, Kind: gvk.Kind},
		Versions: []api.CustomResourceDefinitionVersion{{
			Name: gvk.Version, Served: true, Storage: true,
			Schema: &api.CustomResourceValidation{OpenAPIV3Schema: o.props},
		}},
	}
	// Groups of Kubernetes itself need an approval annotation.
	definition.Annotations = map[string]string{"api-approved.kubernetes.io": "unapproved, measured only"}
	var err error
	o.admitter, err = espalier.New(context.Background(), definition, espalier.WithSemantics(schema.Kubernetes), espalier.WithoutRules())
	return err
}

func (o *ours) create(ctx context.Context, obj map[string]any) (map[string]any, field.ErrorList, error) {
	result, err := o.admitter.Create(ctx, obj)
	if err != nil {
		return nil, nil, err
	}
	return result.Object, result.Violations.FieldErrors(), nil
}

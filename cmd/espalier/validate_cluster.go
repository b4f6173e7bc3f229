package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/analysis"
	"espalier.dev/analysis/object"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/source"
	"espalier.dev/crd"
	"espalier.dev/kinds"
)

// servedDefinitions returns a function that reads the CRDs of a cluster, or nil if there is none.
func (a *app) servedDefinitions(ctx context.Context, src source.Finder) func() ([]*definition, error) {
	if src == nil {
		return nil
	}
	return func() ([]*definition, error) {
		var unread error
		items, err := clusterItems(src.Definitions(ctx), func(p input.Problem) {
			unread = errors.Join(unread, fmt.Errorf("%s: %s", p.File, p.Message))
		})
		return a.definitionsOf(items).All(), errors.Join(err, unread)
	}
}

// validateCluster validates the custom resources of a cluster.
func (a *app) validateCluster(v *validator, src source.Finder, namespaces []string, results *validationReporter) error {
	r := results.r
	items, err := clusterItems(src.Definitions(v.ctx), r.Failure)
	if err != nil {
		return err
	}
	served := a.definitionsOf(items)
	v.definitions.Extend(func() ([]*definition, error) { return served.All(), nil })
	selected := source.Selection{Namespaces: namespaces}
	for _, d := range served.All() {
		base, err := d.base()
		if err != nil {
			r.Failure(input.Problem{Rule: object.RuleInvalidDefinition, File: d.file, Message: err.Error(), Object: d.identity()})
			continue
		}
		selected.Definitions = append(selected.Definitions, base)
	}
	failures := sourceFailures{}
	failed := func(failure *source.Failure) { failures.add(r, failure) }
	err = source.Each(src.Objects(v.ctx, selected), failed, func(o source.Object) error {
		o.JSON = withoutResourceVersion(o.JSON)
		it, err := o.AsItem()
		if failure := (*source.Failure)(nil); errors.As(err, &failure) {
			failed(failure)
			return nil
		}
		if err == nil {
			err = results.report(documentResult{objects: []objectResult{v.item(it)}})
		}
		return errors.Join(err, v.ctx.Err())
	})
	if err != nil {
		return err
	}
	failures.report(r)
	r.Add(servedFinding("use espalier audit with etcd (--etcd-servers) or a snapshot (--snapshot) to see what is stored"))
	return nil
}

// withoutResourceVersion removes the resource version of an object, which one to be created must not
// have.
func withoutResourceVersion(src []byte) []byte {
	var object, metadata map[string]json.RawMessage
	if json.Unmarshal(src, &object) != nil || json.Unmarshal(object["metadata"], &metadata) != nil {
		return src // it is reported when it is validated
	}
	delete(metadata, "resourceVersion")
	// Marshaling what was parsed never fails.
	object["metadata"], _ = json.Marshal(metadata)
	out, _ := json.Marshal(object)
	return out
}

// clusterObjects are the objects of a cluster before they are updated.
type clusterObjects struct {
	ctx         context.Context
	source      source.Finder
	definitions *definitions
	// stop stops the validation after an error of the server. mu guards err, which is the first
	// one.
	stop func()
	mu   sync.Mutex
	err  error
}

// of returns the object of the cluster, or nil if there is none.
func (o *clusterObjects) of(it *input.Item) (*input.Item, []analysis.Finding) {
	if it.Name() == "" || strings.HasSuffix(it.Name(), "*") {
		return nil, nil // the server makes a name
	}
	resource, namespaced := o.resourceOf(it)
	namespace := ""
	if namespaced {
		namespace = cmp.Or(it.Namespace(), metav1.NamespaceDefault)
	}
	found, err := o.source.Object(o.ctx, resource, namespace, it.Name())
	failure := (*source.Failure)(nil)
	switch {
	case errors.As(err, &failure) && failure.Reason == source.Vanished:
		return nil, nil
	case errors.As(err, &failure):
		return nil, []analysis.Finding{{Rule: failureRule(failure.Reason), Severity: analysis.Error,
			Message: fmt.Sprintf("cannot read the old object: %v", failure.Err)}}
	}
	var old *input.Item
	if err == nil {
		old, err = found.AsItem()
	}
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.err == nil {
			o.err = err
		}
		o.stop()
	}
	return old, nil
}

// failure returns the error of the server, if it has stopped the validation, or else err.
func (o *clusterObjects) failure(err error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return o.err
	}
	return err
}

// resourceOf returns the resource of an object in its version, and whether that is namespaced.
func (o *clusterObjects) resourceOf(it *input.Item) (runtimeschema.GroupVersionResource, bool) {
	gvk := runtimeschema.FromAPIVersionAndKind(it.APIVersion(), it.Kind())
	if o.definitions.IsBuiltin(it) {
		r := kinds.ByKind(gvk)
		return gvk.GroupVersion().WithResource(r.Plural), r.Namespaced
	}
	d, err := o.definitions.Find(it)
	var base *crd.Definition
	if err == nil {
		base, err = d.base()
	}
	if err != nil {
		return gvk.GroupVersion().WithResource(""), false // the validator has used it before
	}
	return gvk.GroupVersion().WithResource(base.CRD().Spec.Names.Plural), base.Namespaced()
}

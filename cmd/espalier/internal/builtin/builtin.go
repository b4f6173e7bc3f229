// Package builtin checks objects of Kubernetes' own kinds without a server: it reports what an
// API server would answer to a request that creates or updates them.
//
// The rules are those of the server (espalier.dev/server/builtin). They are made when the first
// object is checked, so that runs without such objects do not pay for them.
package builtin

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/analysis"
	"espalier.dev/analysis/object"
	"espalier.dev/api"
	"espalier.dev/internal/jsonx"
	"espalier.dev/server/builtin"
	"espalier.dev/server/builtin/kind"
)

// Checker checks objects of built-in kinds. The zero value is ready to use, and safe for
// concurrent use.
type Checker struct {
	kindsOnce sync.Once
	resources []*builtin.Resource
	byKind    map[schema.GroupVersionKind]*builtin.Resource

	offlineOnce sync.Once
	offline     *builtin.Offline
	offlineErr  error

	// structs caches the fields of Go types.
	structs sync.Map
}

// Has reports whether a kind is built in.
func (c *Checker) Has(apiVersion, kind string) bool {
	return c.kinds()[schema.FromAPIVersionAndKind(apiVersion, kind)] != nil
}

func (c *Checker) kinds() map[schema.GroupVersionKind]*builtin.Resource {
	c.kindsOnce.Do(func() {
		c.byKind = map[schema.GroupVersionKind]*builtin.Resource{}
		c.resources = builtin.Resources()
		for _, r := range c.resources {
			c.byKind[r.GroupVersionKind()] = r
		}
	})
	return c.byKind
}

func (c *Checker) rules() (*builtin.Offline, error) {
	c.offlineOnce.Do(func() { c.offline, c.offlineErr = builtin.NewOffline() })
	return c.offline, c.offlineErr
}

// Check reports how an API server responds to a request that creates the object in source, which
// is JSON, or, with old, to a request that replaces old with it. Objects that the server does
// not store, such as reviews, are only decoded. The findings are in no particular order; their
// pointers point into source.
func (c *Checker) Check(source, old []byte, fields object.FieldValidation) []analysis.Finding {
	findings, err := c.check(source, old, fields)
	if err != nil {
		findings = append(findings, analysis.Finding{Rule: object.RuleDecode, Severity: analysis.Error, Message: err.Error()})
	}
	return findings
}

func (c *Checker) check(source, old []byte, fields object.FieldValidation) (findings []analysis.Finding, _ error) {
	rules, err := c.rules()
	if err != nil {
		return nil, err
	}
	gvk, err := kindOf(source)
	if err != nil {
		return nil, err
	}
	obj, strict, err := rules.Decode(gvk, source)
	if err != nil || len(strict) > 0 && fields != object.Ignore {
		findings = c.decoding(gvk, source, err, fields)
	}
	if err != nil || c.kinds()[gvk].CreateOnly {
		return findings, nil
	}
	var before kind.Object
	if old != nil {
		if before, err = c.old(rules, obj, old); err != nil {
			return findings, fmt.Errorf("cannot decode the old object: %w", err)
		}
	}
	warnings, err := admit(rules, gvk, "", obj, before)
	if err == nil && len(warnings) == 0 {
		return findings, nil
	}
	// It can fail for numbers that no field has: then paths are located without the object.
	tree, _ := jsonx.Parse(source)
	for _, text := range warnings {
		findings = append(findings, warningFinding(text, tree))
	}
	if err != nil {
		findings = append(findings, errorFindings(err, tree)...)
	}
	return findings, nil
}

// kindOf returns the kind of an object in JSON.
func kindOf(source []byte) (schema.GroupVersionKind, error) {
	id, err := api.Identify(source)
	return schema.FromAPIVersionAndKind(id.APIVersion, id.Kind), err
}

// admit does what the API server does to an object before it is stored.
func admit(rules *builtin.Offline, gvk schema.GroupVersionKind, subresource string, obj, old kind.Object) ([]string, error) {
	if subresource == "" {
		finish, err := rules.Begin(obj, old)
		if err != nil {
			return nil, err
		}
		defer finish()
	}
	return rules.Write(builtin.OfflineWrite{Kind: gvk, Subresource: subresource, Object: obj, Old: old})
}

// old decodes the object before an update. It gives both objects the metadata that a server sets,
// as far as they lack it: files often do.
func (c *Checker) old(rules *builtin.Offline, obj kind.Object, source []byte) (kind.Object, error) {
	gvk, err := kindOf(source)
	if err != nil {
		return nil, err
	}
	old, _, err := rules.Decode(gvk, source)
	if err != nil {
		return nil, err
	}
	if old.GetUID() == "" {
		old.SetUID(obj.GetUID())
	}
	if old.GetUID() == "" {
		old.SetUID(builtin.OfflineUID)
	}
	if old.GetCreationTimestamp().Time.IsZero() {
		old.SetCreationTimestamp(obj.GetCreationTimestamp())
	}
	if c.kinds()[gvk].Namespaced && old.GetNamespace() == "" {
		old.SetNamespace(obj.GetNamespace())
		if old.GetNamespace() == "" {
			old.SetNamespace(metav1.NamespaceDefault)
		}
	}
	if c.kinds()[gvk].Namespaced && obj.GetNamespace() == "" {
		obj.SetNamespace(old.GetNamespace())
	}
	if old.GetResourceVersion() == "" {
		old.SetResourceVersion("1")
	}
	obj.SetResourceVersion(old.GetResourceVersion())
	if obj.GetName() == "" && old.GetName() == "" && obj.GetGenerateName() != "" {
		name := obj.GetGenerateName() + builtin.OfflineSuffix
		obj.SetName(name)
		old.SetName(name)
	}
	return old, nil
}

// errorFindings converts an error of the API server to findings about the object in tree.
func errorFindings(err error, tree any) (findings []analysis.Finding) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
		return []analysis.Finding{{Rule: object.RuleInvalid, Severity: analysis.Error, Message: err.Error()}}
	}
	for _, cause := range status.Status().Details.Causes {
		f := analysis.Finding{Rule: object.CauseRule(cause), Severity: analysis.Error}
		if cause.Field != "<nil>" {
			f.Path = cause.Field
		}
		f.Pointer, _ = locate(f.Path, tree)
		f.Message, f.Detail = split(cause.Message)
		findings = append(findings, f)
	}
	return findings
}

// split splits a message into its first line and the others.
func split(message string) (first string, rest []string) {
	lines := strings.Split(strings.TrimRight(message, "\n"), "\n")
	return lines[0], lines[1:]
}

// warningFinding returns the finding about a warning of the API server. Many warnings begin with
// the path of a field.
func warningFinding(text string, tree any) analysis.Finding {
	f := analysis.Finding{Rule: object.RuleServerWarning, Severity: analysis.Warning}
	f.Message, f.Detail = split(text)
	end := strings.IndexAny(f.Message, ": ")
	if end <= 0 {
		return f
	}
	path := f.Message[:end]
	pointer, exact := locate(path, tree)
	rest, prefix := strings.CutPrefix(f.Message[end:], ": ")
	// Some names differ from those in the object: storageOS is storageos.
	if !exact && !(prefix && (strings.HasPrefix(path, "spec.") || strings.HasPrefix(path, "metadata."))) {
		return f
	}
	f.Path, f.Pointer = path, pointer
	if prefix {
		f.Message = rest
	}
	return f
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"espalier.dev/api"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/cmd/espalier/internal/workdir"
	"espalier.dev/espaliertest"
	"espalier.dev/schema"
)

// upgradeCluster is a server with an etcd, whose CRDs are upgraded.
type upgradeCluster struct {
	*etcdServer
	// place is where commands run.
	place
	client dynamic.Interface
	crds   dynamic.ResourceInterface
	// edit changes an object that kubectl edit names.
	edit func(*unstructured.Unstructured)
}

func newUpgradeCluster(t *testing.T, sem schema.Semantics) *upgradeCluster {
	t.Helper()
	s := newEtcdServer(t, espaliertest.WithSemantics(sem))
	client, err := dynamic.NewForConfig(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	return &upgradeCluster{etcdServer: s, place: newPlace(t), client: client,
		crds: client.Resource(runtimeschema.GroupVersionResource{Group: api.GroupName, Version: "v1", Resource: "customresourcedefinitions"})}
}

// documents returns the objects of files and directories that keep selects.
func documents(ctx context.Context, dir string, paths []string, keep func(*input.Item) bool) (all []*unstructured.Unstructured, err error) {
	git := input.NewRepositories(ctx, workdir.Dir(dir))
	defer func() { err = errors.Join(err, git.Close()) }()
	flags := input.Flags{Paths: paths, Recursive: true, Skipped: new(input.Skipped), Git: git}
	flags.SkipOthers(true, input.Manifests)
	err = input.Read(ctx, strings.NewReader(""), flags, func(it *input.Item) error {
		if !keep(it) {
			return nil
		}
		var object map[string]any
		if err := json.Unmarshal(it.JSON, &object); err != nil {
			return err
		}
		all = append(all, &unstructured.Unstructured{Object: object})
		return nil
	}, func(input.Problem) {})
	return all, err
}

// apply applies CRDs as kubectl apply --server-side --force-conflicts does. It returns the errors of
// those that are rejected, by name.
func (c *upgradeCluster) apply(ctx context.Context, paths ...string) (map[string]error, error) {
	all, err := documents(ctx, c.dir, paths, isDefinition)
	if err != nil {
		return nil, err
	}
	rejected := map[string]error{}
	for _, crd := range all {
		crd.Object["status"] = nil
		delete(crd.Object, "status")
		if _, err := c.crds.Apply(ctx, crd.GetName(), crd, metav1.ApplyOptions{FieldManager: "kubectl", Force: true}); err != nil {
			rejected[crd.GetName()] = err
		}
	}
	return rejected, c.established(ctx)
}

// established waits until all CRDs are served.
func (c *upgradeCluster) established(ctx context.Context) error {
	for {
		list, err := c.crds.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		waiting := slices.ContainsFunc(list.Items, func(crd unstructured.Unstructured) bool {
			conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
			return !slices.ContainsFunc(conditions, func(x any) bool {
				m, _ := x.(map[string]any)
				return m["type"] == "Established" && m["status"] == "True"
			})
		})
		if !waiting {
			return nil
		}
	}
}

// resource returns a resource of a CRD in a version, or in its storage version.
func (c *upgradeCluster) resource(ctx context.Context, name, version string) (dynamic.NamespaceableResourceInterface, error) {
	crd, err := c.crds.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		if v := v.(map[string]any); version == "" && v["storage"] == true {
			version = v["name"].(string)
		}
	}
	plural, group, _ := strings.Cut(name, ".")
	return c.client.Resource(runtimeschema.GroupVersionResource{Group: group, Version: version, Resource: plural}), nil
}

// step runs a command of a step.
func (c *upgradeCluster) step(ctx context.Context, command string) error {
	words, err := splitWords(command)
	if err != nil {
		return err
	}
	if words[0] == "espalier" {
		if words[1] == "migrate" {
			words = append(words, "--kubeconfig", c.Kubeconfig(), "--rate", "0")
		}
		stdout, stderr, code := c.runBoth(ctx, words[1:]...)
		if code != 0 {
			return fmt.Errorf("exit code %d: %s%s", code, stdout, stderr)
		}
		return nil
	}
	if words = slices.DeleteFunc(words, func(w string) bool { return w == c.Kubeconfig() || w == "--kubeconfig" }); words[0] != "kubectl" {
		return errors.New("unknown program")
	}
	return c.kubectl(ctx, words[1:])
}

// kubectl does what kubectl does with the commands of steps.
func (c *upgradeCluster) kubectl(ctx context.Context, words []string) error {
	switch words[0] {
	case "get": // RESOURCE.VERSION.GROUP [-A] -o yaml > FILE
		parts := strings.SplitN(words[1], ".", 3)
		r, err := c.resource(ctx, parts[0]+"."+parts[2], parts[1])
		if err != nil {
			return err
		}
		list, err := r.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		text, err := yaml.Marshal(list)
		if err != nil {
			return err
		}
		return os.WriteFile(c.path(words[len(words)-1]), text, 0o600)
	case "edit": // CRD NAME [-n NAMESPACE]
		namespace := ""
		if len(words) > 4 {
			namespace = words[4]
		}
		r, err := c.resource(ctx, words[1], "")
		if err != nil {
			return err
		}
		object, err := r.Namespace(namespace).Get(ctx, words[2], metav1.GetOptions{})
		if err != nil {
			return err
		}
		c.edit(object)
		_, err = r.Namespace(namespace).Update(ctx, object, metav1.UpdateOptions{})
		return err
	case "patch": // crd NAME --type=TYPE -p PATCH
		kind := types.JSONPatchType
		if words[3] == "--type=merge" {
			kind = types.MergePatchType
		}
		_, err := c.crds.Patch(ctx, words[2], kind, []byte(words[5]), metav1.PatchOptions{})
		return errors.Join(err, c.established(ctx))
	case "delete": // crd NAME...
		for _, name := range words[2:] {
			if err := c.crds.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
				return err
			}
			for {
				if _, err := c.crds.Get(ctx, name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
					break
				} else if err != nil {
					return err
				}
			}
		}
		return nil
	case "apply": // --server-side --force-conflicts -f PATH
		rejected, err := c.apply(ctx, words[len(words)-1])
		for _, e := range rejected {
			err = errors.Join(err, e)
		}
		return err
	case "create": // -f FILE
		all, err := documents(ctx, c.dir, words[2:], func(*input.Item) bool { return true })
		for _, object := range all {
			if err == nil {
				c.edit(object) // as the title of the step says
				object.SetResourceVersion("")
				gv := object.GroupVersionKind().GroupVersion()
				var r dynamic.NamespaceableResourceInterface
				if r, err = c.resource(ctx, strings.TrimSuffix(filepath.Base(words[2]), ".yaml"), gv.Version); err == nil {
					_, err = r.Namespace(object.GetNamespace()).Create(ctx, object, metav1.CreateOptions{})
				}
			}
		}
		return err
	}
	return fmt.Errorf("kubectl %s is not known", words[0])
}

// upgraded is what upgrade reports as JSON.
type upgraded struct {
	Findings []struct {
		Rule, Severity, Path, Message, Section string
		Object                                 struct{ APIVersion, Kind, Namespace, Name string }
	}
	Summary struct {
		Objects, Affected, Errors int
		Steps                     []report.Step
	}
}

// upgrade runs upgrade, and returns what it reports.
func (c *upgradeCluster) upgrade(t *testing.T, code int, args ...string) (u upgraded) {
	t.Helper()
	stdout, stderr, got := c.runBoth(t.Context(), append([]string{"upgrade", "-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(stdout), &u); err != nil || got != code {
		t.Fatalf("upgrade %v: %v, exit code %d, want %d: %s%s", args, err, got, code, stdout, stderr)
	}
	return u
}

// take runs the commands of the steps of an upgrade.
func (c *upgradeCluster) take(t *testing.T, u upgraded) {
	t.Helper()
	for _, step := range u.Summary.Steps {
		for _, command := range step.Commands {
			if err := c.step(t.Context(), command); err != nil {
				t.Fatalf("%s: %s: %v", step.Title, command, err)
			}
		}
	}
}

// rules returns the rules of the findings, each once.
func (u *upgraded) rules() string {
	var rules []string
	for _, f := range u.Findings {
		rules = append(rules, f.Rule)
	}
	slices.Sort(rules)
	return strings.Join(slices.Compact(rules), " ")
}

// upgradeCRD returns a CRD with versions, each followed by a schema of the spec. The storage version
// begins with *.
func upgradeCRD(scope string, versions ...string) []byte {
	var list []any
	for i := 0; i < len(versions); i += 2 {
		var spec any
		if err := yaml.Unmarshal([]byte(versions[i+1]), &spec); err != nil {
			panic(err)
		}
		name, storage := strings.CutPrefix(versions[i], "*")
		list = append(list, map[string]any{"name": name, "served": true, "storage": storage, "schema": map[string]any{
			"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{"spec": spec}}}})
	}
	text, err := json.Marshal(map[string]any{"apiVersion": api.APIVersion, "kind": api.Kind, "metadata": map[string]any{"name": "jobs.example.com"},
		"spec": map[string]any{"group": "example.com", "scope": scope, "names": map[string]any{"plural": "jobs", "kind": "Job"}, "versions": list}})
	if err != nil {
		panic(err)
	}
	return text
}

// TestUpgradeSteps upgrades CRDs in a server: without the steps that upgrade prints, the server
// rejects the CRD or the object becomes invalid; with them, in their order, the upgrade succeeds and
// nothing is left to do.
func TestUpgradeSteps(t *testing.T) {
	t.Parallel()
	const (
		before = `{type: object, properties: {schedule: {type: string}, legacy: {type: string}, n: {type: integer}}}`
		after  = `{type: object, properties: {schedule: {type: string, maxLength: 9}, n: {type: integer, default: 3}}}`
	)
	for _, tt := range []struct {
		name     string
		old, new []byte
		// through is a release between the two, for the step that asks for one.
		through []byte
		objects map[string]string
		// apiVersion is that of the objects.
		apiVersion string
		edit       func(*unstructured.Unstructured)
		// rejected is a part of the error of the server without the steps, or empty.
		rejected string
		// rules are those of the findings in a snapshot, and actions the steps.
		rules, actions string
		// left are the rules of findings after the steps.
		left string
	}{
		{
			name: "the stored version leaves", old: upgradeCRD("Namespaced", "*v1beta1", before, "v1", before), new: upgradeCRD("Namespaced", "*v1", after),
			objects: map[string]string{"a": `{schedule: "1", legacy: x}`, "b": `{schedule: "12345678901"}`, "c": `{schedule: "1", n: 1}`}, apiVersion: "example.com/v1beta1",
			edit:     func(o *unstructured.Unstructured) { _ = unstructured.SetNestedField(o.Object, "1", "spec", "schedule") },
			rejected: "status.storedVersions", rules: "defaulted invalid loses-data needs-migration update-refused version-not-served",
			actions: "save switch-storage correct rewrite apply change-version-after check audit", left: "",
		},
		{
			name: "an older version leaves", old: upgradeCRD("Namespaced", "v1beta1", before, "*v1", before), new: upgradeCRD("Namespaced", "*v1", before),
			objects: map[string]string{"a": `{schedule: "1"}`}, apiVersion: "example.com/v1",
			rules: "", actions: "apply audit",
		},
		{
			name: "the storage version changes", old: upgradeCRD("Namespaced", "*v1", before), new: upgradeCRD("Namespaced", "v1", before, "*v2", before),
			objects: map[string]string{"a": `{schedule: "1"}`}, apiVersion: "example.com/v1",
			rules: "needs-migration", actions: "apply migrate audit",
		},
		{
			name: "the scope changes", old: upgradeCRD("Namespaced", "*v1", before), new: upgradeCRD("Cluster", "*v1", before),
			objects: map[string]string{"a": `{schedule: "1"}`}, apiVersion: "example.com/v1",
			edit: func(o *unstructured.Unstructured) { o.SetNamespace("") }, rejected: "immutable",
			rules: "object-deleted update-refused", actions: "save delete apply recreate audit",
		},
		{
			name: "no version in common", old: upgradeCRD("Namespaced", "*v1", before), new: upgradeCRD("Namespaced", "*v2", before),
			through: upgradeCRD("Namespaced", "v1", before, "*v2", before), objects: map[string]string{"a": `{schedule: "1"}`}, apiVersion: "example.com/v1",
			rejected: "status.storedVersions", rules: "not-judged update-refused version-not-served",
			actions: "intermediate-release apply change-version-after audit",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx := t.Context()
			c := newUpgradeCluster(t, schema.Kubernetes)
			c.edit = tt.edit
			writeFile(t, c.path("old.json"), tt.old)
			writeFile(t, c.path("new.json"), tt.new)
			if rejected, err := c.apply(ctx, "old.json"); err != nil || len(rejected) > 0 {
				t.Fatal(err, rejected)
			}
			_, version, _ := strings.Cut(tt.apiVersion, "/")
			jobs, err := c.resource(ctx, "jobs.example.com", version)
			if err != nil {
				t.Fatal(err)
			}
			for name, text := range tt.objects {
				var spec map[string]any
				if err := yaml.Unmarshal([]byte(text), &spec); err != nil {
					t.Fatal(err)
				}
				if _, err := jobs.Namespace("default").Create(ctx, &unstructured.Unstructured{Object: map[string]any{"apiVersion": tt.apiVersion, "kind": "Job",
					"metadata": map[string]any{"name": name}, "spec": spec}}, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			code := 0
			if tt.rejected != "" {
				code = 1
				rejected, err := c.apply(ctx, "new.json")
				if e := rejected["jobs.example.com"]; err != nil || e == nil || !strings.Contains(e.Error(), tt.rejected) {
					t.Fatalf("the server accepts the CRD without the steps, or for another reason: %v %v", e, err)
				}
			}
			u := c.upgrade(t, code, "old.json", "new.json", "--snapshot", c.snapshot(t))
			if got := u.rules(); got != tt.rules {
				t.Errorf("the rules are %q, want %q", got, tt.rules)
			}
			served := c.upgrade(t, code, "new.json", "--kubeconfig", c.Kubeconfig(), "--semantics", "kubernetes")
			var actions []string
			for _, step := range served.Summary.Steps {
				actions = append(actions, step.Action)
			}
			if got := strings.Join(actions, " "); got != tt.actions {
				t.Errorf("the steps are %q, want %q", got, tt.actions)
			}
			if u.Summary.Objects != len(tt.objects) || served.Summary.Objects != len(tt.objects) {
				t.Errorf("%d and %d objects", u.Summary.Objects, served.Summary.Objects)
			}
			if tt.through != nil {
				writeFile(t, c.path("through.json"), tt.through)
				c.take(t, c.upgrade(t, 0, "through.json", "--kubeconfig", c.Kubeconfig()))
				served = c.upgrade(t, 0, "new.json", "--kubeconfig", c.Kubeconfig())
			}
			c.take(t, served)
			u = c.upgrade(t, 0, "new.json", "new.json", "--snapshot", c.snapshot(t))
			if got := u.rules(); got != tt.left || len(u.Summary.Steps) > 0 || u.Summary.Objects != len(tt.objects) {
				t.Errorf("after the steps, the findings are %q in %d objects, and the steps are %v", got, u.Summary.Objects, u.Summary.Steps)
			}
			list, err := c.crds.Get(ctx, "jobs.example.com", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if stored, _, _ := unstructured.NestedStringSlice(list.Object, "status", "storedVersions"); len(stored) != 1 {
				t.Errorf("the stored versions are %v", stored)
			}
		})
	}
}

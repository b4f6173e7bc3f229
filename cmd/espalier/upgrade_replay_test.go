package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"espalier.dev/analysis/explain/sample"
	"espalier.dev/api/codec"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/schema"
)

// TestUpgradeReplay upgrades CRDs in a server, and compares what upgrade predicts with what happens:
// which CRDs the server rejects, what audit finds in the objects, which fields they lose and which
// defaults they get when they are read, and whether an update of a label and the creation of a copy
// are accepted, in dry runs. ESPALIER_UPGRADE_OLD and ESPALIER_UPGRADE_NEW name files or directories
// with the CRDs of two releases, and ESPALIER_UPGRADE_OBJECTS those with objects that are valid in the
// old one, separated like PATH; others are skipped. Samples of all kinds are added. Without them, it
// uses the examples.
func TestUpgradeReplay(t *testing.T) {
	if testing.Short() {
		t.Skip("replays an upgrade")
	}
	t.Parallel()
	old, new := os.Getenv("ESPALIER_UPGRADE_OLD"), os.Getenv("ESPALIER_UPGRADE_NEW")
	if old == "" || new == "" {
		old, new = "testdata/examples/release-1", "testdata/examples/release-2"
	}
	for _, list := range []*string{&old, &new} {
		paths := filepath.SplitList(*list)
		for i, path := range paths {
			var err error
			if paths[i], err = filepath.Abs(path); err != nil {
				t.Fatal(err)
			}
		}
		*list = strings.Join(paths, string(filepath.ListSeparator))
	}
	r := &upgradeReplay{upgradeCluster: newUpgradeCluster(t, schema.Kubernetes), t: t, objects: map[string]*replayedUpgrade{}, names: map[string]string{}}
	r.install(filepath.SplitList(old))
	if dirs := os.Getenv("ESPALIER_UPGRADE_OBJECTS"); dirs != "" {
		all, err := documents(t.Context(), "", filepath.SplitList(dirs), func(it *input.Item) bool { return !isDefinition(it) })
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range all {
			r.create(o)
		}
	}
	r.samples(filepath.SplitList(old))
	r.predict(old, new)
	r.upgrade(filepath.SplitList(new))
	r.observe()
	r.report()
}

// upgradeReplay is one run of TestUpgradeReplay.
type upgradeReplay struct {
	*upgradeCluster
	t *testing.T
	// names has the name of the CRD for a group and kind.
	names map[string]string
	// objects are those that were created, by CRD, namespace and name.
	objects map[string]*replayedUpgrade
	// skipped counts the objects that the server has rejected.
	skipped int
	// rejections are the CRDs that the server is predicted to reject, and prediction all of it.
	rejections map[string]bool
	prediction upgraded
	// right, severe and missed count the checks of objects and CRDs.
	right, severe, missed int
	// unjudged counts the objects that upgrade says it cannot judge, and deleted those of CRDs that are
	// removed or recreated.
	unjudged, deleted int
}

// replayedUpgrade is an object before and after the upgrade.
type replayedUpgrade struct {
	crd, namespace, name string
	before               map[string]any
	// predicted and found have a set of paths for each check.
	predicted, found map[string]map[string]bool
	unjudged, gone   bool
}

func (o *replayedUpgrade) key() string { return o.crd + "/" + o.namespace + "/" + o.name }

// add adds a path to a check.
func add(checks map[string]map[string]bool, check, path string) {
	if checks[check] == nil {
		checks[check] = map[string]bool{}
	}
	checks[check][path] = true
}

// install installs the old CRDs.
func (r *upgradeReplay) install(paths []string) {
	r.t.Helper()
	rejected, err := r.apply(r.t.Context(), paths...)
	if err != nil {
		r.t.Fatal(err)
	}
	for name, err := range rejected {
		r.t.Logf("the old CRD %s is rejected: %v", name, err)
	}
	list, err := r.crds.List(r.t.Context(), metav1.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, item := range list.Items {
		group, _, _ := unstructured.NestedString(item.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(item.Object, "spec", "names", "kind")
		r.names[group+" "+kind] = item.GetName()
	}
}

// create creates an object, if the server accepts it.
func (r *upgradeReplay) create(object *unstructured.Unstructured) {
	ctx := r.t.Context()
	gvk := object.GroupVersionKind()
	name := r.names[gvk.Group+" "+gvk.Kind]
	if name == "" {
		return
	}
	object = object.DeepCopy()
	status := object.Object["status"]
	o := &replayedUpgrade{crd: name, predicted: map[string]map[string]bool{}, found: map[string]map[string]bool{}}
	if object.GetName() == "" {
		object.SetName("unnamed")
	}
	crd, err := r.crds.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	if scope, _, _ := unstructured.NestedString(crd.Object, "spec", "scope"); scope == "Namespaced" {
		o.namespace = "default"
	}
	object.SetNamespace(o.namespace)
	base := object.GetName()
	for i := 1; ; i++ {
		if o.name = object.GetName(); r.objects[o.key()] == nil {
			break
		}
		object.SetName(fmt.Sprintf("%s-%d", base, i))
	}
	for _, field := range []string{"resourceVersion", "uid", "ownerReferences", "finalizers", "managedFields", "creationTimestamp", "generation"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	plural, group, _ := strings.Cut(name, ".")
	resource := r.client.Resource(runtimeschema.GroupVersionResource{Group: group, Version: gvk.Version, Resource: plural}).Namespace(o.namespace)
	created, err := resource.Create(ctx, object, metav1.CreateOptions{FieldManager: "replay"})
	if err != nil {
		r.skipped++
		return
	}
	if status != nil && created.Object["status"] == nil {
		created.Object["status"] = status
		_, _ = resource.UpdateStatus(ctx, created, metav1.UpdateOptions{FieldManager: "replay"}) // the status is a bonus
	}
	r.objects[o.key()] = o
}

// samples creates samples of all kinds.
func (r *upgradeReplay) samples(paths []string) {
	all, err := documents(r.t.Context(), "", paths, isDefinition)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, u := range all {
		text, err := json.Marshal(u)
		if err != nil {
			r.t.Fatal(err)
		}
		decoded, err := codec.DecodeLenient(text)
		if err != nil {
			continue
		}
		d, err := crd.New(decoded, crd.Options{Semantics: schema.Kubernetes, Rules: cel.Checker{}})
		if err != nil {
			continue
		}
		for _, v := range d.Versions() {
			for _, size := range []sample.Size{sample.Minimal, sample.Full} {
				if s, err := sample.New(r.t.Context(), v, size); err == nil && v.Served() {
					text, err := json.Marshal(s.Object)
					if err != nil {
						r.t.Fatal(err)
					}
					object := &unstructured.Unstructured{}
					if err := object.UnmarshalJSON(text); err != nil {
						r.t.Fatal(err)
					}
					object.SetName(fmt.Sprintf("sample-%s-%s", size, v.Name()))
					r.create(object)
				}
			}
		}
	}
}

// predict runs upgrade on a snapshot.
func (r *upgradeReplay) predict(old, new string) {
	r.t.Helper()
	for _, o := range r.objects {
		o.before = r.read(o).Object
	}
	code, stdout, stderr := runWith(r.t.Context(), "upgrade", "-R", "-o", "json", "--skip-other-files", old, new, "--snapshot", r.snapshot(r.t))
	if err := json.Unmarshal([]byte(stdout), &r.prediction); err != nil || code == 2 {
		r.t.Fatalf("upgrade exits with %d: %v: %s%s", code, err, stdout, stderr)
	}
	r.rejections = map[string]bool{}
	for _, f := range r.prediction.Findings {
		if f.Rule == "update-refused" {
			r.rejections[f.Object.Name] = true
			continue
		}
		group, _, _ := strings.Cut(f.Object.APIVersion, "/")
		o := r.objects[r.names[group+" "+f.Object.Kind]+"/"+f.Object.Namespace+"/"+f.Object.Name]
		if o == nil {
			continue
		}
		switch f.Rule {
		case "object-deleted":
			o.gone = true
		case "not-judged":
			o.unjudged = true
		case "loses-data":
			add(o.predicted, "lost", f.Path)
			if strings.Contains(f.Message, "hidden") { // else it is not stored any more
				add(o.predicted, "audit", "unspecified "+f.Path)
			}
		case "defaulted":
			add(o.predicted, "defaulted", f.Path)
		case "invalid":
			add(o.predicted, "audit", "invalid "+f.Path)
			if strings.Contains(f.Message, "every update") {
				add(o.predicted, "update", "rejected")
			}
			if f.Path != "status" && !strings.HasPrefix(f.Path, "status.") {
				add(o.predicted, "create", "rejected")
			}
		}
	}
}

// upgrade applies the new CRDs. If the server rejects them, it does the steps that are to be done
// before, and applies them again.
func (r *upgradeReplay) upgrade(paths []string) {
	ctx := r.t.Context()
	rejected, err := r.apply(ctx, paths...)
	if err != nil {
		r.t.Fatal(err)
	}
	for name := range r.rejections {
		r.check("the CRD "+name, "is rejected", true, rejected[name] != nil)
		delete(rejected, name)
	}
	for name, err := range rejected {
		r.check(fmt.Sprintf("the CRD %s (%v)", name, err), "is rejected", false, true)
	}
	if len(r.rejections) == 0 {
		return
	}
	for _, step := range r.prediction.Summary.Steps {
		if step.Action == "switch-storage" || step.Action == "rewrite" {
			for _, command := range step.Commands {
				if err := r.step(ctx, command); err != nil {
					r.t.Logf("%s: %.500v", command, err)
				}
			}
		}
	}
	if rejected, err = r.apply(ctx, paths...); err != nil {
		r.t.Fatal(err)
	}
	for name, err := range rejected {
		r.t.Logf("the CRD %s is still rejected: %v", name, err)
	}
}

// read reads an object in the storage version, or the first that is served.
func (r *upgradeReplay) read(o *replayedUpgrade) *unstructured.Unstructured {
	resource, err := r.servedResource(r.t.Context(), o.crd)
	if err != nil {
		return nil
	}
	object, err := resource.Namespace(o.namespace).Get(r.t.Context(), o.name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return object
}

// servedResource returns the resource of a CRD in the storage version or, if that is not served, in
// another one.
func (r *upgradeReplay) servedResource(ctx context.Context, name string) (dynamic.NamespaceableResourceInterface, error) {
	crd, err := r.crds.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	chosen := ""
	for _, v := range versions {
		if v := v.(map[string]any); v["served"] == true && (chosen == "" || v["storage"] == true) {
			chosen = v["name"].(string)
		}
	}
	return r.resource(ctx, name, chosen)
}

// observe finds out what has happened to the objects.
func (r *upgradeReplay) observe() {
	ctx := r.t.Context()
	r.audit()
	for _, o := range r.objects {
		if o.gone {
			continue
		}
		is := r.read(o)
		if is == nil {
			if !o.unjudged {
				add(o.found, "read", "fails")
			}
			continue
		}
		differences(o.found, "", o.before, is.Object)
		resource, err := r.servedResource(ctx, o.crd)
		if err != nil {
			r.t.Fatal(err)
		}
		_, err = resource.Namespace(o.namespace).Patch(ctx, o.name, types.MergePatchType, []byte(`{"metadata":{"labels":{"replay":"x"}}}`),
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: "replay"})
		if invalid(err) {
			add(o.found, "update", "rejected")
		} else if err != nil && !o.unjudged {
			r.t.Logf("%s: the update: %v", o.key(), err)
		}
		dup := is.DeepCopy()
		dup.SetName("copy")
		dup.SetResourceVersion("")
		if _, err = resource.Namespace(o.namespace).Create(ctx, dup, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); invalid(err) {
			add(o.found, "create", "rejected")
		} else if err != nil && !o.unjudged {
			r.t.Logf("%s: the copy: %v", o.key(), err)
		}
	}
}

func invalid(err error) bool {
	return err != nil && (apierrors.IsInvalid(err) || apierrors.IsBadRequest(err))
}

// audit runs audit, and adds what it finds.
func (r *upgradeReplay) audit() {
	code, stdout, stderr := runWith(r.t.Context(), "audit", "-o", "json", "--examples", "1000000", "--etcd-servers", r.endpoint)
	var out struct {
		Findings []struct {
			Rule     string
			Affected struct {
				CRD      string
				Examples []struct{ Namespace, Name, Path string }
			}
		}
	}
	if err := json.Unmarshal([]byte(stdout), &out); err != nil || code == 2 {
		r.t.Fatalf("audit exits with %d: %v: %s%s", code, err, stdout, stderr)
	}
	for _, f := range out.Findings {
		kind := map[string]string{"stored-unspecified": "unspecified", "stored-malformed": "unspecified", "stored-invalid": "invalid",
			"stored-contradiction": "invalid", "stored-unreadable": "unreadable"}[f.Rule]
		for _, x := range f.Affected.Examples {
			if o := r.objects[f.Affected.CRD+"/"+x.Namespace+"/"+x.Name]; o != nil && kind != "" {
				add(o.found, "audit", kind+" "+x.Path)
			}
		}
	}
}

// differences adds the fields that are lost, and those that are new or different.
func differences(found map[string]map[string]bool, path string, was, is any) {
	if reflect.DeepEqual(was, is) {
		return
	}
	switch was := was.(type) {
	case map[string]any:
		if is, ok := is.(map[string]any); ok {
			names := maps.Clone(was)
			maps.Copy(names, is)
			for name := range names {
				if path == "" && slices.Contains([]string{"apiVersion", "kind", "metadata"}, name) {
					continue
				}
				below := strings.TrimPrefix(path+"."+name, ".")
				if strings.ContainsAny(name, ".[]\"") || name == "" {
					below = fmt.Sprintf("%s[%q]", path, name)
				}
				a, had := was[name]
				b, has := is[name]
				switch {
				case had && has:
					differences(found, below, a, b)
				case had:
					add(found, "lost", below)
				default:
					add(found, "defaulted", below)
				}
			}
			return
		}
	case []any:
		if is, ok := is.([]any); ok && len(was) == len(is) {
			for i := range was {
				differences(found, fmt.Sprintf("%s[%d]", path, i), was[i], is[i])
			}
			return
		}
	}
	add(found, "defaulted", path)
}

// check compares a prediction with what was found.
func (r *upgradeReplay) check(what, check string, predicted, found bool) {
	switch {
	case predicted == found:
		r.right++
	case predicted:
		r.severe++
		r.t.Errorf("too severe: %s: %s", what, check)
	default:
		r.missed++
		r.t.Errorf("missed: %s: %s", what, check)
	}
}

// report compares all objects, and prints the numbers.
func (r *upgradeReplay) report() {
	affected := 0
	for _, key := range slices.Sorted(maps.Keys(r.objects)) {
		o := r.objects[key]
		if o.gone {
			r.deleted++
			continue
		}
		if o.unjudged {
			r.unjudged++
		}
		if len(o.predicted["lost"])+len(o.predicted["audit"]) > 0 {
			affected++
		}
		for _, check := range []string{"read", "lost", "defaulted", "audit", "update", "create"} {
			if o.unjudged && check != "audit" {
				continue // the webhook does not run here
			}
			severe, missed := missing(o.predicted[check], o.found[check]), missing(o.found[check], o.predicted[check])
			if len(severe) == 0 && len(missed) == 0 {
				r.right++
			}
			if len(severe) > 0 {
				r.severe++
				r.t.Errorf("too severe: %s: %s: %.600q", key, check, severe)
			}
			if len(missed) > 0 {
				r.missed++
				r.t.Errorf("missed: %s: %s: %.600q", key, check, missed)
			}
		}
	}
	if len(r.objects) == 0 {
		r.t.Error(errors.New("there are no objects"))
	}
	r.t.Logf("%d CRDs, %d rejected; %d objects (%d more rejected by the old CRDs), %d with effects, %d deleted, %d not judged; checks: %d right, %d too severe, %d missed",
		len(r.names), len(r.rejections), len(r.objects), r.skipped, affected, r.deleted, r.unjudged, r.right, r.severe, r.missed)
}

// missing returns what only the first set has, sorted.
func missing(a, b map[string]bool) (only []string) {
	for path := range a {
		if !b[path] {
			only = append(only, path)
		}
	}
	slices.Sort(only)
	return only
}

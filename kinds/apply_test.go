package kinds_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"espalier.dev/analysis"
	"espalier.dev/analysis/object"
	"espalier.dev/kinds"
	"espalier.dev/kinds/cel"
	"espalier.dev/kinds/schemas"
)

// manifests returns a name and an object for all samples, and for all objects of built-in kinds in
// the YAML files of the seeds and examples.
func manifests(t *testing.T) map[string]map[string]any {
	out := map[string]map[string]any{}
	add := func(from string, obj map[string]any) {
		meta, _ := obj["metadata"].(map[string]any)
		out[fmt.Sprintf("%s %v %v %d", from, obj["kind"], meta["name"], len(out))] = obj
	}
	for _, k := range schemas.All() {
		for _, v := range k.Versions {
			sample, err := k.Sample(v.Name)
			if err != nil {
				t.Fatal(err)
			}
			add("sample", sample)
		}
	}
	for _, dir := range []string{"../test/oracle/builtin/seeds", "../examples"} {
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".yaml" {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, text := range strings.Split(string(data), "\n---\n") {
				var obj map[string]any
				if yaml.Unmarshal([]byte(text), &obj) == nil && obj["kind"] != nil {
					add(filepath.Base(path), obj)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestApplyManifests adds a label to manifests of all kinds, as an update of the manifest and of the
// object that a server has stored for it: what can be created can be updated.
func TestApplyManifests(t *testing.T) {
	t.Parallel()
	offline, err := kinds.NewOffline(cel.New())
	if err != nil {
		t.Fatal(err)
	}
	encode := func(obj any) []byte {
		data, err := json.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	updated := map[string]bool{}
	for name, obj := range manifests(t) {
		old := encode(obj)
		r, err := offline.Request(old)
		if err != nil || kinds.ByKind(r.Kind) == nil || kinds.ByKind(r.Kind).CreateOnly || r.Undecodable != nil {
			continue
		}
		if _, errs, err := r.Write(""); err != nil || len(errs) > 0 {
			t.Logf("%s: cannot be created: %v %v", name, errs, err)
			continue
		}
		live, err := r.Encode(false)
		if err != nil {
			t.Fatal(err)
		}
		meta, _ := live["metadata"].(map[string]any)
		meta["resourceVersion"] = "7"
		known := maps.Clone(live)
		known["metadata"] = maps.Clone(meta)
		known["metadata"].(map[string]any)["annotations"] = map[string]any{"kubectl.kubernetes.io/last-applied-configuration": string(old)}
		changed := maps.Clone(obj)
		meta, _ = obj["metadata"].(map[string]any)
		meta = maps.Clone(meta)
		labels, _ := meta["labels"].(map[string]any)
		labels = maps.Clone(labels)
		if labels == nil {
			labels = map[string]any{}
		}
		labels["added"] = "label"
		meta["labels"] = labels
		changed["metadata"] = meta
		for from, before := range map[string][]byte{"manifest": old, "stored": encode(live), "applied": encode(known)} {
			r, err := offline.Request(encode(changed))
			if err != nil || r.Undecodable != nil {
				t.Fatal(name, err, r.Undecodable)
			}
			if err := r.Apply(before); err != nil {
				t.Errorf("%s, %s: %v", name, from, err)
				continue
			}
			if _, errs, err := r.Write(""); err != nil || len(errs) > 0 {
				t.Errorf("%s, %s: %v %v", name, from, errs, err)
			}
			updated[r.Kind.String()] = true
		}
	}
	for _, r := range kinds.Resources() {
		if gvk := r.GroupVersionKind(); !r.CreateOnly && !updated[gvk.String()] {
			t.Errorf("no manifest of %s", gvk)
		}
	}
}

// TestApplyGenerated updates objects with what only a server, its controllers or its admission
// plugins set.
func TestApplyGenerated(t *testing.T) {
	t.Parallel()
	const (
		job   = "{apiVersion: batch/v1, kind: Job, metadata: {name: pi%s}, spec: {parallelism: %d%s, template: {%sspec: {restartPolicy: Never, containers: [{name: pi, image: '%s'}]}}}}"
		uid   = ", uid: 1-2-3, resourceVersion: '7'"
		own   = "job-name: pi, controller-uid: 1-2-3, batch.kubernetes.io/job-name: pi, batch.kubernetes.io/controller-uid: 1-2-3"
		pod   = "{apiVersion: v1, kind: Pod, metadata: {name: a%s}, spec: {%scontainers: [{name: a, image: %s%s}]}}"
		claim = "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a%s}, spec: {%saccessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}"
	)
	stored := fmt.Sprintf(job, uid, 1, ", selector: {matchLabels: {batch.kubernetes.io/controller-uid: 1-2-3}}", "metadata: {labels: {"+own+"}}, ", "perl")
	applied := func(manifest string) string {
		text, err := yaml.YAMLToJSON([]byte(manifest))
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf(", annotations: {kubectl.kubernetes.io/last-applied-configuration: '%s'}", text)
	}
	managed := func(fields string) string {
		return ", managedFields: [{manager: flux, operation: Apply, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: " + fields + "}]"
	}
	manifest := fmt.Sprintf(pod, "", "tolerations: [{key: a, operator: Exists}], ", "a:1", "")
	running := func(how string) string {
		return fmt.Sprintf(pod, uid+how, "nodeName: node-1, priority: 0, serviceAccountName: default, serviceAccount: default, tolerations: [{key: a, operator: Exists}, {key: b, operator: Exists, effect: NoExecute, tolerationSeconds: 300}], volumes: [{name: token, emptyDir: {}}], ",
			"a:1", ", volumeMounts: [{name: token, mountPath: /x}]")
	}
	for name, c := range map[string]struct {
		old, obj string
		want     []string
	}{
		"job":                    {fmt.Sprintf(job, "", 1, "", "", "perl"), fmt.Sprintf(job, "", 2, "", "", "perl"), nil},
		"job of a cluster":       {stored, fmt.Sprintf(job, "", 2, "", "", "perl"), nil},
		"whole job":              {stored, strings.Replace(stored, "parallelism: 1", "parallelism: 2", 1), nil},
		"job with a UID":         {fmt.Sprintf(job, "", 1, "", "", "perl"), stored, nil},
		"job labels":             {fmt.Sprintf(job, "", 1, "", "metadata: {labels: {a: b}}, ", "perl"), fmt.Sprintf(job, "", 1, "", "", "perl"), []string{"spec.template: field is immutable"}},
		"job image":              {stored, fmt.Sprintf(job, "", 1, "", "", "ruby"), []string{"spec.template: field is immutable"}},
		"job selector":           {stored, fmt.Sprintf(job, "", 1, ", selector: {matchLabels: {a: b}}", "", "perl"), []string{"spec.selector: `selector` not auto-generated", "spec.template.metadata.labels: `selector` does not match template `labels`", "spec.selector: field is immutable"}},
		"job without a selector": {stored, fmt.Sprintf(job, ", uid: 1-2-3", 1, "", "", "perl"), []string{"spec.selector: Required value", "spec.template.metadata.labels: `selector` does not match template `labels`", "spec.selector: field is immutable", "spec.template: field is immutable"}},
		"pod":                    {running(applied(manifest)), strings.Replace(manifest, "a:1", "a:2", 1), nil},
		"pod, server-side":       {running(managed("{f:spec: {f:containers: {}}}")), fmt.Sprintf(pod, "", "", "a:2", ", volumeMounts: [{name: token, mountPath: /x}]"), nil},
		"pod, removed":           {running(managed("{f:spec: {f:containers: {}, f:nodeName: {}}}")), fmt.Sprintf(pod, "", "", "a:2", ", volumeMounts: [{name: token, mountPath: /x}]"), []string{"spec: pod updates may not change fields"}},
		"claim":                  {fmt.Sprintf(claim, uid, "storageClassName: fast, volumeName: pv-1, "), fmt.Sprintf(claim, "", ""), nil},
		"claim of a file":        {fmt.Sprintf(claim, "", "storageClassName: fast, "), fmt.Sprintf(claim, "", ""), []string{"spec: spec is immutable after creation"}},
		"service":                {"{apiVersion: v1, kind: Service, metadata: {name: a" + uid + "}, spec: {type: NodePort, clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ipFamilies: [IPv4], ipFamilyPolicy: SingleStack, ports: [{port: 80, nodePort: 30080}]}}", "{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {type: ExternalName, externalName: example.com}}", nil},
		"deployment":             {"{apiVersion: apps/v1, kind: Deployment, metadata: {name: a" + uid + "}, spec: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 2}}, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a}]}}}}", "{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {strategy: {type: Recreate}, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a}]}}}}", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var texts [2][]byte
			for i, text := range []string{c.old, c.obj} {
				var err error
				if texts[i], err = yaml.YAMLToJSON([]byte(text)); err != nil {
					t.Fatal(err)
				}
			}
			var got []string
			for _, f := range object.ForKinds(nil).Check(t.Context(), texts[1], texts[0], object.Warn) {
				if f.Severity == analysis.Error {
					got = append(got, f.Path+": "+f.Message)
				}
			}
			for i, f := range got {
				path, message, _ := strings.Cut(f, ": ")
				if i >= len(c.want) || !strings.HasPrefix(c.want[i], path+": ") || !strings.Contains(message, strings.TrimPrefix(c.want[i], path+": ")) {
					t.Errorf("got %q, want %q", got, c.want)
					break
				}
			}
			if len(got) != len(c.want) {
				t.Errorf("got %d errors %q, want %q", len(got), got, c.want)
			}
		})
	}
}

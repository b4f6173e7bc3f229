package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"espalier.dev/internal/testcase"
)

const (
	group      = "bench.example.com"
	namespace  = "shop"
	crdsPath   = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	groupPath  = "/apis/" + group + "/v1"
	openapiV3  = "/openapi/v3/apis/" + group + "/v1"
	jsonType   = "application/json"
	applyType  = "application/apply-patch+yaml"
	jsonPatch  = "application/json-patch+json"
	crdBytes   = 14_400 // the size of a CRD as posted
	fillPerTxn = 200
)

// plural returns the name of a resource.
func plural(kind string) string { return strings.ToLower(kind) + "s" }

// collection returns the path of all objects of a kind in the namespace.
func collection(kind string) string {
	return groupPath + "/namespaces/" + namespace + "/" + plural(kind)
}

// newCRD returns a CRD with 76 properties, as JSON. Descriptions name the kind, so no two CRDs
// have the same schema, as in a cluster.
func newCRD(kind string) ([]byte, error) {
	var schema map[string]any
	if err := json.Unmarshal(testcase.Medium().Schema, &schema); err != nil {
		return nil, err
	}
	spec := schema["properties"].(map[string]any)["spec"].(map[string]any)["properties"].(map[string]any)
	spec["owner"] = map[string]any{"type": "string", "maxLength": 64}
	spec["note"] = map[string]any{"type": "string", "maxLength": 1024}
	for extra := 0; ; extra++ {
		describe(schema, kind, extra)
		data, err := json.Marshal(map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"metadata": map[string]any{"name": plural(kind) + "." + group},
			"spec": map[string]any{
				"group": group, "scope": "Namespaced",
				"names": map[string]any{"plural": plural(kind), "singular": strings.ToLower(kind), "kind": kind, "listKind": kind + "List"},
				"versions": []any{map[string]any{
					"name": "v1", "served": true, "storage": true,
					"schema":       map[string]any{"openAPIV3Schema": schema},
					"subresources": map[string]any{"status": map[string]any{}},
				}},
			},
		})
		if err != nil || len(data) >= crdBytes {
			return data, err
		}
	}
}

// describe gives each property a description with a number of words beyond the first ones.
func describe(schema map[string]any, kind string, words int) {
	properties, _ := schema["properties"].(map[string]any)
	for name, p := range properties {
		if name == "metadata" {
			continue // must not have a description
		}
		p := p.(map[string]any)
		p["description"] = "The field " + name + " of a " + kind + " is set by its owner" + strings.Repeat(" and more", words) + "."
		describe(p, kind, words)
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if s, ok := schema[key].(map[string]any); ok {
			describe(s, kind, words)
		}
	}
}

// newObject returns an object of 1.8 KB, as JSON. Stored with its managed fields, it has
// 3.8 to 3.9 KB.
func newObject(kind, name string) []byte {
	return fmt.Appendf(nil, objectText, group, kind, name, namespace)
}

const objectText = `{"apiVersion":"%s/v1","kind":"%s","metadata":{"name":"%s","namespace":"%s",` +
	`"labels":{"app.kubernetes.io/name":"storefront","app.kubernetes.io/part-of":"shop","tier":"web","release":"stable"},` +
	`"annotations":{"shop.example.com/owner":"team-web","shop.example.com/contact":"web@example.com"}},` +
	`"spec":{"image":"registry.example.com/shop/storefront:v1.0.0","imagePullPolicy":"Always","replicas":3,"minReadySeconds":5,` +
	`"owner":"team-web","note":"The storefront of the shop, behind the load balancer. Restart it only outside of the opening hours.","weight":0.75,"paused":false,` +
	`"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":1,"maxUnavailable":"10%%"}},"selector":{"app":"storefront","tier":"web","release":"stable"},` +
	`"ports":[{"name":"http","containerPort":8080,"protocol":"TCP"},{"name":"metrics","containerPort":9090,"protocol":"TCP"},` +
	`{"name":"dns","containerPort":5300,"protocol":"UDP"}],` +
	`"env":[{"name":"LOG_LEVEL","value":"info"},{"name":"REGION","value":"eu-central-1"},{"name":"CACHE_SIZE","value":"512"},` +
	`{"name":"TOKEN","valueFrom":{"secretKeyRef":{"name":"storefront","key":"token"}}}],` +
	`"args":["--listen=:8080","--metrics=:9090","--feature=checkout"],"capabilities":["NET_ADMIN","SYS_TIME"],` +
	`"resources":{"limits":{"cpu":2,"memory":"512Mi"},"requests":{"cpu":"250m","memory":"128Mi"}},` +
	`"probe":{"path":"/healthz","port":"http","scheme":"HTTP","periodSeconds":5,"timeoutSeconds":2},` +
	`"window":{"start":"2024-03-01T22:00:00Z","end":"2024-03-02T04:00:00Z"},` +
	`"tolerations":[{"key":"spot","operator":"Exists","effect":"NoExecute","tolerationSeconds":60}],` +
	`"storage":{"size":"10Gi","className":"fast","accessModes":["ReadWriteOnce"]},` +
	`"notify":{"email":"web@example.com"},"config":{"version":2,"cache":{"ttl":"5m","entries":1000},"flags":["a","b"]}}}`

// setReplicas returns an object, as JSON, with another number of replicas.
func setReplicas(object []byte, n int) ([]byte, error) {
	const key = `"replicas":`
	i := bytes.Index(object, []byte(key))
	if i < 0 {
		return nil, errors.New("the object has no replicas")
	}
	i += len(key)
	j := i
	for j < len(object) && object[j] >= '0' && object[j] <= '9' {
		j++
	}
	return bytes.Join([][]byte{object[:i], strconv.AppendInt(nil, int64(n%1000), 10), object[j:]}, nil), nil
}

// createCRD creates a CRD and returns when its resource is served.
func (s *server) createCRD(ctx context.Context, kind string) error {
	body, err := newCRD(kind)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := s.send(ctx, s.admin, request{method: http.MethodPost, path: crdsPath, contentType: jsonType, body: body}, &b); err != nil {
		return err
	}
	return s.await(ctx, func() error {
		_, err := s.get(ctx, collection(kind))
		return err
	})
}

// create creates an object.
func (s *server) create(ctx context.Context, client *http.Client, kind, name string, b *bytes.Buffer) error {
	return s.send(ctx, client, request{method: http.MethodPost, path: collection(kind), contentType: jsonType, body: newObject(kind, name)}, b)
}

// template is an object as a server stores it, from which others are made.
type template struct {
	dir, name, uid, text string
}

// template creates an object, and returns what the server has stored.
func (s *server) template(ctx context.Context, kind, name string) (template, error) {
	t := template{dir: prefix + "/" + group + "/" + plural(kind) + "/" + namespace + "/", name: name}
	var b bytes.Buffer
	if err := s.create(ctx, s.admin, kind, name, &b); err != nil {
		return t, err
	}
	resp, err := s.store.Get(ctx, t.dir+name)
	if err != nil {
		return t, err
	}
	if len(resp.Kvs) != 1 {
		return t, fmt.Errorf("%s stores no object at %s%s", s.name, t.dir, name)
	}
	var meta struct{ Metadata struct{ UID string } }
	if err := json.Unmarshal(resp.Kvs[0].Value, &meta); err != nil {
		return t, err
	}
	t.uid, t.text = meta.Metadata.UID, string(resp.Kvs[0].Value)
	return t, nil
}

// reduce returns a template of 1 KB: without managed fields, with few others, and with defaults, as a
// server stores them.
func (s *server) reduce(ctx context.Context, kind string, t template) (template, error) {
	const size = 1000
	object := map[string]any{}
	if err := json.Unmarshal([]byte(t.text), &object); err != nil {
		return t, err
	}
	for _, last := range []bool{false, true} { // the first adds the defaults, the last fills the rest
		spec := object["spec"].(map[string]any)
		if !last {
			delete(object["metadata"].(map[string]any), "managedFields")
			delete(object["metadata"].(map[string]any), "annotations")
			spec = map[string]any{"image": spec["image"], "replicas": 3}
		}
		data, err := json.Marshal(object)
		if err != nil {
			return t, err
		}
		spec["note"] = ""
		if last {
			spec["note"] = strings.Repeat("x", max(0, size-len(data)))
		}
		object["spec"] = spec
		if data, err = json.Marshal(object); err != nil {
			return t, err
		}
		t.text = string(data)
		put, err := s.store.Put(ctx, t.dir+t.name, t.text)
		if err != nil {
			return t, err
		}
		// The server adds the defaults.
		read, err := s.get(ctx, fmt.Sprintf("%s/%s?resourceVersion=%d", collection(kind), t.name, put.Header.Revision))
		if err != nil {
			return t, err
		}
		object = map[string]any{}
		if err := json.Unmarshal(read, &object); err != nil {
			return t, err
		}
		delete(object["metadata"].(map[string]any), "resourceVersion")
	}
	return t, nil
}

// object returns the object with another name and number, as JSON.
func (t template) object(name string, i int) string {
	return strings.NewReplacer(t.name, name, t.uid, fmt.Sprintf("%08d%s", i, t.uid[8:])).Replace(t.text)
}

// fill writes n objects to etcd, as the server itself has stored one that is created first.
// That is much faster than n requests, and the server cannot tell the difference. It returns
// the size of a stored object, and when the server has all of them.
func (s *server) fill(ctx context.Context, kind, stem string, n int) (size float64, err error) {
	t, err := s.template(ctx, kind, stem+"-template")
	if err != nil {
		return 0, err
	}
	return s.fillWith(ctx, t, kind, stem, n)
}

// fillWith writes n objects to etcd that are made from a template.
func (s *server) fillWith(ctx context.Context, t template, kind, stem string, n int) (size float64, err error) {
	for i := 0; i < n; {
		var ops []clientv3.Op
		for ; i < n && len(ops) < fillPerTxn; i++ {
			object := fmt.Sprintf("%s-%07d", stem, i)
			ops = append(ops, clientv3.OpPut(t.dir+object, t.object(object, i)))
		}
		if _, err := s.store.Txn(ctx).Then(ops...).Commit(); err != nil {
			return 0, err
		}
	}
	return float64(len(t.text)), s.await(ctx, func() error {
		if n == 0 {
			return nil
		}
		_, err := s.get(ctx, collection(kind)+"/"+fmt.Sprintf("%s-%07d", stem, n-1)+"?resourceVersion=0")
		return err
	})
}

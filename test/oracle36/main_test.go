package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// TestServe sends each type of request once.
func TestServe(t *testing.T) {
	const (
		pod     = `"apiVersion":"v1","resource":"pods","namespace":"default"`
		deploy  = `"apiVersion":"apps/v1","resource":"deployments","namespace":"default"`
		spec    = `"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"a","image":"b"}]}}}`
		role    = `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"a","namespace":"default"},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}`
		binding = `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"b","namespace":"default"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"a"},"subjects":[{"kind":"User","name":"jane"}]}`
		stored  = `{"metadata":{"name":"x","namespace":"default","uid":"1","creationTimestamp":"2026-01-01T00:00:00Z","generation":3},` + spec + `}`
	)
	for _, tt := range []struct{ name, request, want string }{
		{"default", `{"op":"default",` + pod + `,"object":{"spec":{"containers":[{"name":"a"}]}}}`, `"imagePullPolicy":"IfNotPresent"`},
		{"create", `{"op":"create",` + pod + `,"object":{"metadata":{"generateName":"x-"},"spec":{"containers":[{"name":"a","image":"b"}]}}}`, `"name":"x-abcde"`},
		{"errors", `{"op":"create",` + pod + `,"object":{"metadata":{"name":"x"},"spec":{"containers":[{"name":"a"}]}}}`, `"errors":[{"type":"FieldValueRequired","field":"spec.containers[0].image","message":"Required value"}]`},
		{"decoding", `{"op":"create",` + pod + `,"object":{"metadata":{"name":5}}}`, `"reason":"BadRequest","code":400`},
		{"privileged", `{"op":"create",` + pod + `,"object":{"metadata":{"name":"x"},"spec":{"containers":[{"name":"a","image":"b","securityContext":{"privileged":true}}]}}}`, `"phase":"Pending"`},
		{"warnings", `{"op":"create",` + pod + `,"object":{"metadata":{"name":"x.y"},"spec":{"containers":[{"name":"a","image":"b"}]}}}`, `"warnings":["metadata.name`},
		{"uid", `{"op":"create","uid":"77","apiVersion":"batch/v1","resource":"jobs","namespace":"default","object":{"metadata":{"name":"x"},"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"a","image":"b"}]}}}}}`, `"batch.kubernetes.io/controller-uid":"77"`},
		{"storage version", `{"op":"create","apiVersion":"autoscaling/v1","resource":"horizontalpodautoscalers","namespace":"default","object":{"metadata":{"name":"x"},"spec":{"maxReplicas":3,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"x"}}}}`, `"apiVersion":"autoscaling/v2"`},
		{"namespace", `{"op":"create","apiVersion":"v1","resource":"namespaces","object":{"metadata":{"name":"x"}}}`, `"finalizers":["kubernetes"]`},
		{"update", `{"op":"update",` + deploy + `,"object":` + strings.Replace(stored, `"spec":{`, `"spec":{"replicas":2,`, 1) + `,"old":` + stored + `}`, `"generation":4`},
		{"status", `{"op":"update","subresource":"status",` + deploy + `,"object":` + strings.Replace(stored, `"spec":{`, `"spec":{"replicas":2,`, 1) + `,"old":` + stored + `}`, `"generation":3`},
		{"immutable", `{"op":"update",` + deploy + `,"object":` + strings.ReplaceAll(stored, `"a":"b"`, `"a":"c"`) + `,"old":` + stored + `}`, `field is immutable`},
		{"scale", `{"op":"update","subresource":"scale",` + deploy + `,"object":{"metadata":{"name":"x"},"spec":{"replicas":7}},"old":` + stored + `}`, `"replicas":7`},
		{"conflict", `{"op":"update",` + deploy + `,"object":` + strings.Replace(stored, `{"name"`, `{"resourceVersion":"5","name"`, 1) + `,"old":` + stored + `}`, `"reason":"Conflict"`},
		{"admission", `{"op":"admit","plugin":"Priority","operation":"CREATE",` + pod + `,"object":{"metadata":{"name":"x"},"spec":{"priorityClassName":"high"}},"existing":[{"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","metadata":{"name":"high"},"value":7}]}`, `"priority":7`},
		{"rejection", `{"op":"admit","plugin":"Priority","operation":"CREATE",` + pod + `,"object":{"metadata":{"name":"x"},"spec":{"priorityClassName":"high"}}}`, `no PriorityClass with name high was found`},
		{"no runtime class", `{"op":"admit","plugin":"RuntimeClass","operation":"CREATE",` + pod + `,"object":{"metadata":{"name":"x"},"spec":{"runtimeClassName":"a"}}}`, `RuntimeClass`},
		{"no limits", `{"op":"admit","plugin":"LimitRanger","operation":"CREATE",` + pod + `,"object":{"metadata":{"name":"x"},"spec":{"containers":[{"name":"a"}]}}}`, `"name":"a"`},
		{"rbac", `{"op":"rbac","existing":[` + role + `,` + binding + `],"attributes":[{"user":{"name":"jane"},"verb":"get","namespace":"default","resource":"pods"},{"user":{"name":"jane"},"verb":"list","namespace":"default","resource":"pods"}]}`, `"decisions":[{"allowed":true,"reason":"RBAC: allowed by RoleBinding \"b/default\" of Role \"a\" to User \"jane\""},{"allowed":false}]`},
		{"escalation", `{"op":"rbac","existing":[` + role + `,` + binding + `],"attributes":[{"user":{"name":"jane"},"namespace":"default","rules":[{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}]},{"user":{"name":"jane"},"namespace":"default","rules":[{"verbs":["*"],"apiGroups":[""],"resources":["pods"]}]}]}`, `"decisions":[{"allowed":true},{"allowed":false,"error":"user \"jane\"`},
		{"resources", `{"op":"resources"}`, `"resource":"pods","kind":"Pod","namespaced":true,"subresources":["ephemeralcontainers","resize","status"]`},
		{"policy", `{"op":"policy"}`, `"name":"system:discovery"`},
		{"review", `{"op":"review","apiVersion":"authorization.k8s.io/v1","resource":"subjectaccessreviews","object":{"spec":{"user":"u","nonResourceAttributes":{"path":"/p","verb":"allow"}}}}`, `"allowed":true`},
		{"fields", `{"op":"fields"}`, `"k8s.io/api/core/v1.LocalObjectReference":["name"]`},
		{"table", `{"op":"table","object":{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x"},"data":{"a":"YQ=="}}}`, `"cells":["x","Opaque",1,"\u003cunknown\u003e"]`},
		{"unknown op", `{"op":"x"}`, `"badRequest"`},
		{"unknown resource", `{"op":"create","apiVersion":"v1","resource":"x","object":{}}`, `"badRequest"`},
		{"no JSON", `x`, `"badRequest"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			if err := serve(strings.NewReader(tt.request+"\n"), &out); err != nil {
				t.Fatal(err)
			}
			if !json.Valid(out.Bytes()) || bytes.Count(out.Bytes(), []byte("\n")) != 1 {
				t.Errorf("not one line of JSON: %s", &out)
			}
			if !strings.Contains(out.String(), tt.want) {
				t.Errorf("%s\n has no %s", &out, tt.want)
			}
		})
	}
}

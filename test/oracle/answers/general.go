package answers

import (
	"fmt"
	"maps"
	"slices"
)

// general returns requests that are not about one kind.
func general() (all []Request) {
	add := func(method, path, accept string) {
		all = append(all, Request{ID: fmt.Sprintf("%s %s %s", method, path, accept), Method: method, Path: path, Accept: accept})
	}
	for _, path := range []string{
		"/nosuch", "/nosuch/", "/api/", "/api/v2", "/api/v1/", "/api/v1/nothings", "/api/v1/nothings/a", "/api/v1/namespaces/answers/nothings", "/api/v1/namespaces/answers/nothings/a/b", "/api/v1/namespaces/answers/pods/a/b/c",
		"/apis/", "/apis/nothing.example.com", "/apis/nothing.example.com/v1", "/apis/nothing.example.com/v1/nothings", "/apis/apps/v7", "/apis/apps/v1/nothings", "/apis/apps/v1/namespaces/answers/nothings/a",
		"/apis/example.com", "/apis/example.com/v1/nothings", "/apis/example.com/v7", "/apis/example.com/v7/widgets", "/apis/example.com/v1/namespaces/answers/nothings/a", "/apis/example.com/v1/widgets/one/status",
		"/openapi", "/openapi/v4", "/openapi/v3/nothing", "/openapi/v3/apis/nothing", "/healthz/nothing", "/livez/nothing", "/readyz/nothing", "/healthz/ping", "/livez/ping", "/readyz/ping", "/version/", "/version/x",
		"/metrics/x", "/logs/x", "/debug", "/debug/pprof/nothing", "/swagger.json", "/swaggerapi", "/.well-known/x", "/api/v1/watch", "/api/v1/proxy/a", "//", "/api//v1", "/../api",
	} {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"} {
			add(method, path, "")
		}
	}
	for _, path := range []string{"/healthz", "/livez", "/readyz", "/version", "/api", "/apis/apps", "/apis/example.com", "/apis/example.com/v1", "/apis/example.com/v2", "/nosuch", "/apis/nothing.example.com/v1"} {
		for _, name := range slices.Sorted(maps.Keys(accepted())) {
			add("GET", path, accepted()[name])
		}
	}
	for _, path := range []string{"/healthz", "/livez", "/readyz", "/version", "/api", "/apis", "/apis/apps", "/apis/apps/v1", "/apis/example.com/v1", "/openapi/v2", "/openapi/v3"} {
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			add(method, path, "")
		}
	}
	for _, review := range []struct{ path, kind string }{
		{"/apis/authentication.k8s.io/v1/tokenreviews", "TokenReview"}, {"/apis/authentication.k8s.io/v1/selfsubjectreviews", "SelfSubjectReview"},
		{"/apis/authorization.k8s.io/v1/subjectaccessreviews", "SubjectAccessReview"}, {"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "SelfSubjectAccessReview"},
		{"/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", "SelfSubjectRulesReview"}, {"/apis/authorization.k8s.io/v1/namespaces/answers/localsubjectaccessreviews", "LocalSubjectAccessReview"},
	} {
		group := "authentication.k8s.io/v1"
		if review.path[:len("/apis/authorization")] == "/apis/authorization" {
			group = "authorization.k8s.io/v1"
		}
		for _, body := range []string{"", "{}", "[]", "{", `{"kind":"Foo"}`, `{"kind":"` + review.kind + `","apiVersion":"` + group + `"}`,
			`{"kind":"` + review.kind + `","apiVersion":"` + group + `","spec":{}}`, `{"kind":"` + review.kind + `","apiVersion":"` + group + `","spec":{"token":"x"}}`,
			`{"kind":"` + review.kind + `","apiVersion":"` + group + `","spec":{"user":"a","resourceAttributes":{"verb":"get","resource":"pods","namespace":"answers"}}}`,
			`{"kind":"` + review.kind + `","apiVersion":"` + group + `","spec":{"nonResourceAttributes":{"verb":"get","path":"/a"}}}`,
			`{"kind":"` + review.kind + `","apiVersion":"` + group + `","spec":{"namespace":"answers"}}`,
			`{"kind":"` + review.kind + `","apiVersion":"` + group + `","metadata":{"name":"a"},"spec":{"resourceAttributes":{},"nonResourceAttributes":{}}}`,
			`{"kind":"` + review.kind + `","apiVersion":"` + group + `","unknown":1}`} {
			all = append(all, Request{ID: "review " + review.kind + " " + body, Method: "POST", Path: review.path + "?fieldValidation=Strict", ContentType: jsonType, Body: body})
		}
		for _, method := range []string{"GET", "PUT", "PATCH", "DELETE"} {
			add(method, review.path, "")
			add(method, review.path+"/a", "")
		}
	}
	return all
}

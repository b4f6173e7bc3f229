package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"espalier.dev/server"
	"espalier.dev/server/servertest"
)

// putRoles stores 1,000 cluster roles with 10 rules each, 2,500 role bindings in 100 namespaces and
// 2,500 cluster role bindings, beside what the server has created.
func putRoles(b *testing.B, s *server.Server) {
	b.Helper()
	put := func(key, kind string, obj interface{ Marshal() ([]byte, error) }) {
		b.Helper()
		raw, err := obj.Marshal()
		if err != nil {
			b.Fatal(err)
		}
		value, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: kind}, Raw: raw}).Marshal()
		if err != nil {
			b.Fatal(err)
		}
		if revision, _, err := s.Store().Put(b.Context(), nil, s.Store().Prefix()+key, append([]byte("k8s\x00"), value...), 0, 0); err != nil || revision == 0 {
			b.Fatal(revision, err)
		}
	}
	for i := range 1000 {
		r := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("role-%d", i)}}
		for j := range 9 {
			r.Rules = append(r.Rules, rbacv1.PolicyRule{Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"}, APIGroups: []string{"", "apps", "batch"}, Resources: []string{fmt.Sprintf("a%d", j), fmt.Sprintf("b%d/status", j), "*/scale"}})
		}
		r.Rules = append(r.Rules, rbacv1.PolicyRule{Verbs: []string{"get", "create"}, APIGroups: []string{""}, Resources: []string{"configmaps"}})
		put("clusterroles/"+r.Name, "ClusterRole", r)
	}
	for i := range 2500 {
		name, ref := fmt.Sprintf("binding-%d", i), rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: fmt.Sprintf("role-%d", i%1000)}
		subject := rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: fmt.Sprintf("user-%d", i%500)}
		put("clusterrolebindings/"+name, "ClusterRoleBinding", &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: ref,
			Subjects: []rbacv1.Subject{{Kind: "Group", APIGroup: rbacv1.GroupName, Name: fmt.Sprintf("group-%d", i%500)}}})
		namespace := fmt.Sprintf("ns-%d", i%100)
		put("rolebindings/"+namespace+"/"+name, "RoleBinding", &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, RoleRef: ref, Subjects: []rbacv1.Subject{subject}})
	}
	if _, err := s.Store().Sync(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkAuthorization compares the CPU time of requests with the modes AlwaysAllow and RBAC, side
// by side, with 1,000 roles and 5,000 bindings. The requests do not go over the network, which
// would make them more expensive and the share of authorization smaller. The user has 5 bindings in
// the namespace, and the group of the user 5 cluster role bindings.
func BenchmarkAuthorization(b *testing.B) {
	tokens := filepath.Join(b.TempDir(), "tokens.csv")
	if err := os.WriteFile(tokens, []byte("some-token,user-7,7,\"developers,group-8\"\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	modes := []string{"AlwaysAllow", "RBAC"}
	servers := map[string]*server.Server{}
	for _, mode := range modes {
		o := servertest.Options(b)
		o.TokenAuthFile, o.Authorization.Modes = tokens, []string{mode}
		servers[mode] = servertest.Start(b, o)
		putRoles(b, servers[mode])
	}
	send := func(mode, method, path, body string, want int) {
		req := httptest.NewRequestWithContext(context.Background(), method, path, strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer some-token")
		req.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		servers[mode].Handler().ServeHTTP(w, req)
		if w.Code != want {
			b.Fatalf("%s: %s %s: %d %s", mode, method, path, w.Code, w.Body)
		}
	}
	const collection = "/api/v1/namespaces/ns-7/configmaps"
	created := 0
	create := func(mode string) {
		created++
		send(mode, http.MethodPost, collection, fmt.Sprintf(`{"metadata":{"name":"c-%d"},"data":{"a":"b"}}`, created), http.StatusCreated)
	}
	for _, mode := range modes {
		send(mode, http.MethodPost, collection, `{"metadata":{"name":"x"},"data":{"a":"b"}}`, http.StatusCreated)
	}
	decide := time.Duration(0)
	for _, row := range []struct {
		name string
		verb string
		do   func(mode string)
	}{
		{"GET", "get", func(mode string) { send(mode, http.MethodGet, collection+"/x", "", http.StatusOK) }},
		{"CREATE", "create", create},
	} {
		b.Run(row.name, func(b *testing.B) {
			// Short turns, so that what else happens on the machine affects both modes.
			const turn = 50
			cpu := map[string][]float64{}
			n := 0
			for b.Loop() {
				for _, mode := range modes {
					before := cpuTime(b)
					for range turn {
						row.do(mode)
					}
					cpu[mode] = append(cpu[mode], float64(cpuTime(b)-before)/turn/1e3)
				}
				n++
			}
			attributes := authorizer.Attributes(&authorizer.AttributesRecord{
				User: &user.DefaultInfo{Name: "user-7", Groups: []string{"developers", "group-8", "system:authenticated"}},
				Verb: row.verb, Namespace: "ns-7", Resource: "configmaps", ResourceRequest: true,
			})
			const calls = 10_000
			before := cpuTime(b)
			for range calls {
				if decision, _, err := servers["RBAC"].Authorizer().Authorize(context.Background(), attributes); decision != authorizer.DecisionAllow || err != nil {
					b.Fatal(decision, err)
				}
			}
			decide = (cpuTime(b) - before) / calls
			for _, mode := range modes {
				slices.Sort(cpu[mode])
				b.ReportMetric(cpu[mode][n/2], mode+"-cpu-µs")
			}
			b.ReportMetric(float64(decide)/1e3, "authorize-µs")
			b.ReportMetric(100*float64(decide)/1e3/cpu["RBAC"][n/2], "authorize-%")
			b.ReportMetric(0, "ns/op")
		})
	}
}

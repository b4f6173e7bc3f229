package roles_test

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
)

// population returns 1,000 roles with 10 rules each, and 5,000 bindings.
func population() (list []stored) {
	for i := range 1000 {
		r := clusterRole(fmt.Sprintf("role-%d", i))
		for j := range 9 {
			r.Rules = append(r.Rules, resourceRule("get list watch create update patch delete", "core apps batch", fmt.Sprintf("a%d b%d/status c%d */scale", j, j, j), ""))
		}
		r.Rules = append(r.Rules, resourceRule("get list watch", "core", "configmaps", ""))
		list = append(list, r)
	}
	for i := range 2500 {
		list = append(list, clusterBinding(fmt.Sprintf("binding-%d", i), fmt.Sprintf("role-%d", i%1000), userSubject(fmt.Sprintf("user-%d", i%500)), groupSubject(fmt.Sprintf("group-%d", i%50))))
		list = append(list, roleBinding(fmt.Sprintf("ns-%d", i%100), fmt.Sprintf("binding-%d", i), "ClusterRole", fmt.Sprintf("role-%d", i%1000),
			userSubject(fmt.Sprintf("user-%d", i%500)), accountSubject("", "default")))
	}
	return list
}

// BenchmarkAuthorize measures one decision with 1,000 roles and 5,000 bindings. The user has 5
// cluster role bindings and the group 50.
func BenchmarkAuthorize(b *testing.B) {
	rbac := newWorld(b).put(population()...)
	groups := []string{"group-7", "developers", "system:authenticated"}
	get := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "user-7", Groups: groups}, Verb: "get", Namespace: "ns-7", Resource: "configmaps", Name: "x", ResourceRequest: true}
	denied := get
	denied.Resource = "secrets"
	account := get
	account.User = &user.DefaultInfo{Name: "system:serviceaccount:ns-7:default", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:ns-7", "system:authenticated"}}
	for _, bench := range []struct {
		name       string
		authorizer authorizer.Authorizer
		attributes authorizer.AttributesRecord
	}{
		{"AlwaysAllow", authorizerfactory.NewAlwaysAllowAuthorizer(), get},
		{"RBAC/user", rbac, get},
		{"RBAC/account", rbac, account},
		{"RBAC/denied", rbac, denied},
	} {
		b.Run(bench.name, func(b *testing.B) {
			attributes := authorizer.Attributes(&bench.attributes)
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := bench.authorizer.Authorize(context.Background(), attributes); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkChange measures one decision after a change of a binding, with as many others.
func BenchmarkChange(b *testing.B) {
	w := newWorld(b)
	w.put(population()...)
	get := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "user-7"}, Verb: "get", Resource: "configmaps", ResourceRequest: true}
	if _, _, err := w.authorizer.Authorize(context.Background(), &get); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		w.put(clusterBinding("binding-8", "role-8", userSubject(fmt.Sprint(i))))
		b.StartTimer()
		if _, _, err := w.authorizer.Authorize(context.Background(), &get); err != nil {
			b.Fatal(err)
		}
	}
}

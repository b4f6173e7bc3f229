package admission_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"espalier.dev/espaliertest"
)

const disabled = "--disable-admission-plugins=MutatingAdmissionPolicy,MutatingAdmissionWebhook,ValidatingAdmissionPolicy,ValidatingAdmissionWebhook"

// BenchmarkStart starts and stops servers with and without the plugins.
func BenchmarkStart(b *testing.B) {
	for name, flags := range map[string][]string{"disabled": {disabled}, "none": nil} {
		b.Run(name, func(b *testing.B) {
			before, n := cpu(b), 0
			for b.Loop() {
				s, err := espaliertest.Run(espaliertest.WithEtcd(), espaliertest.WithFlags(flags...))
				if err != nil {
					b.Fatal(err)
				}
				if err := s.Stop(); err != nil {
					b.Fatal(err)
				}
				n++
			}
			b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(n), "cpu-µs/op")
		})
	}
}

// BenchmarkCreate creates custom resources without policies and webhooks, with 20 policies that
// match, and on a server that has neither of the plugins. The metric cpu-µs/op is the CPU time
// of the process, which includes the client and etcd.
func BenchmarkCreate(b *testing.B) {
	for _, c := range []struct {
		name     string
		flags    []string
		policies int
	}{{name: "disabled", flags: []string{disabled}}, {name: "none"}, {name: "policies=20", policies: 20}} {
		b.Run(c.name, func(b *testing.B) {
			s := espaliertest.Start(b, espaliertest.WithEtcd(), espaliertest.WithFlags(c.flags...), espaliertest.WithCRDs([]byte(widgets)))
			client, err := rest.HTTPClientFor(s.Config())
			if err != nil {
				b.Fatal(err)
			}
			post := func(path, body string) {
				text, err := yaml.YAMLToJSON([]byte(body))
				if err != nil {
					b.Fatal(err)
				}
				resp, err := client.Post(s.URL()+path, "application/json", bytes.NewReader(text))
				if err != nil {
					b.Fatal(err)
				}
				data, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if err != nil || resp.StatusCode != http.StatusCreated {
					b.Fatal(err, string(data))
				}
			}
			for i := range c.policies {
				post("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", fmt.Sprintf(`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: p%d},
					spec: {matchConstraints: {resourceRules: [{apiGroups: [tests.example.com], apiVersions: [v1], resources: [widgets], operations: [CREATE]}]},
					validations: [{expression: "object.spec.size < %d"}, {expression: "!has(object.metadata.labels) || !('forbidden' in object.metadata.labels)"}]}}`, i, 100+i))
				post("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings", fmt.Sprintf(`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding,
					metadata: {name: b%d}, spec: {policyName: p%d, validationActions: [Deny]}}`, i, i))
			}
			const path = "/apis/tests.example.com/v1/namespaces/default/widgets"
			for i := range 100 {
				post(path, widget("v1", fmt.Sprintf("warm-%d", i), "{size: 1}"))
			}
			before, n := cpu(b), 0
			for b.Loop() {
				post(path, widget("v1", fmt.Sprintf("w-%d", n), "{size: 1}"))
				n++
			}
			b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(n), "cpu-µs/op")
		})
	}
}

// cpu returns the CPU time that the process has used.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

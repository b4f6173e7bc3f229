package builtin_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"espalier.dev/server/etcd/etcdtest"
	"espalier.dev/server/servertest"
)

// TestServicesOfServers creates and deletes services through two servers at the same time, in
// ranges that are almost too small. At no revision may two services have the same value, or a cluster
// IP have no IPAddress, or an IPAddress no service.
func TestServicesOfServers(t *testing.T) {
	t.Parallel()
	const workers, rounds = 8, 10
	etcd := etcdtest.Start(t)
	g, ctx := errgroup.WithContext(t.Context())
	for n := range 2 {
		o := servertest.ShareEtcd(t, etcd.Endpoints())
		o.ServiceClusterIPRange, o.ServiceNodePortRange = "10.0.0.0/28", "30000-30011"
		services := servertest.Clientset(t, servertest.Start(t, o), nil, "application/json").CoreV1().Services("default")
		for worker := range workers / 2 {
			g.Go(func() error {
				name := fmt.Sprintf("s%d-%d", n, worker)
				random := rand.New(rand.NewPCG(uint64(n), uint64(worker)))
				for range rounds {
					svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
					if random.IntN(2) == 0 {
						svc.Spec.Type = corev1.ServiceTypeNodePort
					}
					created, err := services.Create(ctx, svc, metav1.CreateOptions{})
					if err != nil {
						return err
					}
					created.Spec.Type = corev1.ServiceTypeNodePort
					if _, err := services.Update(ctx, created, metav1.UpdateOptions{}); err != nil {
						return err
					}
					if err := services.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	const prefix = "/registry/services/specs/"
	last, err := etcd.Get(t.Context(), prefix, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	most := 0
	for revision := int64(2); revision <= last.Header.Revision; revision++ {
		resp, err := etcd.Get(t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithRev(revision))
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, len(resp.Kvs))
		owners, ips := map[string]string{}, []string{}
		for _, kv := range resp.Kvs {
			obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(kv.Value, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			svc := obj.(*corev1.Service)
			values := []string{svc.Spec.ClusterIP}
			ips = append(ips, values...)
			for _, p := range svc.Spec.Ports {
				if p.NodePort != 0 {
					values = append(values, fmt.Sprint(p.NodePort))
				}
			}
			for _, v := range values {
				if owners[v] != "" {
					t.Fatalf("revision %d: %s and %s have %s", revision, owners[v], svc.Name, v)
				}
				owners[v] = svc.Name
			}
		}
		if err := sameAddresses(t.Context(), etcd, revision, ips); err != nil {
			t.Fatalf("revision %d: %v", revision, err)
		}
	}
	if most < workers/2 {
		t.Errorf("at most %d services existed at the same time", most)
	}
}

package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"espalier.dev/internal/testcase"
)

func TestData(t *testing.T) {
	data, err := newCRD(mainKind, true)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) < 14_400 || len(data) > 15_200 {
		t.Errorf("the CRD has %d bytes, want about 14.4 KB", len(data))
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct{ OpenAPIV3Schema json.RawMessage }
			}
		}
	}
	if err := json.Unmarshal(data, &crd); err != nil {
		t.Fatal(err)
	}
	n, err := testcase.Properties(crd.Spec.Versions[0].Schema.OpenAPIV3Schema)
	if err != nil || n != 76 {
		t.Errorf("%d properties, %v; want 76", n, err)
	}
	object := newObject(mainKind, "name")
	if len(object) < 1750 || len(object) > 1850 {
		t.Errorf("the object has %d bytes, want 1.8 KB", len(object))
	}
	changed, err := setReplicas(object, 1234)
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Spec struct{ Replicas int } }
	if err := json.Unmarshal(changed, &got); err != nil || got.Spec.Replicas != 234 {
		t.Errorf("replicas = %d, %v; want 234", got.Spec.Replicas, err)
	}
}

func TestMust(t *testing.T) {
	for _, tc := range []struct {
		must                must
		reference, espalier float64
		want                bool
	}{
		{must{ratio: 5}, 10, 2, true},
		{must{ratio: 5}, 10, 2.1, false},
		{must{most: 60}, 0, 60, true},
		{must{most: 60}, 0, 61, false},
		{must{least: 50}, 0, 50, true},
		{must{least: 50}, 0, 49, false},
		{must{zero: true}, 25, 0.1, true},
		{must{zero: true}, 25, 1, false},
	} {
		r := result{Espalier: &tc.espalier}
		if tc.reference > 0 {
			r.Reference = &tc.reference
		}
		r.finish(tc.must)
		if r.Met == nil || *r.Met != tc.want {
			t.Errorf("%+v with %g and %g: met = %v, want %v", tc.must, tc.reference, tc.espalier, r.Met, tc.want)
		}
	}
	r := result{Espalier: new(float64)}
	if r.finish(must{ratio: 5}); r.Met != nil {
		t.Error("a ratio without a reference is met or missed, want neither")
	}
}

func TestCounts(t *testing.T) {
	if got, err := parseCounts("1,2,4"); err != nil || !slices.Equal(got, []int{1, 2, 4}) {
		t.Errorf("parseCounts = %v, %v", got, err)
	}
	for _, list := range []string{"0", "1,", "many", "-1", "1000"} {
		if got, err := parseCounts(list); err == nil {
			t.Errorf("parseCounts(%q) = %v, want an error", list, got)
		}
	}
}

func TestUsage(t *testing.T) {
	var u usage
	err := u.add(strings.NewReader(`# TYPE grpc_server_msg_sent_total counter
grpc_server_msg_sent_total{grpc_method="Txn",grpc_service="etcdserverpb.KV",grpc_type="unary"} 12
grpc_server_msg_received_total{grpc_method="Txn",grpc_service="etcdserverpb.KV",grpc_type="unary"} 1.3e+01
etcd_network_peer_sent_bytes_total{To="a b"} 4096
etcd_network_peer_sent_bytes_total{To="c"} 1
etcd_server_has_leader 1
`))
	if err != nil || u.messages != 25 || u.peers != 4097 {
		t.Errorf("usage = %+v, %v; want 25 messages and 4097 bytes", u, err)
	}
}

func TestRowsAndStages(t *testing.T) {
	var measured []string
	for _, s := range stages() {
		measured = append(measured, s.rows...)
	}
	for _, r := range rows() {
		if !slices.Contains(measured, r.name) {
			t.Errorf("no stage measures %s", r.name)
		}
	}
	if len(measured) != len(rows()) {
		t.Errorf("stages measure %d rows, want %d", len(measured), len(rows()))
	}
	if _, err := choose("get,nothing"); err == nil {
		t.Error("an unknown row is accepted")
	}
	if got, err := choose("list,get"); err != nil || !slices.Equal(got, []string{"list", "get"}) {
		t.Errorf("choose = %v, %v", got, err)
	}
	// Without names, a run has the rows that take up to 20 minutes.
	all, err := choose("")
	if err != nil || len(all) != len(rows())-7 || slices.Contains(all, "crds-openapi") || slices.Contains(all, "groups-rss") || !slices.Contains(all, "crds-rss") {
		t.Errorf("choose = %v, %v", all, err)
	}
	if got, err := choose("groups-rss"); err != nil || len(got) != 1 {
		t.Errorf("choose = %v, %v", got, err)
	}
}

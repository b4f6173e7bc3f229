package main

import (
	"encoding/json"
	"slices"
	"testing"

	"espalier.dev/internal/testcase"
)

func TestData(t *testing.T) {
	data, err := newCRD(mainKind)
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
}

package definitions_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/server/servertest"
)

// TestNamesGivenUp updates a CRD so that it gives up a short name that another CRD waits for.
func TestNamesGivenUp(t *testing.T) {
	t.Parallel()
	const crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	s := servertest.Start(t, servertest.Options(t))
	c := servertest.Client(t, s, nil)
	create := func(plural, kind string) {
		t.Helper()
		if code, text := servertest.Exchange(t, c, http.MethodPost, s.URL()+crds, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"`+plural+`.names.example.com"},"spec":{"group":"names.example.com","scope":"Cluster",
"names":{"plural":"`+plural+`","kind":"`+kind+`","shortNames":["x"]},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`); code != http.StatusCreated {
			t.Fatal(code, text)
		}
	}
	become := func(plural, status string) {
		t.Helper()
		servertest.Eventually(t, func() error {
			_, text := servertest.Exchange(t, c, http.MethodGet, s.URL()+crds+"/"+plural+".names.example.com", "")
			var got struct {
				Status struct{ Conditions []metav1.Condition }
			}
			if err := json.Unmarshal([]byte(text), &got); err != nil {
				return err
			}
			for _, condition := range got.Status.Conditions {
				if condition.Type == "NamesAccepted" && string(condition.Status) == status {
					return nil
				}
			}
			return fmt.Errorf("NamesAccepted of %s is not %s: %s", plural, status, text)
		})
	}
	create("firsts", "First")
	become("firsts", "True")
	create("seconds", "Second")
	become("seconds", "False")
	if code, text := servertest.Exchange(t, c, http.MethodPatch, s.URL()+crds+"/firsts.names.example.com", `{"spec":{"names":{"shortNames":["y"]}}}`); code != http.StatusOK {
		t.Fatal(code, text)
	}
	become("seconds", "True")
}

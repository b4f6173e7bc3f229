package migrate_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"espalier.dev/cmd/espalier/internal/migrate"
)

// TestUnreachable makes sure that a wrong address is reported at once.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	client, err := migrate.NewClient(&rest.Config{Host: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	client.RetryFor = time.Hour
	_, err = client.Resource(t.Context(), "jobs.example.com")
	if unavailable := (*migrate.UnavailableError)(nil); !errors.As(err, &unavailable) {
		t.Errorf("the error is %v", err)
	}
}

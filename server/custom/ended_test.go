package custom

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"

	"espalier.dev/schema"
	serverrest "espalier.dev/server/rest"
)

// endingPlugin is an admission plugin that ends the requests that it mutates, if end is set, and
// counts those that it validates.
type endingPlugin struct {
	end       atomic.Pointer[context.CancelFunc]
	validated atomic.Int64
}

func (*endingPlugin) Handles(admission.Operation) bool { return true }

func (p *endingPlugin) Admit(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	if end := p.end.Load(); end != nil {
		(*end)()
	}
	return nil
}

func (p *endingPlugin) Validate(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	p.validated.Add(1)
	return nil
}

// TestEndedWrites checks that a write whose client is gone, or that has timed out, is not
// validated any more.
func TestEndedWrites(t *testing.T) {
	plugin := &endingPlugin{}
	own, stock := newWriteServers(t, schema.KEP, plugin)
	for name, h := range map[string]http.Handler{"own": own, "stock": stock} {
		path := "/apis/example.com/v1/namespaces/" + name + "/widgets"
		const object = `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":1}}`
		plugin.end.Store(nil)
		plugin.validated.Store(0)
		w := sendTo(h, http.MethodPost, path, "application/json", object)
		if w.Code != http.StatusCreated || plugin.validated.Load() != 1 {
			t.Fatalf("%s: %d %s, validated %d times", name, w.Code, w.Body, plugin.validated.Load())
		}
		var created struct {
			Metadata struct{ ResourceVersion string }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &created); err != nil {
			t.Fatal(err)
		}
		changed := strings.Replace(object, `"size":1`, `"size":2`, 1)
		for _, c := range []struct{ method, path, contentType, body string }{
			{http.MethodPost, path, "application/json", strings.Replace(object, `"a"`, `"b"`, 1)},
			{http.MethodPut, path + "/a", "application/json", strings.Replace(changed, `"name":"a"`, `"name":"a","resourceVersion":"`+created.Metadata.ResourceVersion+`"`, 1)},
			{http.MethodPatch, path + "/a", "application/merge-patch+json", `{"spec":{"size":2}}`},
			{http.MethodPatch, path + "/a", "application/json-patch+json", `[{"op":"add","path":"/spec/size","value":2}]`},
			{http.MethodPatch, path + "/a?fieldManager=m&force=true", "application/apply-patch+yaml", changed},
		} {
			plugin.validated.Store(0)
			req := httptest.NewRequest(c.method, c.path, strings.NewReader(c.body))
			req.Header.Set("Content-Type", c.contentType)
			ctx, end := context.WithCancel(audit.WithAuditContext(req.Context()))
			plugin.end.Store(&end)
			finished := make(chan struct{})
			ctx, answered := serverrest.WithWork(ctx, func() { close(finished) })
			w := httptest.NewRecorder()
			h.ServeHTTP(w, req.WithContext(ctx))
			answered()
			<-finished
			if w.Code != http.StatusGatewayTimeout || plugin.validated.Load() != 0 {
				t.Errorf("%s: %s %s: %d %s, validated %d times", name, c.method, c.contentType, w.Code, w.Body, plugin.validated.Load())
			}
			// A request that has ended is not worked on.
			if _, err := serverrest.BeginWork(ctx); err == nil {
				t.Error("work begins after the end")
			}
			end()
		}
	}
}

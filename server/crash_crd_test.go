package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"espalier.dev/server/servertest"
)

// crashCRD is the expected state of a CRD that is created and deleted repeatedly. One
// goroutine writes the CRD, another one its objects.
type crashCRD struct {
	plural string
	// value was acknowledged; zero means no CRD. tried was sent without a response. The server
	// may have either.
	value, tried int64
	unknown      bool
	// deleting is set if a deletion was acknowledged and the CRD may still exist. life counts
	// the deletions that were sent.
	deleting bool
	life     int
	// objects are the objects that were sent. The value is true if the object was acknowledged
	// before any deletion was sent.
	objects map[string]bool
}

func newCrashCRDs() (crds []*crashCRD) {
	for i := range 3 {
		crds = append(crds, &crashCRD{plural: fmt.Sprint("extra", i), objects: map[string]bool{}})
	}
	return crds
}

// deletionSent reports whether a deletion was sent that may be incomplete.
func (d *crashCRD) deletionSent() bool {
	return d.deleting || d.unknown && d.tried == 0 && d.value != 0
}

func (d *crashCRD) path() string { return servertest.CRDs + "/" + d.plural + ".crash.example.com" }

func (d *crashCRD) collection() string {
	return "/apis/crash.example.com/v1/namespaces/default/" + d.plural
}

// definition returns the CRD with a value.
func (d *crashCRD) definition(value int64) map[string]any {
	crd := crashDefinition(d.plural)
	crd["metadata"].(map[string]any)["labels"] = map[string]any{"value": strconv.FormatInt(value, 10)}
	return crd
}

// patch returns a patch that sets the value in two places, one of which affects serving.
func (d *crashCRD) patch(value int64) map[string]any {
	return map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"value": strconv.FormatInt(value, 10)}},
		"spec":     map[string]any{"names": map[string]any{"shortNames": []any{fmt.Sprint(d.plural, "v", value)}}},
	}
}

// writeCRDs creates, changes and deletes CRDs until the server is killed.
func (c *crash) writeCRDs(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		if !c.stepCRD(ctx, c.crds[i%len(c.crds)], i) {
			return
		}
	}
}

// stepCRD writes a CRD and records the result. It reports whether there was a response.
func (c *crash) stepCRD(ctx context.Context, d *crashCRD, i int) bool {
	c.mu.Lock()
	next := max(d.value, d.tried) + 1
	method, path, want, body := http.MethodPatch, d.path(), http.StatusOK, any(d.patch(next))
	switch {
	case d.deleting:
		method, body, next = http.MethodGet, nil, d.value
	case d.value == 0:
		method, path, want, body = http.MethodPost, servertest.CRDs, http.StatusCreated, d.definition(next)
	case i%4 == 3:
		method, body, next = http.MethodDelete, nil, 0
		d.life++
	}
	d.tried, d.unknown = next, true
	c.mu.Unlock()
	code, answer, err := c.do(ctx, method, path, body)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.unanswered++
		return false
	}
	d.unknown = false
	switch {
	case d.deleting && code == http.StatusNotFound:
		d.deleting, d.value = false, 0
		clear(d.objects)
	case code != want:
		c.Errorf("%s %s: %d %v", method, path, code, answer)
		return false
	case method == http.MethodDelete:
		d.deleting = true
		c.deleted++
	case method != http.MethodGet:
		c.acknowledged++
		d.value = next
	}
	return true
}

// writeExtras creates objects of CRDs that may be deleted at any time, until the server is
// killed.
func (c *crash) writeExtras(ctx context.Context, round int) {
	for i := 0; ctx.Err() == nil; i++ {
		if !c.stepExtra(ctx, c.crds[i%len(c.crds)], fmt.Sprintf("r%d-%d", round, i)) {
			return
		}
	}
}

func (c *crash) stepExtra(ctx context.Context, d *crashCRD, name string) bool {
	c.mu.Lock()
	exists, life := d.value != 0 && !d.deletionSent(), d.life
	if exists {
		d.objects[name] = false
	}
	c.mu.Unlock()
	if !exists {
		time.Sleep(time.Millisecond)
		return true
	}
	code, answer, err := c.do(ctx, http.MethodPost, d.collection(), map[string]any{
		"apiVersion": "crash.example.com/v1", "kind": "K" + d.plural, "metadata": map[string]any{"name": name},
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.unanswered++
		return false
	}
	switch {
	case d.life != life && code < http.StatusInternalServerError:
		// The CRD was being deleted, and may already have been created again.
		if _, ok := d.objects[name]; !ok {
			d.objects[name] = false
		}
	case code != http.StatusCreated:
		c.Errorf("POST %s: %d %v", d.collection(), code, answer)
		return false
	default:
		c.acknowledged++
		d.objects[name] = true
	}
	return true
}

// checkCRD compares a CRD and its objects with the expected state.
func (c *crash) checkCRD(d *crashCRD) {
	crd := c.settledCRD(d)
	value := int64(0)
	if crd != nil {
		text, _ := servertest.Field(crd, "metadata.labels.value")
		value, _ = strconv.ParseInt(fmt.Sprint(text), 10, 64)
		if short, _ := servertest.Field(crd, "spec.names.shortNames.0"); short != nil && short != fmt.Sprint(d.plural, "v", value) {
			c.Errorf("%s is half written: %v", d.path(), crd)
		}
	}
	switch {
	case d.deleting && crd != nil:
		c.Errorf("%s is there although its deletion was acknowledged: %v", d.path(), crd)
	case d.deleting:
	case value != d.value && (!d.unknown || value != d.tried):
		c.Errorf("%s is %d; %d was acknowledged, %d tried (%t)", d.path(), value, d.value, d.tried, d.unknown)
	}
	if crd == nil {
		// No object remains for the next CRD of that name.
		clear(d.objects)
		value = 1
		if code, answer, err := c.do(c.Context(), http.MethodPost, servertest.CRDs, d.definition(value)); err != nil || code != http.StatusCreated {
			c.Fatal(code, answer, err)
		}
	}
	d.value, d.tried, d.unknown, d.deleting = value, value, false, false

	have := map[string]map[string]any{}
	c.list(d.collection(), have)
	for path := range have {
		if _, ok := d.objects[path[len(d.collection())+1:]]; !ok {
			c.Errorf("%s is there, and nobody wrote it to this CRD", path)
		}
	}
	for name, acknowledged := range d.objects {
		if acknowledged && have[d.collection()+"/"+name] == nil {
			c.Errorf("%s/%s is lost", d.collection(), name)
		}
	}
}

// settledCRD returns a CRD, or nil if there is none. A CRD that is being deleted must disappear
// soon.
func (c *crash) settledCRD(d *crashCRD) map[string]any {
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		code, crd, err := c.do(c.Context(), http.MethodGet, d.path(), nil)
		switch {
		case err != nil || code != http.StatusOK && code != http.StatusNotFound:
			c.Fatal(code, crd, err)
		case code == http.StatusNotFound:
			return nil
		case !terminating(crd):
			return crd
		case time.Since(began) > 30*time.Second:
			c.Fatalf("%s is stranded: %v", d.path(), crd)
		}
	}
}

package policies_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"espalier.dev/policies"
	"espalier.dev/schema"
)

// numberFrom returns a number from the environment.
func numberFrom(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestGenerated compares a server with offline evaluation for generated policies: verdict, message,
// warnings and mutated object are equal. ESPALIER_POLICIES is the number of policies, and
// ESPALIER_POLICY_SEED the first seed.
func TestGenerated(t *testing.T) {
	policies := 60
	if testing.Short() {
		policies = 12
	}
	count, seed := numberFrom(t, "ESPALIER_POLICIES", policies), numberFrom(t, "ESPALIER_POLICY_SEED", 1)
	for i, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		t.Run(sem.String(), func(t *testing.T) {
			t.Parallel()
			c := &generatedRun{comparison: newComparison(t, sem), T: t, outcomes: map[string]int{}, cheap: testing.Short()}
			for n := 0; c.policies < (count+1)/2; n++ {
				c.batch(uint64(seed+2*n+i), n)
				if t.Failed() && n > 5 {
					break
				}
			}
			t.Logf("%d policies, %d requests: %v", c.policies, c.requests, c.outcomes)
			if c.outcomes["rejected policies"] > c.policies/10 {
				t.Error("the server rejects many policies")
			}
			for _, outcome := range []string{"allowed", "denied", "mutated"} {
				if c.outcomes[outcome] == 0 {
					t.Errorf("no request was %s", outcome)
				}
			}
		})
	}
}

// generatedRun compares generated policies.
type generatedRun struct {
	*comparison
	*testing.T
	policies, requests int
	outcomes           map[string]int
	cheap              bool
}

// batch makes some policies, sends requests, and removes everything.
func (c *generatedRun) batch(seed uint64, n int) {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, seed)), namespace: fmt.Sprintf("generated-%d", n), cheap: c.cheap}
	all := generatedKinds()
	space := tree{"apiVersion": "v1", "kind": "Namespace", "metadata": tree{"name": g.namespace, "labels": tree{"tier": pick(g, "front", "back")}}}
	if g.chance(50) {
		space["metadata"].(tree)["annotations"] = tree{"owner": "ann"}
	}
	var remove []string
	send := func(obj tree) (answer, []byte) {
		text := toJSON(c.T, document(obj))
		collection, name := c.path(text, g.namespace)
		a := c.do(http.MethodPost, collection, text)
		if a.code < 300 {
			remove = append(remove, collection+"/"+name)
		}
		return a, text
	}
	must := func(obj tree) (text []byte) {
		a, text := send(obj)
		if a.code >= 300 {
			c.Fatal(a)
		}
		return text
	}
	defer func() {
		// The policies were created last. They would deny or change what follows.
		for _, path := range slices.Backward(remove) {
			c.do(http.MethodDelete, path, nil)
		}
	}()
	setup := []policies.Object{{JSON: must(space)}}
	for _, obj := range g.parameters() {
		setup = append(setup, policies.Object{JSON: must(obj)})
	}
	// The objects that are updated.
	type update struct{ old, new tree }
	var updates []update
	for i := range all {
		k := &all[i]
		name := pick(g, "one", "two", "three") + "-" + k.version
		old := g.object(k, name)
		setup = append(setup, policies.Object{JSON: must(old)})
		next := g.object(k, name)
		if k.kind == "Pod" {
			next["spec"] = old["spec"] // most of it cannot change
		}
		updates = append(updates, update{old, next})
	}
	for range 3 + g.IntN(3) {
		generated := g.policy(all, fmt.Sprintf("p%d", c.policies))
		for i, obj := range generated {
			a, text := send(obj)
			if a.code >= 300 && i == 0 {
				c.Logf("seed %d: the server rejects a policy: %v", seed, a.object["message"])
				c.outcomes["rejected policies"]++
				break
			}
			if a.code >= 300 {
				c.Fatalf("seed %d: the server rejects a binding: %v", seed, a)
			}
			if i == 0 {
				c.policies++
			}
			setup = append(setup, policies.Object{JSON: text})
		}
	}
	e, _, err := policies.New(c.Context(), policies.Config{Objects: setup, Definition: c.definition})
	if err != nil {
		c.Fatal(err)
	}
	for i := range all {
		for range 2 {
			obj := g.object(&all[i], pick(g, "new", "other"))
			c.request(seed, setup, e, toJSON(c.T, document(obj)), nil, g.namespace)
		}
	}
	for _, u := range updates {
		text := toJSON(c.T, document(u.new))
		collection, name := c.path(text, g.namespace)
		old, _ := json.Marshal(c.do(http.MethodGet, collection+"/"+name, nil).object)
		c.request(seed, setup, e, text, old, g.namespace)
	}
}

// request sends a request that is not stored, evaluates it offline, and compares.
func (c *generatedRun) request(seed uint64, setup []policies.Object, e *policies.Evaluator, object, old []byte, namespace string) {
	c.requests++
	collection, name := c.path(object, namespace)
	var live answer
	if old == nil {
		live = c.do(http.MethodPost, collection+"?dryRun=All", object)
	} else {
		body := parsed(object)
		body["metadata"].(map[string]any)["resourceVersion"] = parsed(old)["metadata"].(map[string]any)["resourceVersion"]
		object, _ = json.Marshal(body)
		live = c.do(http.MethodPut, collection+"/"+name+"?dryRun=All", object)
	}
	result, err := e.Evaluate(c.Context(), policies.Request{Object: object, Old: old, Namespace: namespace})
	if err != nil {
		c.outcomes["undecodable"]++
		if live.code < 300 {
			c.fail(seed, setup, object, old, fmt.Sprintf("offline: %v, server: %v", err, live))
		}
		return
	}
	if text := c.difference(live, result, true); text != "" {
		c.fail(seed, setup, object, old, text)
	}
	message, _ := live.object["message"].(string)
	switch {
	case result.Rejected != nil && message == result.Rejected.ErrStatus.Message:
		c.outcomes["denied"]++
	case live.code >= 300:
		c.outcomes["invalid after mutation"]++
	case len(result.Mutations) > 0:
		c.outcomes["mutated"]++
	case len(result.Warnings) > 0:
		c.outcomes["warned"]++
	default:
		c.outcomes["allowed"]++
	}
}

// fail reports a difference with everything that is needed to repeat it.
func (c *generatedRun) fail(seed uint64, setup []policies.Object, object, old []byte, text string) {
	var all strings.Builder
	for _, o := range setup {
		all.Write(o.JSON)
		all.WriteByte('\n')
	}
	c.Errorf("seed %d: %s\nobject: %s\nold: %s\nsetup:\n%s", seed, text, object, old, all.String())
}

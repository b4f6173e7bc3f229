package suite_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"espalier.dev/analysis/suite"
	"espalier.dev/crd/cel"
	"espalier.dev/internal/jsonx"
	"espalier.dev/schema"
)

// policies decides by the image of the object, and records the requests.
type policies struct{ requests []string }

func (p *policies) Admit(_ context.Context, r suite.PolicyRequest) (*suite.PolicyResult, error) {
	user := "admin"
	if r.User != nil {
		user = r.User.Name + " of " + strings.Join(r.User.Groups, ",")
	}
	image := func(obj schema.Object) any {
		spec, _ := obj["spec"].(map[string]any)
		return spec["image"]
	}
	p.requests = append(p.requests, fmt.Sprintf("%v %v status %t %s %s", image(r.Old), image(r.Object), r.Status, r.Definition.Name(), user))
	switch image(r.Object) {
	case "fails":
		return nil, errors.New("no such namespace")
	case "denied":
		return &suite.PolicyResult{Denials: []suite.Denial{{Policy: "images", Message: "the image is not allowed", Path: "spec.image"}, {Policy: "any", Message: "nothing is allowed"}}}, nil
	case "denied first":
		return &suite.PolicyResult{Denials: []suite.Denial{{Policy: "later", Message: "never said"}, {Policy: "mutating", Message: "cannot be changed", Mutating: true}}}, nil
	case "mutated", "spoilt":
		obj := jsonx.CopyObject(r.Object)
		obj["spec"].(map[string]any)["replicas"] = map[any]int64{"mutated": 5, "spoilt": 11}[image(r.Object)]
		return &suite.PolicyResult{Object: obj, Changed: []string{"spec.replicas", "metadata.labels"}}, nil
	case "warned":
		return &suite.PolicyResult{Warnings: []string{"the image is old", "the image is large"}}, nil
	case "unjudged":
		return &suite.PolicyResult{Unjudged: []string{"policy p needs a parameter"}}, nil
	}
	return &suite.PolicyResult{}, nil
}

// TestPolicies runs suites with admission policies. want has a line for each finding, as in TestRun.
func TestPolicies(t *testing.T) {
	for _, c := range []struct{ name, text, want, requests string }{{
		name: "as expected",
		text: `
as: {user: jane, groups: [a, b]}
valid:
- {name: fine}
- {name: mutated, with: {spec: {image: mutated, imgae: x}}, stored: {spec: {image: mutated, replicas: 5}}, pruned: [spec.imgae], defaulted: [spec.replicas], changed: [spec.replicas, metadata.labels]}
- {name: warned, with: {spec: {image: warned}}, warnings: [old, large]}
- {name: warned by one text, with: {spec: {image: warned}}, warnings: the image}
- {name: no warnings, warnings: [], changed: []}
invalid:
- {name: denied, with: {spec: {image: denied}}, errors: [{path: spec.image, message: not allowed, rule: images}, {rule: any}]}
- {name: denied by policies, with: {spec: {image: denied}}, errors: [{rule: policy}]}
- {name: mutating policies first, with: {spec: {image: denied first, replicas: 11}}, errors: [{rule: mutating, message: cannot be changed}]}
- {name: invalid before validating policies, with: {spec: {image: denied, replicas: 11}}, errors: [{path: spec.replicas}]}
- {name: spoilt by a policy, with: {spec: {image: spoilt}}, errors: [{path: spec.replicas}]}
- {name: rejected before policies, with: {spec: {image: fails}}, errors: [no such namespace]}
- {name: rejected and invalid, with: {spec: {image: fails, replicas: 11}}, errors: [less than or equal to 10]}
updates:
- {name: update, old: {spec: {image: warned}}, new: {spec: {image: warned, replicas: 2}}, warnings: [old, large]}
- {name: status, subresource: status, old: {spec: {image: warned}}, with: {status: {count: 1}}, warnings: [image]}
- {name: denied, old: {spec: {image: denied}}, new: {spec: {image: denied, replicas: 2}}, errors: [{rule: images}, {rule: any}]}
`,
		requests: `
<nil> example status false crontabs.stable.example.com jane of a,b
<nil> mutated status false crontabs.stable.example.com jane of a,b
<nil> warned status false crontabs.stable.example.com jane of a,b
<nil> warned status false crontabs.stable.example.com jane of a,b
<nil> example status false crontabs.stable.example.com jane of a,b
<nil> denied status false crontabs.stable.example.com jane of a,b
<nil> denied status false crontabs.stable.example.com jane of a,b
<nil> denied first status false crontabs.stable.example.com jane of a,b
<nil> denied status false crontabs.stable.example.com jane of a,b
<nil> spoilt status false crontabs.stable.example.com jane of a,b
<nil> fails status false crontabs.stable.example.com jane of a,b
<nil> fails status false crontabs.stable.example.com jane of a,b
warned warned status false crontabs.stable.example.com jane of a,b
warned warned status true crontabs.stable.example.com jane of a,b
denied denied status false crontabs.stable.example.com jane of a,b`,
	}, {
		name: "failures",
		text: `
valid:
- {name: denied, with: {spec: {image: denied}}}
- {name: unjudged, with: {spec: {image: unjudged}}, warnings: []}
- {name: other warnings, with: {spec: {image: warned}}, warnings: [old, new]}
- {name: other changes, with: {spec: {image: mutated}}, changed: [spec.image, spec.replicas]}
- {name: no warnings, warnings: [old]}
invalid:
- {name: accepted, with: {spec: {image: unjudged}}, errors: [never]}
- {name: accepted by all}
- {name: two denials, with: {spec: {image: denied}}, errors: [{rule: images}]}
`,
		want: `
/valid/0 rejected, but it should be accepted|the image is not allowed|nothing is allowed
/valid/1 what policies do is not known without a cluster|policy p needs a parameter
/valid/2/warnings the warnings of policies differ|- new|+ the image is large
/valid/3/changed policies change different fields|expected (-), got (+):|- spec.image|+ metadata.labels|  spec.replicas
/valid/4/warnings the warnings of policies differ|- old
/invalid/0 accepted, but it should be rejected|- message "never"|policy p needs a parameter: what it does is not known without a cluster
/invalid/1 accepted, but it should be rejected
/invalid/2/errors rejected for other reasons as well|nothing is allowed`,
	}} {
		t.Run(c.name, func(t *testing.T) {
			s, wrong := suite.Parse(toJSON(t, head+"policies: policies.yaml\n"+c.text), noFiles)
			for _, f := range wrong {
				t.Errorf("%s: %s", f.Pointer, f.Message)
			}
			if !slices.Equal(s.Policies, []string{"policies.yaml"}) {
				t.Errorf("the policies are in %q", s.Policies)
			}
			p := &policies{}
			r, err := suite.NewRunner(t.Context(), s, toJSON(t, crontab), suite.Options{Rules: cel.Checker{}, Policies: p})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range s.Cases {
				for _, f := range r.Run(t.Context(), c) {
					got = append(got, strings.Join(append([]string{f.Pointer + " " + f.Message}, f.Detail...), "|"))
				}
			}
			if got, want := strings.Join(got, "\n"), strings.TrimSpace(c.want); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if got, want := strings.Join(p.requests, "\n"), strings.TrimSpace(c.requests); want != "" && got != want {
				t.Errorf("the requests are\n%s\nwant\n%s", got, want)
			}
		})
	}
	for text, want := range map[string]string{
		"valid: [{name: a, warnings: [x]}]": "/valid/0 warnings and changed are about admission policies: name their files in policies",
		"valid: [{name: a, changed: [x]}]":  "/valid/0 warnings and changed are about admission policies: name their files in policies",
		"as: {groups: [a]}":                 "/as user is required",
		"as: 7":                             "/as must be an object with the keys groups, user",
		"as: {user: a}\nvalid: [{name: a}]": "",
		"policies: [p]\nupdates: [{name: a, with: {}, errors: [x], warnings: [w]}]": "/updates/0/errors a rejected object is not stored: expect either errors, or stored, pruned and defaulted",
		"policies: [p]\nupdates: [{name: a, with: {}, errors: [x], changed: [c]}]":  "/updates/0/errors a rejected object is not stored: expect either errors, or stored, pruned and defaulted",
	} {
		_, wrong := suite.Parse(toJSON(t, head+text), noFiles)
		got := ""
		if len(wrong) > 0 {
			got = wrong[0].Pointer + " " + wrong[0].Message
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

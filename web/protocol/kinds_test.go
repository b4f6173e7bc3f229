package protocol_test

import (
	"testing"

	"espalier.dev/web/protocol"
)

// TestKinds checks that each of Kubernetes' own kinds has a sample, which an API server accepts.
func TestKinds(t *testing.T) {
	answer := ask[protocol.KindsAnswer](t, engine(), "kinds", protocol.KindsRequest{})
	if len(answer.Kinds) < 50 {
		t.Errorf("only %d kinds", len(answer.Kinds))
	}
	e := engine()
	for _, k := range answer.Kinds {
		for _, v := range k.Versions {
			sample := ask[protocol.TextAnswer](t, e, "sample", protocol.SampleRequest{VersionRequest: protocol.VersionRequest{CRD: k.Name, Version: v.Name}})
			checked := ask[protocol.CheckAnswer](t, e, "check", protocol.CheckRequest{Objects: sample.Text})
			if len(checked.Objects) != 1 || checked.Objects[0].Verdict != protocol.Accepted || !checked.Objects[0].BuiltIn || checked.Objects[0].Kind != k.Kind {
				t.Errorf("%s %s: %+v\n%s", k.Name, v.Name, checked.Objects, sample.Text)
			}
		}
	}
}

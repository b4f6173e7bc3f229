package server_test

import (
	"testing"

	"espalier.dev/schema"
	"espalier.dev/server"
	"espalier.dev/server/servertest"
)

// TestLedger runs the scripts of behaviours. [servertest.Script] explains the format.
func TestLedger(t *testing.T) {
	t.Parallel()
	for _, script := range servertest.Scripts(t, "testdata/ledger/*.txtar") {
		t.Run(script.Name, script.Run)
	}
}

// TestSkeletons runs the script about skeletons in kubernetes semantics. A server serves them there
// if a flag turns on the resources that kube-apiserver does not have.
func TestSkeletons(t *testing.T) {
	t.Parallel()
	t.Run("K-06-kubernetes", func(t *testing.T) {
		s := servertest.Serve(t, schema.Kubernetes, func(o *server.Options) { o.CheckStoredObjects = "true" })
		servertest.RunScript(t, s, "testdata/ledger/K-06-server.txtar")
	})
}

package server_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/tools/txtar"

	"espalier.dev/espaliertest"
	"espalier.dev/schema"
	"espalier.dev/server/etcd/etcdtest"
)

// TestLedger runs the scripts in testdata/ledger, each against a real server over HTTP, in
// both semantics. A script is a txtar archive: its comment has the steps, a line each, its
// files are what they send and expect. A # begins a comment. A line that begins with [kep] or
// [kubernetes] is for that semantics alone. The steps:
//
//	only SEMANTICS           the script is about that semantics; without it, about both
//	create FILE              POST
//	update FILE              PUT, with the resourceVersion that the object has
//	status FILE              PUT of the status
//	patch FILE NAME.KIND     a merge patch, or a JSON patch if the file has a list (of the status:
//	                         NAME.KIND/status)
//	apply FILE               server-side apply
//	apply-status FILE        server-side apply of the status
//	get NAME.KIND            GET (KIND may be KIND/VERSION, or the whole a path for a raw GET)
//	list KIND
//	delete NAME.KIND
//	put FILE                 writes into etcd, behind the server's back
//	stored NAME.KIND         reads from etcd, as if it were an answer
//	gone NAME.KIND           something (or a path) comes to be no more
//	code NUMBER              the status of the last answer; if it is not asked for, it must be a success
//	is FILE                  the last answer is that object (server's metadata aside)
//	has PATH VALUE           a field of the last answer, by its path (spec.list.0.name; ~ is a dot); VALUE is YAML
//	lacks PATH
//	says TEXT                the last answer's body has the text
//	omits TEXT               it does not
//	cause FIELD TEXT         the last answer is a Status with that cause
//	causes NUMBER            it has as many
//	warns TEXT               the last answer has a Warning with the text
//	silent                   the last answer has no Warning
//	condition NAME TYPE STATUS TEXT
//	                         a definition comes to have that condition; STATUS none is no such condition
//
// FILE may be followed by a query (?fieldValidation=Strict), and a line with a file by a plus
// sign and YAML that is merged into it as a merge patch: create a.yaml + {spec: {b: 1}}. The
// kind CRD is CustomResourceDefinition. The body of a .json file is sent as it is.
func TestLedger(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/ledger/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	servers := map[string]*ledgerServer{}
	for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		servers[sem.String()] = startLedgerServer(t, sem)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for sem, s := range servers {
				if m := only.FindSubmatch(archive.Comment); m == nil || string(m[1]) == sem {
					t.Run(sem, func(t *testing.T) {
						sc := newScript(t, s.Server, archive)
						sc.etcd, sc.semantics = s.etcd, sem
						sc.run(file)
					})
				}
			}
		})
	}
}

// TestSkeletons runs the script about skeletons in kubernetes semantics. A server serves them there
// if a flag turns on the resources that kube-apiserver does not have.
func TestSkeletons(t *testing.T) {
	t.Parallel()
	t.Run("K-06-kubernetes", func(t *testing.T) {
		const file = "testdata/ledger/K-06-server.txtar"
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s := espaliertest.Start(t, espaliertest.WithSemantics(schema.Kubernetes), espaliertest.WithFlags("--check-stored-objects=true"))
		sc := newScript(t, s, archive)
		sc.semantics = schema.Kubernetes.String()
		sc.run(file)
	})
}

var only = regexp.MustCompile(`(?m)^only (\w+)$`)

// ledgerServer is a server with its etcd.
type ledgerServer struct {
	*espaliertest.Server
	etcd *clientv3.Client
}

func startLedgerServer(t *testing.T, sem schema.Semantics) *ledgerServer {
	c := etcdtest.Start(t)
	return &ledgerServer{Server: espaliertest.Start(t, espaliertest.WithSemantics(sem), espaliertest.WithFlags("--etcd-servers", c.Endpoints()[0])), etcd: c}
}

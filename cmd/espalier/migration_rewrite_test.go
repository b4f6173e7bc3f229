package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"espalier.dev/cmd/espalier/internal/migrate"
	"espalier.dev/schema"
)

// TestMigrationRewrite migrates objects that were put into etcd directly, in every way in which a stored
// object can differ from what a server would store now.
func TestMigrationRewrite(t *testing.T) {
	t.Parallel()
	for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		t.Run(sem.String(), func(t *testing.T) {
			t.Parallel()
			c := newJobsCluster(t, sem)
			c.apply(versionedJobs(jobsVersion("v1", true, `"n":{"type":"integer"}`)))
			c.apply(versionedJobs(jobsVersion("v1", false, `"n":{"type":"integer"},"old":{"type":"string"}`), jobsVersion("v2", true, `"n":{"type":"integer","maximum":5},"d":{"type":"string","default":"x"}`)))
			object := func(name, version, meta, rest string) string {
				return fmt.Sprintf(`{"apiVersion":"example.com/%s","kind":"Job","metadata":{"creationTimestamp":"2026-01-01T00:00:00Z",%s"generation":1,"name":%q,"namespace":"default","uid":"uid-%s"}%s}`, version, meta, name, name, rest) + "\n"
			}
			tests := []struct {
				name, before, after string
				result              migrate.Result
				drops               int
			}{
				{"normal", object("normal", "v2", "", `,"spec":{"d":"x","n":1}`), "", migrate.Unchanged, 0},
				{"unspecified", object("unspecified", "v2", "", `,"spec":{"d":"x","n":1,"privileged":true},"x":[1]`), object("unspecified", "v2", "", `,"spec":{"d":"x","n":1}`), migrate.Rewritten, 2},
				{"version", object("version", "v1", "", `,"spec":{"d":"x","n":1}`), strings.Replace(object("version", "v2", "", `,"spec":{"d":"x","n":1}`), `"generation":1`, `"generation":2`, 1), migrate.Rewritten, 1},
				{"default", object("default", "v2", "", `,"spec":{"n":1}`), object("default", "v2", "", `,"spec":{"d":"x","n":1}`), migrate.Rewritten, 0},
				{"invalid", object("invalid", "v2", "", `,"spec":{"d":"x","n":9,"privileged":true}`), object("invalid", "v2", "", `,"spec":{"d":"x","n":9}`), migrate.Rewritten, 1},
				{"contradiction", object("contradiction", "v2", "", `,"spec":{"d":"x","n":"nine","privileged":true}`), object("contradiction", "v2", "", `,"spec":{"d":"x","n":"nine"}`), migrate.Rewritten, 1},
				{"deleting", object("deleting", "v2", `"deletionGracePeriodSeconds":0,"deletionTimestamp":"2026-01-02T00:00:00Z","finalizers":["example.com/f"],`, `,"spec":{"d":"x","privileged":true}`), "", migrate.Rewritten, 1},
				{"status", object("status", "v2", "", `,"spec":{"d":"x"},"status":{"phase":"Done","secret":1}`), object("status", "v2", "", `,"spec":{"d":"x"},"status":{"phase":"Done"}`), migrate.Rewritten, 1},
				{"malformed", object("malformed", "v2", `"labels":5,`, `,"spec":{"d":"x"}`), object("malformed", "v2", "", `,"spec":{"d":"x"}`), migrate.Rewritten, 1},
			}
			for _, tc := range tests {
				c.store(tc.name, tc.before)
			}
			dry, dryCounts := c.migrate(migrate.Migration{DryRun: true, Stored: c.source()})
			for _, tc := range tests {
				if got, _ := c.stored(tc.name); got != tc.before {
					t.Errorf("%s: a dry run has stored %s", tc.name, got)
				}
				if o := dry[tc.name]; o.Result != tc.result || len(o.Drops()) != tc.drops {
					t.Errorf("%s: a dry run has the result %s (%v) and the drops %v, want %s and %d", tc.name, o.Result, o.Err, o.Drops(), tc.result, tc.drops)
				}
			}
			if blind, _ := c.migrate(migrate.Migration{DryRun: true}); blind["default"].Result != migrate.Accepted {
				t.Errorf("without the stored objects, the result of a dry run is %s", blind["default"].Result)
			}
			outcomes, counts := c.migrate(migrate.Migration{Stored: c.source(), Concurrency: 4})
			for _, tc := range tests {
				want := tc.after
				if want == "" {
					want = strings.Replace(tc.before, `,"privileged":true`, "", 1)
				}
				got, _ := c.stored(tc.name)
				if o := outcomes[tc.name]; o.Result != tc.result || len(o.Drops()) != tc.drops || got != want {
					t.Errorf("%s: the result is %s (%v), the drops %v, want %s and %d; stored is\n%swant\n%s", tc.name, o.Result, o.Err, o.Drops(), tc.result, tc.drops, got, want)
				}
			}
			if counts.DroppedFields != dryCounts.DroppedFields || counts.DroppedFrom != dryCounts.DroppedFrom || counts.Objects != int64(len(tests)) {
				t.Errorf("counts are %+v, those of the dry run %+v", counts, dryCounts)
			}
			crd := decodeObject(t, c.must(http.MethodGet, crdsPath+"/"+jobsName, ""))
			if got := fmt.Sprint(crd["status"].(map[string]any)["storedVersions"]); got != "[v2]" {
				t.Errorf("storedVersions are %s", got)
			}
			again, _ := c.migrate(migrate.Migration{Stored: c.source()})
			for name, o := range again {
				if o.Result != migrate.Unchanged {
					t.Errorf("%s: the second migration has the result %s", name, o.Result)
				}
			}
		})
	}
}

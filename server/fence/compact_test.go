package fence

import (
	"testing"
	"time"

	"espalier.dev/server/etcd/etcdtest"
)

// TestCompactWithoutKey compacts again after the key of the last compaction was deleted.
func TestCompactWithoutKey(t *testing.T) {
	const key = "compact_rev_key"
	client := etcdtest.Start(t)
	last, stop := startCompactor(client, 20*time.Millisecond)
	t.Cleanup(stop)
	compacted := func(after int64) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); last() <= after; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("nothing is compacted after revision %d", after)
			}
		}
	}
	compacted(0)
	resp, err := client.Delete(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	compacted(resp.Header.Revision)
}

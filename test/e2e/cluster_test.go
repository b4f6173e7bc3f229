package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRecord(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		record record
		value  int
		want   string
	}{
		{record{acknowledged: 3, tried: 3}, 3, ""},
		{record{acknowledged: 3, tried: 4}, 4, ""},
		{record{acknowledged: 3, tried: 4}, 3, ""},
		{record{acknowledged: 3, tried: 4}, 2, "3 was acknowledged"},
		{record{acknowledged: 3, tried: 4}, 5, "at most 4 was sent"},
		{record{acknowledged: 3, tried: 4}, 0, "lost"},
		{record{tried: 1}, 0, ""},
		{record{tried: 1}, 1, ""},
		{record{acknowledged: 3, tried: 3, deleting: true}, 0, ""},
		{record{acknowledged: 3, tried: 3, deleting: true}, 3, ""},
		{record{acknowledged: 3, tried: 3, deleting: true, deleted: true}, 0, ""},
		{record{acknowledged: 3, tried: 3, deleting: true, deleted: true}, 3, "its deletion was acknowledged"},
		{record{tried: 1}, -1, "has value -1"},
	} {
		err := c.record.allows(c.value)
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v, value %d: got error %v, want %q", c.record, c.value, err, c.want)
		}
	}
	err := compare(map[string]record{"a": {acknowledged: 1, tried: 1}}, map[string]int{"b": 1})
	if err == nil || !strings.Contains(err.Error(), "a lost") || !strings.Contains(err.Error(), "b was never created") {
		t.Errorf("got error %v", err)
	}
}

func TestCheckLogs(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "server.log")
	for text, bad := range map[string]bool{
		"I1118 ready\n": false,
		"E1118 \"[SHOULD NOT HAPPEN] failed to update managedFields\"\n": true,
		"WARNING: DATA RACE\n":                true,
		"E1118 Observed a panic\n":            true,
		"panic: assignment to nil map\n":      true,
		"I1118 configmap panics is created\n": false,
	} {
		if err := os.WriteFile(path, []byte("I1118 first\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := checkLogs(path)
		if (err != nil) != bad || bad && !strings.Contains(err.Error(), "server.log:2: "+strings.TrimSpace(text)) {
			t.Errorf("%q: got error %v", text, err)
		}
	}
}

package rest

import "testing"

// TestUsageSeveralUsers checks that a closed resource is freed with its last user, and once.
func TestUsageSeveralUsers(t *testing.T) {
	freed := 0
	u := &Usage{Free: func() { freed++ }}
	for range 2 {
		if !u.Acquire() {
			t.Fatal("an open resource is rejected")
		}
	}
	u.Release()
	if u.Close(); freed != 0 {
		t.Fatal("freed while it is used")
	}
	if u.Acquire() {
		t.Error("a closed resource is used")
	}
	if u.Release(); freed != 1 {
		t.Errorf("freed %d times after the last user", freed)
	}
	if u.Close(); freed != 1 {
		t.Errorf("freed %d times after the second Close", freed)
	}

	freed = 0
	u = &Usage{Free: func() { freed++ }}
	u.Acquire()
	u.Acquire()
	u.Close()
	if u.Release(); freed != 0 {
		t.Error("freed while another user has it")
	}
	if u.Release(); freed != 1 {
		t.Errorf("freed %d times", freed)
	}
}

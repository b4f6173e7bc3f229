package etcd

import "testing"

func TestCheckVersion(t *testing.T) {
	for version, ok := range map[string]bool{
		"3.3.27": false, "3.4.30": false, "3.4.31": true, "3.4.99": true, "3.5.0": false, "3.5.12": false,
		"3.5.13": true, "3.6.0": true, "4.0.0": true, "": false, "unknown": false,
	} {
		if err := checkVersion(version); (err == nil) != ok {
			t.Errorf("%q: %v", version, err)
		}
	}
}

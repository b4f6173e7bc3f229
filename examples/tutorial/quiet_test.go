package main

import (
	"io"
	"os"
	"testing"

	"k8s.io/klog/v2"
)

// TestMain discards the log of the server, except for errors.
func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	os.Exit(m.Run())
}

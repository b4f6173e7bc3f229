package main

import (
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"espalier.dev/internal/process/setup"
)

// TestForwarder makes sure that a connection waits for a server that is down, and ends with it.
func TestForwarder(t *testing.T) {
	ports, err := setup.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	f, err := startForwarder(ports[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.stop(); err != nil {
			t.Error(err)
		}
	}()
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", f.port))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "ping"); err != nil {
		t.Fatal(err)
	}
	server, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", ports[0]))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	accepted, err := server.Accept()
	if err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 4)
	if _, err := io.ReadFull(accepted, buffer); err != nil || string(buffer) != "ping" {
		t.Errorf("the server has read %q, %v", buffer, err)
	}
	if err := accepted.Close(); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(buffer); err != io.EOF {
		t.Errorf("the server has closed the connection, and the client reads %v", err)
	}
}

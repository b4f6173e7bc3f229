// Command espalier answers offline what otherwise takes a cluster: whether a
// CustomResourceDefinition is right, what a server would do to an object and why,
// and whether a change is safe. It also is that server.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	a := &app{
		program: os.Args[0],
		stdin:   os.Stdin,
		stdout:  os.Stdout,
		stderr:  os.Stderr,
		environ: os.LookupEnv,
	}
	code := a.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

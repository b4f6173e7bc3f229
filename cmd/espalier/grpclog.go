//go:build !noserver

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/grpclog"
	"k8s.io/klog/v2"
)

// grpcInterval is the shortest time between two warnings of gRPC in the log, and that before the first.
const grpcInterval = 30 * time.Second

// logConnections reduces what gRPC logs. It has a warning of several hundred characters for each attempt to
// connect to each etcd member, about ten in the five seconds that a command waits for an etcd. Commands
// return the reason as their error, and a server logs that its connection to etcd fails. What only gRPC
// tells is that a minority of the members fails.
//
// It must be called before gRPC is used, and not by the initialization of a package:
// k8s.io/apiserver sets its own logger in one.
func logConnections() {
	grpclog.SetLoggerV2(newGRPCLog(func(text string) { klog.WarningDepth(grpcDepth, text) }))
}

// grpcDepth is the number of calls between the log and gRPC.
const grpcDepth = 4

// grpcLog is a logger of gRPC that drops warnings that follow each other too closely. All are logged
// with -v 5. Errors are written to standard error.
type grpcLog struct {
	grpclog.LoggerV2
	warn func(text string)

	mu   sync.Mutex
	next time.Time
}

func newGRPCLog(warn func(text string)) *grpcLog {
	return &grpcLog{LoggerV2: grpclog.NewLoggerV2(io.Discard, io.Discard, os.Stderr), warn: warn, next: time.Now().Add(grpcInterval)}
}

// Warning, Warningln and Warningf implement grpclog.LoggerV2.
func (g *grpcLog) Warning(args ...any) { g.log(fmt.Sprint(args...)) }

func (g *grpcLog) Warningln(args ...any) { g.log(strings.TrimSuffix(fmt.Sprintln(args...), "\n")) }

func (g *grpcLog) Warningf(format string, args ...any) { g.log(fmt.Sprintf(format, args...)) }

// log logs a warning, unless it is too early.
func (g *grpcLog) log(text string) {
	if klog.V(5).Enabled() || g.due() {
		g.warn(text)
	}
}

// due reports whether a warning may be logged now. If so, the next one has to wait.
func (g *grpcLog) due() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if now.Before(g.next) {
		return false
	}
	g.next = now.Add(grpcInterval)
	return true
}

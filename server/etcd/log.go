package etcd

import (
	"errors"
	"os"
	"strings"
	"sync/atomic"

	etcderrors "go.etcd.io/etcd/server/v3/etcdserver/errors"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
)

// quietLevel is the log verbosity for etcd's messages about normal operation.
const quietLevel = 4

// newLogger returns a logger for etcd that writes to the server's log. etcd's info messages
// are logged at quietLevel, and so is everything while quiet is set, because a closing etcd
// reports the end of its listeners as an error. The probe, if not nil, gets its answers.
func newLogger(to klog.Logger, quiet, starting *atomic.Bool, p *probe) *zap.Logger {
	hook := giveUp{starting}
	return zap.New(&core{to: to.WithCallDepth(3), quiet: quiet, probe: p}, zap.WithFatalHook(hook), zap.WithPanicHook(hook))
}

// harmless reports whether a warning of etcd is expected for a single member on a unix
// socket.
func harmless(message string) bool {
	switch message {
	case "Running http and grpc server on single port. This is not recommended for production.",
		"simple token is not cryptographically signed",
		"Failed to detect schema version",  // before the first entry is written
		"failed to update storage version": // the same; etcd retries
		return true
	}
	// A member that has not applied its log yet: it tries again.
	return strings.HasSuffix(message, " since there are still pending configuration changes to apply") ||
		strings.HasSuffix(message, " is unpromotable and can not campaign")
}

// noSpace reports whether etcd logs a write that it rejected for lack of space. The client
// gets the error, and Member logs the condition once.
func noSpace(err error) bool { return err != nil && err.Error() == etcderrors.ErrNoSpace.Error() }

// giveUp handles fatal errors of etcd. During start they are returned as errors. Later they
// end the process: acknowledged writes are on disk, and etcd cannot guarantee further ones.
type giveUp struct{ starting *atomic.Bool }

// OnWrite is called after etcd has logged the reason.
func (g giveUp) OnWrite(e *zapcore.CheckedEntry, fields []zapcore.Field) {
	if g.starting.Load() {
		text := e.Message
		for _, f := range fields {
			if err, ok := f.Interface.(error); ok {
				text += ": " + err.Error()
			}
		}
		panic(text)
	}
	klog.Flush()
	os.Exit(1)
}

// core is a zapcore.Core that writes to a logr.Logger.
type core struct {
	to     klog.Logger
	quiet  *atomic.Bool
	probe  *probe
	fields []zapcore.Field
}

func (c *core) Enabled(l zapcore.Level) bool {
	return l >= zapcore.WarnLevel || c.to.V(quietLevel).Enabled() || l == zapcore.DebugLevel && c.probe.active()
}

func (c *core) With(fields []zapcore.Field) zapcore.Core {
	return &core{to: c.to, quiet: c.quiet, probe: c.probe, fields: append(c.fields[:len(c.fields):len(c.fields)], fields...)}
}

func (c *core) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

func (c *core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	if e.Level == zapcore.DebugLevel {
		c.probe.read(e.Message, fields)
		if !c.to.V(quietLevel).Enabled() {
			return nil
		}
	}
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range c.fields {
		f.AddTo(enc)
	}
	for _, f := range fields {
		f.AddTo(enc)
	}
	var err error
	pairs := make([]any, 0, 2*len(enc.Fields))
	for k, v := range enc.Fields {
		if text, ok := v.(string); ok && k == "error" {
			err = errors.New(text)
			continue
		}
		pairs = append(pairs, k, v)
	}
	switch {
	case e.Level < zapcore.WarnLevel, e.Level <= zapcore.ErrorLevel && (c.quiet.Load() || harmless(e.Message) || noSpace(err)):
		if err != nil {
			pairs = append(pairs, "err", err)
		}
		c.to.V(quietLevel).Info(e.Message, pairs...)
	case e.Level >= zapcore.ErrorLevel:
		c.to.Error(err, e.Message, pairs...)
	default:
		if err != nil {
			pairs = append(pairs, "err", err)
		}
		c.to.Info(e.Message, pairs...)
	}
	return nil
}

func (c *core) Sync() error { return nil }

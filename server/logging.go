package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // the format json
	"k8s.io/klog/v2"

	"espalier.dev/server/fields"
)

// SetupLogging sets the log output, format (text or json) and verbosity of the whole process.
// It may be called only once, before anything is logged.
func SetupLogging(out io.Writer, format string, verbosity uint32) error {
	if format != "text" && format != "json" {
		return fmt.Errorf("--log-format %q: must be text or json", format)
	}
	c := logsapi.NewLoggingConfiguration()
	c.Format = format
	c.Verbosity = logsapi.VerbosityLevel(verbosity)
	out = withoutRejected{out}
	streams := &logsapi.LoggingOptions{ErrorStream: out, InfoStream: out}
	if err := logsapi.ValidateAndApplyWithOptions(c, streams, nil); err != nil {
		return fmt.Errorf("set up logging: %w", err)
	}
	return nil
}

// FlushLogs writes buffered log messages.
func FlushLogs() { klog.Flush() }

// withoutRejected is a log without the entries about objects that are rejected because they have
// too many fields to track. The stock field manager logs them as errors that should not happen,
// and the client gets the reason.
type withoutRejected struct{ io.Writer }

// Write writes an entry.
func (w withoutRejected) Write(entry []byte) (int, error) {
	if bytes.Contains(entry, []byte("[SHOULD NOT HAPPEN]")) && fields.IsTooManyItems(errors.New(string(entry))) {
		return len(entry), nil
	}
	return w.Writer.Write(entry)
}

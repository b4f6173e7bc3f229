package server

import (
	"fmt"
	"io"

	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // the format json
	"k8s.io/klog/v2"
)

// SetupLogging makes the whole process log to out, as text or JSON, what is at most as
// verbose as asked for. It can be done once, before anything is logged.
func SetupLogging(out io.Writer, format string, verbosity uint32) error {
	if format != "text" && format != "json" {
		return fmt.Errorf("--log-format %q: must be text or json", format)
	}
	c := logsapi.NewLoggingConfiguration()
	c.Format = format
	c.Verbosity = logsapi.VerbosityLevel(verbosity)
	streams := &logsapi.LoggingOptions{ErrorStream: out, InfoStream: out}
	if err := logsapi.ValidateAndApplyWithOptions(c, streams, nil); err != nil {
		return fmt.Errorf("set up logging: %w", err)
	}
	return nil
}

// FlushLogs writes what is buffered.
func FlushLogs() { klog.Flush() }

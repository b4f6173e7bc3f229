package server

import (
	"fmt"
	"io"

	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // the format json
	"k8s.io/klog/v2"
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
	streams := &logsapi.LoggingOptions{ErrorStream: out, InfoStream: out}
	if err := logsapi.ValidateAndApplyWithOptions(c, streams, nil); err != nil {
		return fmt.Errorf("set up logging: %w", err)
	}
	return nil
}

// FlushLogs writes buffered log messages.
func FlushLogs() { klog.Flush() }

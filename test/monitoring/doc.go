// Package monitoring checks what operators use to watch the server, in deploy/monitoring, with the metrics of a
// server that runs, and generates the reference of metrics. It is a module of its own because of the parser of
// PromQL: an alert that Prometheus cannot parse never fires.
package monitoring

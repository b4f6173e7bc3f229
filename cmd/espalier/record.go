package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"espalier.dev/analysis"
	"espalier.dev/analysis/object"
	"espalier.dev/analysis/replay"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/internal/yamlx"
)

// Reasons of record not to judge a request, in addition to those of package replay.
const (
	skipOtherKinds replay.Skip = "requests for kinds without a CRD in --crd"
	skipUnknownOld replay.Skip = "updates that were judged without the object before them, which is not in the log"
)

func newRecordCommand(a *app) *cobra.Command {
	var crds input.Flags
	var flags reportFlags
	c := &cobra.Command{
		Use:   "record --crd PATH LOG...",
		Short: "Replay the audit log of a cluster against CRDs, in both schema semantics",
		Long: `Record reads Kubernetes audit logs (events of audit.k8s.io, one on each line) and judges the
requests that write custom resources as an API server with the CRDs of --crd would. It
reports each request that would be answered differently:
  replay-rejected  the log has the request as accepted, and it would be rejected
  replay-accepted  the log has it as rejected as invalid, and it would be accepted
  semantics        the schema semantics kep and kubernetes give different answers

The audit policy must log the objects: at level Request for creates and updates, and at level
RequestResponse for patches and requests that admission webhooks have changed, which are judged
by their result. The object before an update is the last one that the log has. If the log does
not have it, because another client has written it since, only the schema semantics are compared:
the API server tolerates invalid values that the object had already, and rules can compare with it.
Only logs at level RequestResponse show whether another client has written an object.

The last finding counts what was not judged: requests that write nothing, subresources, kinds
without a CRD, and requests that failed for reasons such as conflicts or admission webhooks.
Lines that cannot be read are reported, and the others are judged.

Exit codes: 0 no errors, 1 errors (or what --fail-on selects), ` + otherExitCodes + `.`,
		Example: `  # Would the CRDs of the next release reject what clients send today?
  espalier record --crd crontab-crd.yaml audit.log

  # Which requests does kep semantics answer differently than a Kubernetes cluster?
  espalier record --semantics kubernetes --fail-on warning --crd crontab-crd.yaml audit.log

  # Read the log from a pipe
  cat audit.log | espalier record --crd crontab-crd.yaml -`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError(c, errors.New("record needs LOG: an audit log, or - for standard input"))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return a.record(c, crds, args, flags) },
	}
	addCRDFlag(c, &crds)
	addReadFlags(c, &crds, "recursive", input.Definitions)
	addReportFlags(c, &flags)
	return c
}

func (a *app) record(c *cobra.Command, crds input.Flags, logs []string, flags reportFlags) (err error) {
	if err := stdinOnce(crds, input.Flags{Paths: logs}); err != nil {
		return err
	}
	options := a.reportOptions(c, flags, recordRules())
	options.What = "request"
	r, err := report.New(options)
	if err != nil {
		return err
	}
	defer func() { err = r.Finish(err) }()
	if len(crds.Paths) == 0 {
		crds.Paths = a.configuredCRDs()
	}
	ds, err := a.loadDefinitions(c.Context(), crds, r.Failure)
	if err != nil {
		return err
	}
	p := &player{open: a.openLog, r: r, definitions: ds, reported: map[*definition]bool{}, skipped: map[replay.Skip]int{}}
	for _, log := range logs {
		if err := p.file(c.Context(), a.stdin, log); err != nil {
			return err
		}
	}
	p.reportSkipped(strings.Join(logs, ", "))
	return nil
}

// player replays audit logs.
type player struct {
	// open opens a log.
	open        func(path string) (io.ReadCloser, error)
	r           *report.Reporter
	definitions *definitions
	reported    map[*definition]bool
	history     replay.History
	skipped     map[replay.Skip]int
}

// openLog opens an audit log, which may be a pipe.
func (a *app) openLog(path string) (io.ReadCloser, error) {
	if input.IsGit(path) {
		return a.repositories.OpenFile(path)
	}
	return a.dir.Open(path)
}

// file replays one log.
func (p *player) file(ctx context.Context, stdin io.Reader, path string) error {
	in, name := stdin, path
	if path == "-" {
		name = input.Stdin
	} else {
		f, err := p.open(path)
		if err != nil {
			p.r.Failure(input.Problem{Rule: input.Unreadable, File: path, Message: fmt.Sprintf("cannot read: %v", input.Reason(err))})
			return nil
		}
		defer func() { _ = f.Close() }() // it is only read
		in = f
	}
	lines := bufio.NewReaderSize(in, 1<<16)
	var events, bad int
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if p.line(ctx, name, n, line) {
				events++
			} else if bad++; events == 0 && bad == maxBadLines {
				p.r.Failure(input.Problem{Rule: input.Syntax, File: name, Message: fmt.Sprintf(
					"not an audit log: its first %d lines are no audit events, and the rest is not read: name a log that kube-apiserver has written in the format json",
					bad)})
				return nil
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			p.r.Failure(input.Problem{Rule: input.Unreadable, File: name, Message: fmt.Sprintf("cannot read: %v", input.Reason(err))})
			return nil
		}
	}
}

// maxBadLines is the number of lines at the start of a file after which it is no audit log.
const maxBadLines = 3

// line replays a line of a log, and reports whether it is one.
func (p *player) line(ctx context.Context, file string, n int, line []byte) bool {
	err := replay.Parse(line, func(r *replay.Request) {
		if r.Skip == "" {
			p.request(ctx, file, n, r)
		} else {
			p.skipped[r.Skip]++
		}
		p.history.Add(r)
	})
	if err != nil {
		p.r.Failure(input.Problem{Rule: input.Syntax, File: file, Line: n, Column: 1, Message: err.Error()})
	}
	return err == nil
}

// request judges a request.
func (p *player) request(ctx context.Context, file string, n int, r *replay.Request) {
	doc, err := yamlx.Parse(r.Object)
	var items []*input.Item
	if err == nil {
		var problem *input.Problem
		if items, problem = (&input.Document{Document: doc, File: file}).Items(); problem != nil {
			err = errors.New(problem.Message)
		}
	}
	if err != nil || len(items) != 1 {
		p.r.Failure(input.Problem{Rule: input.Syntax, File: file, Line: n, Column: 1,
			Message: fmt.Sprintf("the object of the request cannot be read: %v", err)})
		return
	}
	it := items[0]
	d, err := p.definitions.Find(it)
	if err != nil {
		p.skipped[skipOtherKinds]++
		return
	}
	checker, err := d.checker()
	if err != nil {
		if !p.reported[d] {
			p.reported[d] = true
			p.r.Report(d.item(), analysis.Finding{Rule: object.RuleInvalidDefinition, Severity: analysis.Error, Message: err.Error()})
		}
		return
	}
	old, err := p.history.Old(r)
	if err != nil || r.Update && (old == nil || !checker.Converts(old, r.Object)) {
		old = nil
		p.skipped[skipUnknownOld]++
	}
	p.r.Saw(it)
	for _, f := range replay.Judge(ctx, checker, r, old) {
		p.r.Add(report.Finding{Finding: f, Object: it.Identity(), File: file, Span: yamlx.Position{Line: n, Column: 1}})
	}
}

// reportSkipped counts the events that were not judged.
func (p *player) reportSkipped(file string) {
	if len(p.skipped) == 0 {
		return
	}
	f := analysis.Finding{Rule: ruleNotReplayed, Severity: analysis.Info,
		Message: "some events of the log were not judged, or not completely"}
	for _, s := range slices.Sorted(maps.Keys(p.skipped)) {
		f.Detail = append(f.Detail, fmt.Sprintf("%s: %d", s, p.skipped[s]))
	}
	p.r.Add(report.Finding{Finding: f, File: file})
}

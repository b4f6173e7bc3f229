package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
)

// fault is something that goes wrong in a cluster.
type fault struct {
	name string
	// inject lets it happen, and returns what the cluster does: texts that are the same for each server that behaves as
	// kube-apiserver does, and measurements.
	inject func(context.Context, *cluster, kubernetes.Interface) (observed, error)
}

// observed is what a cluster does when something goes wrong.
type observed struct {
	// results are comparable: runs with different servers have the same ones.
	results []string
	// measured is not.
	measured string
}

// faultsFile has what happens with the real kube-apiserver: a line for each result.
const faultsFile = "testdata/faults.txt"

// faults are injected one after the other.
var faults = []fault{
	{"tokens of a clock that is wrong", tokenClocks},
	{"certificates of a clock that is wrong", certificateClocks},
	{"leases of a clock that is wrong", leaseClocks},
	{"kube-scheduler is killed again and again", killScheduler},
	{"a node is deleted", deleteNode},
	{"a node does not renew its lease", silentNode},
	{"10,000 pods are deleted at once", deletePods},
}

// runFaults starts a cluster, injects the faults that the focus selects, and prints a table. It
// returns an error if the cluster does not recover from one, or if something else happens than with the real kube-apiserver.
func runFaults(ctx context.Context, o *options) error {
	p, err := build(ctx, o)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c, err := startCluster(ctx, cancel, o, p)
	defer c.stop()
	if err != nil {
		return err
	}
	client, err := newClient(c.kubeconfig)
	if err != nil {
		return err
	}
	golden, err := os.ReadFile(faultsFile)
	if err != nil && !o.update {
		return err
	}
	var happened strings.Builder
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	var problems []error
	for _, f := range faults {
		if !o.focus.MatchString(f.name) || o.skip != nil && o.skip.MatchString(f.name) {
			continue
		}
		began := time.Now()
		got, err := f.inject(ctx, c, client)
		if err = errors.Join(err, context.Cause(ctx)); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", f.name, err))
			got.results = append(got.results, "failed: "+strings.ReplaceAll(err.Error(), "\n", "; "))
		}
		for i, result := range got.results {
			name, measured := "", ""
			if i == 0 {
				name, measured = f.name, got.measured
			}
			fmt.Fprintf(table, "%s\t%s\t%s\n", name, result, measured)
			line := f.name + ": " + result + "\n"
			if fmt.Fprint(&happened, line); !o.update && !strings.Contains(string(golden), line) {
				problems = append(problems, fmt.Errorf("%s does not have: %s", faultsFile, strings.TrimSpace(line)))
			}
		}
		fmt.Printf("%s: %s\n", f.name, time.Since(began).Round(100*time.Millisecond))
		if ctx.Err() != nil {
			break
		}
	}
	problems = append(problems, table.Flush())
	if o.update && errors.Join(problems...) == nil {
		problems = append(problems, os.WriteFile(faultsFile, []byte(happened.String()), 0o644))
	}
	return errors.Join(problems...)
}

// recovery is the time that the cluster has to recover.
const recovery = 5 * time.Minute

// until waits until a condition holds, and returns the time that it took. The error of a condition that does not hold is reported
// in the end.
func until(ctx context.Context, what string, condition func(context.Context) (bool, error)) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, recovery)
	defer cancel()
	began := time.Now()
	for {
		ok, err := condition(ctx)
		if ok {
			return time.Since(began), nil
		}
		if sleep(ctx, readyPoll); ctx.Err() != nil {
			return time.Since(began), fmt.Errorf("%s: not after %v: %w", what, recovery, errors.Join(ctx.Err(), err))
		}
	}
}

// answer returns the result of a request: its HTTP status, or the kind of the error.
func answer(err error) string {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return "accepted"
	case errors.As(err, &status):
		return fmt.Sprint(status.Status().Code)
	case strings.Contains(err.Error(), "tls: "):
		return "no TLS connection"
	}
	return err.Error()
}

// seconds returns a duration for a table.
func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

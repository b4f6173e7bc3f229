// Command components is the programs of a simulated cluster beside the API server, in one binary:
// kube-controller-manager and kube-scheduler of Kubernetes, kwok, which simulates nodes and their
// pods, and two helpers. The first argument names the program:
//
//	components kube-controller-manager FLAGS
//	components kube-scheduler FLAGS
//	components kwok FLAGS
//	components nodes --kubeconfig FILE --count NUMBER
//	components stages [FILE]
//
// The first three are the programs themselves with all their flags; kwok has a provisioner of volumes
// beside it. nodes creates the nodes, and waits until the cluster is ready. stages prints the stages that
// kwok plays. The launcher in the directory above runs all of them.
//
// They share a binary because they share most of their code, and the memory that it takes.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	_ "time/tzdata" // time zones of CronJobs

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// programs are the names of the programs, in the order of the help.
const programs = "kube-controller-manager, kube-scheduler, kwok, nodes, stages"

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintf(os.Stderr, "name a program as the first argument: %s\n", programs)
		os.Exit(2)
	}
	name := os.Args[1]
	// The programs read os.Args.
	os.Args = append([]string{name}, os.Args[2:]...)
	switch name {
	case "kube-controller-manager":
		os.Exit(cli.Run(controllermanager.NewControllerManagerCommand()))
	case "kube-scheduler":
		os.Exit(cli.Run(scheduler.NewSchedulerCommand()))
	}
	// The packages of Kubernetes have added flags, such as --version, which are not for these programs.
	pflag.CommandLine = pflag.NewFlagSet(name, pflag.ExitOnError)
	switch name {
	case "kwok":
		os.Exit(exit(name, runKwok()))
	case "nodes":
		os.Exit(run(newNodesCommand()))
	case "stages":
		os.Exit(run(newStagesCommand()))
	default:
		fmt.Fprintf(os.Stderr, "unknown program %q: the first argument must be one of %s\n", name, programs)
		os.Exit(2)
	}
}

// run runs one of the helpers until a signal stops it, and returns its exit code.
func run(c *cobra.Command) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c.SilenceErrors, c.SilenceUsage = true, true
	return exit(c.Name(), c.ExecuteContext(ctx))
}

// exit prints an error, and returns the exit code.
func exit(name string, err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintf(os.Stderr, "%s: %s\n", name, strings.TrimSpace(err.Error()))
	return 1
}

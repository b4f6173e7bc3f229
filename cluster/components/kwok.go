package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"sigs.k8s.io/kwok/pkg/config"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
	"sigs.k8s.io/kwok/pkg/log"
	"sigs.k8s.io/kwok/pkg/utils/signals"
)

// runKwok runs kwok with the flags in os.Args, and the provisioner of volumes with the same
// kubeconfig.
func runKwok() error {
	flags := pflag.NewFlagSet("global", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.Usage = func() {}
	ctx, _ := log.InitFlags(signals.SetupSignalContext(), flags)
	ctx, err := config.InitFlags(ctx, flags)
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	command := kwok.NewCommand(ctx)
	command.PersistentFlags().AddFlagSet(flags)
	own := pflag.NewFlagSet("provisioner", pflag.ContinueOnError)
	own.ParseErrorsAllowlist.UnknownFlags = true
	own.Usage = func() {}
	kubeconfig := own.String("kubeconfig", os.Getenv("KUBECONFIG"), "")
	if err := own.Parse(os.Args[1:]); errors.Is(err, pflag.ErrHelp) {
		return command.ExecuteContext(ctx)
	} else if err != nil {
		return err
	}
	failed := make(chan error, 2)
	go func() { failed <- provisionVolumes(ctx, *kubeconfig) }()
	go func() { failed <- command.ExecuteContext(ctx) }()
	return <-failed
}

package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// leaseName is the name of the lease that the leader holds.
const leaseName = "website-controller"

func main() {
	namespace := flag.String("lease-namespace", "default", "the namespace of the lease for leader election")
	flag.Parse() // controller-runtime adds --kubeconfig
	ctrl.SetLogger(zap.New(zap.UseDevMode(true)))
	if err := run(*namespace); err != nil {
		fmt.Fprintln(os.Stderr, "controller:", err)
		os.Exit(1)
	}
}

func run(namespace string) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	mgr, err := newManager(config, ctrl.Options{
		LeaderElectionNamespace: namespace,
		Metrics:                 metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

// newManager returns a manager with the controller for Websites. It completes the options with
// leader election, which gives up the lease on stop so that another manager can take over at
// once.
func newManager(config *rest.Config, options ctrl.Options) (ctrl.Manager, error) {
	retry := time.Second
	options.LeaderElection = true
	options.LeaderElectionID = leaseName
	options.LeaderElectionReleaseOnCancel = true
	options.RetryPeriod = &retry
	return newSingleManager(config, options)
}

// newSingleManager returns a manager with the controller for Websites, without leader election unless
// the options have it.
func newSingleManager(config *rest.Config, options ctrl.Options) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, addToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("add types to the scheme: %w", err)
		}
	}
	options.Scheme = scheme
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		return nil, fmt.Errorf("make a manager: %w", err)
	}
	r := &reconciler{Client: mgr.GetClient(), events: mgr.GetEventRecorder(leaseName)}
	if err := r.setUp(mgr); err != nil {
		return nil, fmt.Errorf("set up the controller: %w", err)
	}
	return mgr, nil
}

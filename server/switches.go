package server

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"

	"espalier.dev/server/aggregator"
	"espalier.dev/server/definitions"
	"espalier.dev/server/gc"
	"espalier.dev/server/namespaces"
	"espalier.dev/server/objects"
	"espalier.dev/server/podgc"
	"espalier.dev/server/policystatus"
	"espalier.dev/server/quota"
	"espalier.dev/server/roles/aggregation"
)

// The names of the controllers that can be switched off, as in kube-controller-manager.
const (
	controllerNamespace      = "namespace"
	controllerGarbage        = "garbagecollector"
	controllerServiceAccount = "serviceaccount"
	controllerRootCA         = "root-ca-certificate-publisher"
	controllerAggregation    = "clusterrole-aggregation"
	controllerQuota          = "resourcequota"
	controllerPods           = "pod-garbage-collector-controller"
	controllerPolicyStatus   = "validatingadmissionpolicy-status-controller"
)

func controllerNames() []string {
	return []string{controllerAggregation, controllerGarbage, controllerNamespace, controllerPods,
		controllerQuota, controllerRootCA, controllerServiceAccount, controllerPolicyStatus}
}

// validateControllers returns an error if the names of controllers are invalid.
func (o *Options) validateControllers() error {
	var errs []error
	for _, name := range o.Controllers {
		if name != "*" && !slices.Contains(controllerNames(), strings.TrimPrefix(name, "-")) {
			errs = append(errs, fmt.Errorf("--controllers: unknown controller %q: must be * or one of %s", name,
				strings.Join(controllerNames(), ", ")))
		}
	}
	return errors.Join(errs...)
}

// runs reports whether a controller is switched on. The first name that applies decides.
func (o *Options) runs(name string) bool {
	for _, c := range o.Controllers {
		switch c {
		case name:
			return true
		case "-" + name:
			return false
		}
	}
	return slices.Contains(o.Controllers, "*")
}

// Controllers returns the names of the controllers of Kubernetes' own kinds that the server runs, sorted.
func (s *Server) Controllers() []string {
	return slices.DeleteFunc(controllerNames(), func(name string) bool { return !s.options.runs(name) })
}

// addControllers adds the controllers of Kubernetes' own kinds that are switched on. They begin
// when all CRDs are loaded.
func addControllers(f *foundation, all *objects.Objects, stored *quota.Stored, defs *definitions.Definitions, others *aggregator.Aggregator) {
	if f.options.runs(controllerNamespace) {
		f.controllers.add(controller{name: controllerNamespace, run: namespaces.NewLifecycle(all, defs.Ready(), others.Empty).Run})
	}
	if f.options.runs(controllerGarbage) {
		collector := gc.New(all, defs.Ready())
		defs.Subscribe(collector.Changed)
		others.Subscribe(collector.Retry)
		f.controllers.add(controller{name: controllerGarbage, run: collector.Run})
	}
	if f.options.runs(controllerPods) {
		f.controllers.add(controller{name: controllerPods, run: podgc.New(all, defs.Ready(),
			cmp.Or(f.options.podQuarantine, podgc.Quarantine)).Run})
	}
	if f.options.runs(controllerPolicyStatus) {
		statuses := policystatus.New(all, f.stored.Served(), defs.Ready())
		defs.Subscribe(statuses.Changed)
		f.controllers.add(controller{name: controllerPolicyStatus, run: statuses.Run})
	}
	if f.options.runs(controllerQuota) {
		quotas := quota.NewController(all, stored, defs.Ready(), f.db.peers != nil)
		defs.Subscribe(quotas.Changed)
		f.controllers.add(controller{name: controllerQuota, run: quotas.Run})
	}
	if f.options.runs(controllerServiceAccount) {
		f.controllers.add(controller{name: controllerServiceAccount, run: namespaces.NewServiceAccounts(all, defs.Ready()).Run})
	}
	if f.options.runs(controllerAggregation) {
		f.controllers.add(controller{name: controllerAggregation, run: aggregation.New(all, defs.Ready()).Run})
	}
	if f.options.runs(controllerRootCA) {
		ca, changes := f.servingCA()
		// Servers on the same etcd may have different CAs.
		publisher := namespaces.NewRootCA(all, defs.Ready(), ca, f.db.peers != nil)
		changes.AddListener(publisher)
		f.controllers.add(controller{name: controllerRootCA, run: publisher.Run})
	}
}

// servingCA returns what clients verify the certificate of the server with, as in the kubeconfig, and what
// notifies of changes.
func (f *foundation) servingCA() (func() ([]byte, error), dynamiccertificates.Notifier) {
	external, ok := f.config.SecureServing.Cert.(dynamiccertificates.Notifier)
	if f.options.TLSCertFile == "" || !ok {
		return func() ([]byte, error) { return f.identity.CurrentCABundleContent(), nil }, f.identity
	}
	return func() ([]byte, error) {
		cert, _ := f.config.SecureServing.Cert.CurrentCertKeyContent()
		trust, err := trustOf(f.options, cert)
		if err != nil {
			return nil, err
		}
		return trust.ca, nil
	}, external
}

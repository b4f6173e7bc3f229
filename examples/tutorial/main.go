package main

import (
	"log"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	ctrl.SetLogger(klog.Background()) // without a logger, errors are not visible
	config, err := ctrl.GetConfig()
	if err != nil {
		log.Fatal(err)
	}
	if err := Run(ctrl.SetupSignalHandler(), config); err != nil {
		log.Fatal(err)
	}
}

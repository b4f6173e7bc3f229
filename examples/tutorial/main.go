package main

import (
	"log"

	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	if err := Run(ctrl.SetupSignalHandler(), ctrl.GetConfigOrDie()); err != nil {
		log.Fatal(err)
	}
}

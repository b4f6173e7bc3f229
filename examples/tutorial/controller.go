// Greetings is a controller that writes the text of Greetings into their status.
package main

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	greetings "example.com/greetings/api/example.com/v1"
)

// Reconciler writes the text of Greetings into their status.
type Reconciler struct {
	client.Client
}

// Reconcile brings the status of a Greeting up to date.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	greeting := &greetings.Greeting{}
	if err := r.Get(ctx, request.NamespacedName, greeting); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	text := "Hello, " + greeting.Spec.Name + "!"
	if language := greeting.Spec.Language; language != nil && *language == "fr" {
		text = "Bonjour, " + greeting.Spec.Name + " !"
	}
	greeting.Status = &greetings.GreetingStatus{Text: &text}
	return ctrl.Result{}, r.Status().Update(ctx, greeting)
}

// Run runs the controller until the context is done.
func Run(ctx context.Context, config *rest.Config) error {
	scheme := runtime.NewScheme()
	if err := greetings.AddToScheme(scheme); err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(manager).For(&greetings.Greeting{}).Complete(&Reconciler{manager.GetClient()})
	if err != nil {
		return err
	}
	return manager.Start(ctx)
}

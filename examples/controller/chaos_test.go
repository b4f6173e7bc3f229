package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"espalier.dev/espaliertest"
)

var chaosRuns = flag.Int("chaos-runs", 3, "how often the seed that finds the bug is run again")

// errTwice is the bug that TestChaosFindsBug looks for.
var errTwice = errors.New("created twice")

// careless is a copy of the reconciler with a bug: it makes a ConfigMap with a generated name, if
// its cache has none for the Website. The cache may not have the one that it has just made.
type careless struct{ client.Client }

// Reconcile makes the ConfigMap of a Website, and reports it in the status.
func (r *careless) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	site := &Website{}
	if err := r.Get(ctx, request.NamespacedName, site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	labels := client.MatchingLabels{"example.com/website": site.Name}
	pages := &corev1.ConfigMapList{}
	if err := r.List(ctx, pages, client.InNamespace(site.Namespace), labels); err != nil {
		return ctrl.Result{}, err
	}
	if len(pages.Items) == 0 {
		page := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: site.Namespace, GenerateName: site.Name + "-", Labels: labels},
			Data:       map[string]string{"index.html": site.Spec.Page},
		}
		if err := r.Create(ctx, page); err != nil {
			return ctrl.Result{}, fmt.Errorf("create the page: %w", err)
		}
	}
	before := site.deepCopy()
	site.Status.ObservedGeneration = site.Generation
	return ctrl.Result{}, r.Status().Patch(ctx, site, client.MergeFrom(before))
}

// runCareless runs the careless controller with the faults of a seed, until it reports that it has
// handled a Website. The error is errTwice if there are two ConfigMaps then.
func runCareless(t *testing.T, seed uint64) error {
	t.Helper()
	s := newSession(t)
	p := espaliertest.Profile{User: user, Resource: "configmaps", HeldEvents: 0.5, LostAnswers: 0.5, MaxHold: 2 * time.Second}
	s.server.Inject(t, espaliertest.Chaos(seed, p)...)
	scheme := runtime.NewScheme()
	s.must(t, errors.Join(clientscheme.AddToScheme(scheme), addToScheme(scheme)))
	o := options()
	o.Scheme = scheme
	mgr, err := ctrl.NewManager(s.config(), o)
	s.must(t, err)
	s.must(t, ctrl.NewControllerManagedBy(mgr).For(&Website{}).Owns(&corev1.ConfigMap{}).Complete(&careless{mgr.GetClient()}))
	stop := runManager(t, mgr, "careless")
	defer stop()
	site := s.create(t, "hello")
	s.eventually(t, site, "hello", func() error {
		if site.Status.ObservedGeneration != site.Generation {
			return errors.New("not handled")
		}
		return nil
	})
	pages := &corev1.ConfigMapList{}
	s.must(t, s.client.List(t.Context(), pages, client.InNamespace("default"), client.MatchingLabels{"example.com/website": "hello"}))
	if len(pages.Items) > 1 {
		return errTwice
	}
	return nil
}

// TestChaosFindsBug looks for a seed with which the faults reveal the bug of a careless controller, and runs it
// again: it finds the bug again.
func TestChaosFindsBug(t *testing.T) {
	t.Parallel()
	// Of two seeds, one makes the cache stale, and of four, one loses the answer of the create, too.
	const seeds = 50
	seed, found := uint64(0), false
	for ; seed < seeds && !found; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { found = errors.Is(runCareless(t, seed), errTwice) })
	}
	if !found {
		t.Fatalf("none of %d seeds finds the bug", seeds)
	}
	seed--
	var again atomic.Int64
	t.Run("again", func(t *testing.T) {
		for i := range *chaosRuns {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				if errors.Is(runCareless(t, seed), errTwice) {
					again.Add(1)
				}
			})
		}
	})
	t.Logf("the seed %d finds the bug in %d of %d runs", seed, again.Load(), *chaosRuns)
	if again.Load() != int64(*chaosRuns) {
		t.Errorf("the seed %d finds the bug in %d of %d runs only", seed, again.Load(), *chaosRuns)
	}
}

package clients

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// TestDiscoverEverything uses the server as k9s and other browsers of clusters do: it knows no
// kinds. It discovers all resources and lists each of them as a table, as metadata and as
// objects, and watches it.
func TestDiscoverEverything(t *testing.T) {
	t.Parallel()
	ctx, server := start(t)
	create(ctx, t, dynamicClient(t, server), "one")
	config := rest.CopyConfig(server.Config())
	config.QPS = -1 // no limit
	discover := must(discovery.NewDiscoveryClientForConfig(config))(t)
	lists := must(discover.ServerPreferredResources())(t)
	objects := must(dynamic.NewForConfig(config))(t)
	meta := must(metadata.NewForConfig(config))(t)
	seen := 0
	for _, list := range lists {
		gv := must(schema.ParseGroupVersion(list.GroupVersion))(t)
		for _, r := range list.APIResources {
			if strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "list") {
				continue
			}
			seen++
			gvr := gv.WithResource(r.Name)
			t.Run(gvr.GroupResource().String(), func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(context.Background(), timeout)
				defer cancel()
				want := must(objects.Resource(gvr).List(ctx, metav1.ListOptions{}))(t)
				equal(t, want.GetKind(), r.Kind+"List")
				partial := must(meta.Resource(gvr).List(ctx, metav1.ListOptions{}))(t)
				equal(t, len(partial.Items), len(want.Items))
				checkTable(ctx, t, config, gvr, len(want.Items))
				if !slices.Contains(r.Verbs, "watch") {
					return
				}
				watchEverything(ctx, t, meta.Resource(gvr), len(want.Items))
			})
		}
	}
	if seen < 55 {
		t.Errorf("discovered %d resources", seen)
	}
}

// checkTable lists a resource as a table, with the number of rows that it has as objects.
func checkTable(ctx context.Context, t *testing.T, config *rest.Config, gvr schema.GroupVersionResource, rows int) {
	t.Helper()
	config = rest.CopyConfig(config)
	gv := gvr.GroupVersion()
	config.GroupVersion, config.NegotiatedSerializer = &gv, scheme.Codecs.WithoutConversion()
	config.APIPath = "/apis"
	if gv.Group == "" {
		config.APIPath = "/api"
	}
	client := must(rest.RESTClientFor(config))(t)
	var table metav1.Table
	var status int
	body := client.Get().Resource(gvr.Resource).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io, application/json").
		Param("includeObject", string(metav1.IncludeMetadata)).
		Do(ctx).StatusCode(&status)
	if err := body.Into(&table); err != nil || status != http.StatusOK {
		t.Fatalf("status %d: %v", status, err)
	}
	equal(t, len(table.Rows), rows)
	// A resource without objects has columns, too: clients show them.
	if !slices.ContainsFunc(table.ColumnDefinitions, func(c metav1.TableColumnDefinition) bool { return c.Name == "Name" }) {
		t.Errorf("the columns are %+v", table.ColumnDefinitions)
	}
	for _, row := range table.Rows {
		equal(t, len(row.Cells), len(table.ColumnDefinitions))
	}
}

// watchEverything watches a resource from its start until all existing objects have arrived.
func watchEverything(ctx context.Context, t *testing.T, client metadata.ResourceInterface, objects int) {
	t.Helper()
	yes := true
	w := must(client.Watch(ctx, metav1.ListOptions{
		SendInitialEvents: &yes, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}))(t)
	defer w.Stop()
	added := 0
	for {
		select {
		case e, ok := <-w.ResultChan():
			switch {
			case !ok:
				t.Fatal("the watch ended")
			case e.Type == watch.Added:
				added++
			case e.Type == watch.Bookmark:
				if added < objects {
					t.Errorf("got %d of %d objects", added, objects)
				}
				return
			default:
				t.Fatalf("got %s %v", e.Type, e.Object)
			}
		case <-ctx.Done():
			t.Fatal("no bookmark arrived")
		}
	}
}

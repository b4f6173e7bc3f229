package server

import (
	"context"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"espalier.dev/analysis/timeline"
)

// controllerKey and agentKey are the keys of values in a context: the name of the controller that
// does something, and the header User-Agent of the request.
type (
	controllerKey struct{}
	agentKey      struct{}
)

// asController returns a context for writes of a part of the server that are not part of a request.
func asController(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, controllerKey{}, name)
}

// recordAgents makes the server keep the header User-Agent of writes in their context.
func recordAgents(c *genericapiserver.Config) {
	build := c.BuildHandlerChainFunc
	c.BuildHandlerChainFunc = func(next http.Handler, c *genericapiserver.Config) http.Handler {
		return build(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if agent := limited(req.UserAgent()); agent != "" && req.Method != http.MethodGet {
				req = req.WithContext(context.WithValue(req.Context(), agentKey{}, agent))
			}
			next.ServeHTTP(w, req)
		}), c)
	}
}

// maxAgent is the maximum length of a User-Agent in the history.
const maxAgent = 1024

// limited returns the beginning of a User-Agent, in memory of its own: the history keeps it.
func limited(agent string) string {
	return strings.Clone(strings.ToValidUTF8(agent[:min(len(agent), maxAgent)], ""))
}

// originOf returns who has caused a write with a context: a *timeline.Origin, or nil for the server
// itself. A write of resource quotas belongs to several requests, and has the origin of one of them.
func originOf(ctx context.Context) any {
	var o timeline.Origin
	if user, ok := apirequest.UserFrom(ctx); ok {
		o.User = user.GetName()
	}
	if info, ok := apirequest.RequestInfoFrom(ctx); ok {
		// The history keeps them, and would keep the whole URL of the request.
		o.Verb, o.Resource = strings.Clone(info.Verb), strings.Clone(info.Path)
		if info.IsResourceRequest {
			o.Resource = strings.Clone(schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}.String())
			if info.Subresource != "" {
				o.Resource += "/" + info.Subresource
			}
		}
		o.UserAgent, _ = ctx.Value(agentKey{}).(string)
	} else {
		o.Controller, _ = ctx.Value(controllerKey{}).(string)
	}
	if o == (timeline.Origin{}) {
		return nil
	}
	return &o
}

package fairness

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing"
	"k8s.io/apiserver/pkg/util/flowcontrol/request"

	"espalier.dev/kinds/kind"
	"espalier.dev/store"
)

// levelHeader is the header of responses with the UID of the priority level, in its canonical form.
var levelHeader = http.CanonicalHeaderKey(v1.ResponseHeaderMatchedPriorityLevelConfigurationUID)

// Config configures a Control.
type Config struct {
	// Store has all objects in memory.
	Store *store.Store
	// Reader decodes stored objects.
	Reader Reader
	// Seats is the number of seats that the priority levels share.
	Seats int
}

// Reader reads the stored objects of Kubernetes' own kinds.
type Reader interface {
	// Has reports whether there is such a resource.
	Has(schema.GroupResource) bool
	// StoredAs returns the resource as which the objects of a resource are stored.
	StoredAs(schema.GroupResource) schema.GroupResource
	Decode(schema.GroupResource, *store.Entry) (runtime.Object, error)
}

// Kinds writes the stored objects of Kubernetes' own kinds.
type Kinds interface {
	// Keep creates the objects that are missing, and those that update changes are written.
	Keep(ctx context.Context, objects []kind.Object, update func(stored, wanted kind.Object) bool) error
	Storage(schema.GroupVersionResource) (rest.StandardStorage, error)
	// Subresource returns a subresource that updates objects.
	Subresource(r schema.GroupVersionResource, name string) (rest.Patcher, error)
}

// Control decides when requests are worked on. It is the flow control of a server of
// k8s.io/apiserver, which also runs it: [Control.Follow] keeps it up to date.
type Control struct {
	utilflowcontrol.Interface
	config Config
	kinds  Kinds

	schemas, levels *informer
	// exempt is the UID of the priority level that is never limited.
	exempt  atomic.Pointer[string]
	waiting waiting
	ready   chan struct{}

	// mu protects writes, the context of the writes of conditions. It is nil if there may be none.
	mu      sync.Mutex
	writes  context.Context
	writing sync.WaitGroup
}

// New returns a Control.
func New(c Config) *Control {
	control := &Control{config: c, ready: make(chan struct{})}
	control.schemas = newInformer(c, schemas)
	control.levels = newInformer(c, levels)
	control.levels.changed = func(obj kind.Object) {
		if obj.GetName() == v1.PriorityLevelConfigurationNameExempt {
			uid := string(obj.GetUID())
			control.exempt.Store(&uid)
		}
	}
	control.Interface = utilflowcontrol.New(factory{c: control}, client{c: control}, c.Seats)
	return control
}

// Use sets what writes objects. It must be called before Follow.
func (c *Control) Use(k Kinds) { c.kinds = k }

// Ready returns a channel that is closed when the stored flow schemas and priority levels are known,
// and those that every server has were created, if that was possible.
func (c *Control) Ready() <-chan struct{} { return c.ready }

// Exempts reports whether a request is not limited, from the headers of its response. It is not
// limited either before the priority levels are stored, for example while etcd is full.
func (c *Control) Exempts(response http.Header) bool {
	uid := response[levelHeader]
	if len(uid) == 0 || uid[0] == "" {
		return true
	}
	exempt := c.exempt.Load()
	return exempt != nil && *exempt == uid[0]
}

// Handle lets a request wait until it may be worked on, and calls work, or rejects it: it then returns
// without having called work. If too many requests wait, it is rejected unless it need not wait.
func (c *Control) Handle(ctx context.Context, digest utilflowcontrol.RequestDigest,
	note func(*v1.FlowSchema, *v1.PriorityLevelConfiguration, string), estimate func() request.WorkEstimate,
	queued fairqueuing.QueueNoteFn, work func()) {
	// A request whose context has ended does not wait. The work has the context of the request.
	wait, cancel := context.WithCancel(ctx)
	defer cancel()
	var of *atomic.Int64
	c.Interface.Handle(wait, digest, func(s *v1.FlowSchema, l *v1.PriorityLevelConfiguration, flow string) {
		of = c.waiting.of(l.Name)
		if !c.waiting.hasRoom(of, func() int { return len(c.levels.objects.ListKeys()) }) {
			cancel()
		}
		note(s, l, flow)
	}, estimate, func(in bool) {
		if in {
			c.waiting.add(of, 1)
		} else {
			c.waiting.add(of, -1)
		}
		queued(in)
	}, work)
}

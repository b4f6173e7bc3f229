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

// maxWaiting is the maximum number of requests that wait in all queues. Priority levels have a limit
// of their own for each queue, but those of all servers together have room for 26,000, and an
// administrator may configure more. Each needs the memory of its goroutines and buffers. A user alone
// reaches the limit of the queues that it is assigned first: 300 with the default priority levels.
const maxWaiting = 5000

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
	exempt atomic.Pointer[string]
	// waiting is the number of requests in queues.
	waiting atomic.Int64
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
	if c.waiting.Load() >= maxWaiting {
		// A request whose context has ended does not wait. The work has the context of the request.
		ended, cancel := context.WithCancel(ctx)
		cancel()
		ctx = ended
	}
	c.Interface.Handle(ctx, digest, note, estimate, func(in bool) {
		if in {
			c.waiting.Add(1)
		} else {
			c.waiting.Add(-1)
		}
		queued(in)
	}, work)
}

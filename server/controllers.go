package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
)

// controller is a control loop in the server.
type controller struct {
	name string
	// run runs until ctx ends. If it returns earlier, it is restarted.
	run func(ctx context.Context) error
	// synced, if not nil, makes readiness depend on the controller: it starts with the
	// server, and the server is not ready until synced is closed. Other controllers start
	// when the server is ready.
	synced <-chan struct{}
}

// controllers runs controllers. It starts them after the server, and stops them before the
// storage is closed.
type controllers struct {
	mu      sync.Mutex
	list    []*controllerState
	cancel  context.CancelFunc
	stopped bool
	running sync.WaitGroup
	ready   chan struct{}
}

func newControllers() *controllers { return &controllers{ready: make(chan struct{})} }

// controllerState is a controller with its last failure.
type controllerState struct {
	controller
	mu  sync.Mutex
	err error
	// failure is the error of the last run.
	failure error
}

func (s *controllerState) set(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *controllerState) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = err
}

// failures returns the last errors of all controllers, or nil.
func (c *controllers) failures() error {
	var errs []error
	for _, s := range c.list {
		s.mu.Lock()
		if s.failure != nil {
			errs = append(errs, fmt.Errorf("controller %s: %w", s.name, s.failure))
		}
		s.mu.Unlock()
	}
	return errors.Join(errs...)
}

// add adds a controller. It must be called before start.
func (c *controllers) add(one controller) {
	c.list = append(c.list, &controllerState{controller: one, err: errors.New("not started")})
}

// Ready returns a channel that is closed when all controllers that readiness depends on have
// synced.
func (c *controllers) Ready() <-chan struct{} { return c.ready }

// isReady reports whether Ready is closed.
func (c *controllers) isReady() bool {
	select {
	case <-c.ready:
		return true
	default:
		return false
	}
}

// start starts the controllers and returns immediately. They run until ctx ends or stop is
// called. After stop it does nothing: a server that is stopped while it starts may call both
// concurrently.
func (c *controllers) start(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return
	}
	ctx, c.cancel = context.WithCancel(ctx)
	for _, s := range c.list {
		if s.synced != nil {
			c.running.Go(func() { s.loop(ctx) })
		}
	}
	c.running.Go(func() {
		for _, s := range c.list {
			if s.synced == nil {
				continue
			}
			select {
			case <-s.synced:
			case <-ctx.Done():
				return
			}
		}
		close(c.ready)
		for _, s := range c.list {
			if s.synced == nil {
				c.running.Go(func() { s.loop(ctx) })
			}
		}
	})
}

// stop stops all controllers and waits for them.
func (c *controllers) stop() {
	c.mu.Lock()
	c.stopped = true
	if c.cancel != nil {
		c.cancel()
	}
	c.mu.Unlock()
	c.running.Wait()
}

// loop runs a controller until ctx ends, and restarts it if it fails.
func (s *controllerState) loop(ctx context.Context) {
	const shortest, longest = 50 * time.Millisecond, 5 * time.Second
	m := controllerMetrics()
	m.restarts.WithLabelValues(s.name) // a series that begins with the first restart shows no increase
	ctx = asController(ctx, s.name)
	for pause := shortest; ; pause = min(2*pause, longest) {
		began := time.Now()
		s.set(nil)
		m.running.WithLabelValues(s.name).Inc()
		err := s.once(ctx)
		m.running.WithLabelValues(s.name).Dec()
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("the controller returned unexpectedly")
		}
		s.set(err)
		s.fail(err)
		m.restarts.WithLabelValues(s.name).Inc()
		klog.FromContext(ctx).Error(err, "A controller failed and is restarted", "controller", s.name)
		if time.Since(began) > longest {
			pause = shortest
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// once runs a controller once. It returns a panic of the controller as an error.
func (s *controllerState) once(ctx context.Context) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return s.run(ctx)
}

// checks returns a health check for each controller, which reports whether it has synced and
// is running.
func (c *controllers) checks() (checks []healthz.HealthChecker) {
	for _, s := range c.list {
		checks = append(checks, healthz.NamedCheck("controller/"+s.name, func(*http.Request) error { return c.check(s) }))
	}
	return checks
}

func (c *controllers) check(s *controllerState) error {
	if !c.isReady() {
		if s.synced == nil {
			return nil // it starts when the server is ready
		}
		return errors.New("not synced")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// metricsOfControllers are metrics of controllers. Servers in one process share them.
type metricsOfControllers struct {
	running  *metrics.GaugeVec
	restarts *metrics.CounterVec
}

// controllerMetrics registers the metrics on first use, because the registry is global.
var controllerMetrics = sync.OnceValue(func() *metricsOfControllers {
	m := &metricsOfControllers{
		running: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Name: "espalier_controllers_running", Help: "Number of running internal controllers, by name.", StabilityLevel: metrics.ALPHA,
		}, []string{"name"}),
		restarts: metrics.NewCounterVec(&metrics.CounterOpts{
			Name: "espalier_controller_restarts_total",
			Help: "Number of times that an internal controller failed and was started again, by name.", StabilityLevel: metrics.ALPHA,
		}, []string{"name"}),
	}
	legacyregistry.MustRegister(m.running, m.restarts)
	return m
})

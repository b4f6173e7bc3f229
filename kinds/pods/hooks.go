package pods

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/rules"
)

// checkHooks validates the lifecycle hooks and the probes of a container.
func (c *checker) checkHooks(container *corev1.Container, path *field.Path) {
	if lifecycle := container.Lifecycle; lifecycle != nil {
		at := path.Child("lifecycle")
		if lifecycle.PostStart != nil {
			c.checkHandler(handlerOf(lifecycle.PostStart), at.Child("postStart"))
		}
		if lifecycle.PreStop != nil {
			c.checkHandler(handlerOf(lifecycle.PreStop), at.Child("preStop"))
		}
		if lifecycle.StopSignal != nil {
			c.checkStopSignal(*lifecycle.StopSignal, at.Child("stopSignal"))
		}
	}
	liveness, readiness, startup := path.Child("livenessProbe"), path.Child("readinessProbe"), path.Child("startupProbe")
	c.checkProbe(container.LivenessProbe, liveness)
	c.checkSuccessThreshold(container.LivenessProbe, liveness)
	c.checkProbe(container.ReadinessProbe, readiness)
	if probe := container.ReadinessProbe; probe != nil && probe.TerminationGracePeriodSeconds != nil {
		c.add(field.Invalid(readiness.Child("terminationGracePeriodSeconds"),
			probe.TerminationGracePeriodSeconds, "must not be set for readinessProbes"))
	}
	c.checkProbe(container.StartupProbe, startup)
	c.checkSuccessThreshold(container.StartupProbe, startup)
}

func (c *checker) checkSuccessThreshold(probe *corev1.Probe, path *field.Path) {
	if probe != nil && probe.SuccessThreshold != 1 {
		c.add(field.Invalid(path.Child("successThreshold"), probe.SuccessThreshold, "must be 1"))
	}
}

func (c *checker) checkProbe(probe *corev1.Probe, path *field.Path) {
	if probe == nil {
		return
	}
	c.checkHandler(handler{exec: probe.Exec, httpGet: probe.HTTPGet, tcpSocket: probe.TCPSocket, grpc: probe.GRPC}, path)
	c.add(rules.Nonnegative(probe.InitialDelaySeconds, path.Child("initialDelaySeconds"))...)
	c.add(rules.Nonnegative(probe.TimeoutSeconds, path.Child("timeoutSeconds"))...)
	c.add(rules.Nonnegative(probe.PeriodSeconds, path.Child("periodSeconds"))...)
	c.add(rules.Nonnegative(probe.SuccessThreshold, path.Child("successThreshold"))...)
	c.add(rules.Nonnegative(probe.FailureThreshold, path.Child("failureThreshold"))...)
	if seconds := probe.TerminationGracePeriodSeconds; seconds != nil && *seconds <= 0 {
		c.add(field.Invalid(path.Child("terminationGracePeriodSeconds"), *seconds, "must be greater than 0"))
	}
}

// handler is what a probe or a lifecycle hook does.
type handler struct {
	exec      *corev1.ExecAction
	httpGet   *corev1.HTTPGetAction
	tcpSocket *corev1.TCPSocketAction
	grpc      *corev1.GRPCAction
	sleep     *corev1.SleepAction
}

func handlerOf(h *corev1.LifecycleHandler) handler {
	return handler{exec: h.Exec, httpGet: h.HTTPGet, tcpSocket: h.TCPSocket, sleep: h.Sleep}
}

func (c *checker) checkHandler(h handler, path *field.Path) {
	handlers := []struct {
		name  string
		set   bool
		check func(path *field.Path)
	}{
		{"exec", h.exec != nil, func(path *field.Path) {
			if len(h.exec.Command) == 0 {
				c.add(field.Required(path.Child("command"), ""))
			}
		}},
		{"httpGet", h.httpGet != nil, func(path *field.Path) { c.checkHTTPGet(h.httpGet, path) }},
		{"tcpSocket", h.tcpSocket != nil, func(path *field.Path) { c.add(validatePort(h.tcpSocket.Port, path.Child("port"))...) }},
		{"grpc", h.grpc != nil, func(path *field.Path) { c.add(validatePort(intstr.FromInt32(h.grpc.Port), path.Child("port"))...) }},
		{"sleep", h.sleep != nil, func(path *field.Path) { c.checkSleep(h.sleep, path) }},
	}
	found := false
	for _, handler := range handlers {
		switch at := path.Child(handler.name); {
		case !handler.set:
		case found:
			c.add(field.Forbidden(at, "may not specify more than 1 handler type"))
		default:
			found = true
			handler.check(at)
		}
	}
	if !found {
		c.add(field.Required(path, "must specify a handler type"))
	}
}

func (c *checker) checkHTTPGet(action *corev1.HTTPGetAction, path *field.Path) {
	c.add(rules.Required(action.Path, path.Child("path"))...)
	c.add(validatePort(action.Port, path.Child("port"))...)
	c.add(rules.Enum(action.Scheme, path.Child("scheme"), corev1.URISchemeHTTP, corev1.URISchemeHTTPS)...)
	for _, header := range action.HTTPHeaders {
		c.add(rules.Invalid(header.Name, path.Child("httpHeaders"), validation.IsHTTPHeaderName(header.Name))...)
	}
}

func validatePort(port intstr.IntOrString, path *field.Path) field.ErrorList {
	if port.Type == intstr.String {
		return rules.Invalid(port.StrVal, path, validation.IsValidPortName(port.StrVal))
	}
	return rules.Invalid(port.IntValue(), path, validation.IsValidPortNum(port.IntValue()))
}

func (c *checker) checkSleep(sleep *corev1.SleepAction, path *field.Path) {
	if grace := c.spec.TerminationGracePeriodSeconds; grace != nil && (sleep.Seconds < 0 || sleep.Seconds > *grace) {
		c.add(field.Invalid(path, sleep.Seconds,
			fmt.Sprintf("must be non-negative and less than terminationGracePeriodSeconds (%d)", *grace)))
	}
}

// checkStopSignal validates the signal that stops a container, which depends on its system.
func (c *checker) checkStopSignal(signal corev1.Signal, path *field.Path) {
	switch {
	case c.spec.OS == nil:
		c.add(field.Forbidden(path, "may not be set for containers with empty `spec.os.name`"))
	case c.spec.OS.Name == corev1.Windows:
		c.add(rules.Enum(signal, path, corev1.SIGKILL, corev1.SIGTERM)...)
	case c.spec.OS.Name == corev1.Linux:
		c.add(rules.Enum(signal, path, linuxSignals()...)...)
	}
}

func linuxSignals() []corev1.Signal {
	signals := []corev1.Signal{
		corev1.SIGABRT, corev1.SIGALRM, corev1.SIGBUS, corev1.SIGCHLD, corev1.SIGCLD, corev1.SIGCONT, corev1.SIGFPE, corev1.SIGHUP,
		corev1.SIGILL, corev1.SIGINT, corev1.SIGIO, corev1.SIGIOT, corev1.SIGKILL, corev1.SIGPIPE, corev1.SIGPOLL, corev1.SIGPROF,
		corev1.SIGPWR, corev1.SIGQUIT, corev1.SIGSEGV, corev1.SIGSTKFLT, corev1.SIGSTOP, corev1.SIGSYS, corev1.SIGTERM, corev1.SIGTRAP,
		corev1.SIGTSTP, corev1.SIGTTIN, corev1.SIGTTOU, corev1.SIGURG, corev1.SIGUSR1, corev1.SIGUSR2, corev1.SIGVTALRM, corev1.SIGWINCH,
		corev1.SIGXCPU, corev1.SIGXFSZ, corev1.SIGRTMIN, corev1.SIGRTMAX,
	}
	for i := 1; i <= 15; i++ {
		signals = append(signals, corev1.SIGRTMIN+corev1.Signal("+"+strconv.Itoa(i)))
		if i < 15 {
			signals = append(signals, corev1.SIGRTMAX+corev1.Signal("-"+strconv.Itoa(i)))
		}
	}
	slices.Sort(signals)
	return signals
}

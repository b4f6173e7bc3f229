package columns

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/kinds/kind"
)

func podColumns() []column {
	spec, status := corev1.PodSpec{}.SwaggerDoc(), corev1.PodStatus{}.SwaggerDoc()
	return []column{
		name(),
		text("Ready", "The aggregate readiness state of this pod for accepting traffic.", func(p *corev1.Pod) any {
			s := summarize(p)
			return fmt.Sprintf("%d/%d", s.ready, s.total)
		}),
		text("Status", "The aggregate status of the containers in this pod.", func(p *corev1.Pod) any {
			return summarize(p).reason
		}),
		text("Restarts", "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted.", func(p *corev1.Pod) any {
			s := summarize(p)
			if s.restarts.count != 0 && !s.restarts.last.IsZero() {
				return fmt.Sprintf("%d (%s ago)", s.restarts.count, since(s.restarts.last))
			}
			return strconv.Itoa(s.restarts.count)
		}),
		age(),
		wide(text("IP", status["podIP"], func(p *corev1.Pod) any {
			if p.Status.PodIP == "" && len(p.Status.PodIPs) > 0 {
				return or(p.Status.PodIPs[0].IP, none)
			}
			return or(p.Status.PodIP, none)
		})),
		wide(text("Node", spec["nodeName"], func(p *corev1.Pod) any { return or(p.Spec.NodeName, none) })),
		wide(text("Nominated Node", status["nominatedNodeName"], func(p *corev1.Pod) any { return or(p.Status.NominatedNodeName, none) })),
		wide(text("Readiness Gates", spec["readinessGates"], func(p *corev1.Pod) any {
			if len(p.Spec.ReadinessGates) == 0 {
				return none
			}
			open := 0
			for _, gate := range p.Spec.ReadinessGates {
				if c := podCondition(p, gate.ConditionType); c != nil && c.Status == corev1.ConditionTrue {
					open++
				}
			}
			return fmt.Sprintf("%d/%d", open, len(p.Spec.ReadinessGates))
		})),
	}
}

// podConditions marks the rows of pods that have ended, so that clients can hide them.
func podConditions(obj kind.Object) []metav1.TableRowCondition {
	ended := metav1.TableRowCondition{Type: metav1.RowCompleted, Status: metav1.ConditionTrue}
	switch phase := obj.(*corev1.Pod).Status.Phase; phase {
	case corev1.PodSucceeded:
		ended.Reason, ended.Message = string(phase), "The pod has completed successfully."
	case corev1.PodFailed:
		ended.Reason, ended.Message = string(phase), "The pod failed."
	default:
		return nil
	}
	return []metav1.TableRowCondition{ended}
}

// podCondition returns the first condition of a type, or nil.
func podCondition(p *corev1.Pod, conditionType corev1.PodConditionType) *corev1.PodCondition {
	i := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == conditionType })
	if i < 0 {
		return nil
	}
	return &p.Status.Conditions[i]
}

// podSummary sums up the containers of a pod.
type podSummary struct {
	ready, total int
	reason       string
	restarts     restarts
}

// restarts counts restarts.
type restarts struct {
	count int
	last  time.Time
}

func (r *restarts) add(c *corev1.ContainerStatus) {
	r.count += int(c.RestartCount)
	if ended := c.LastTerminationState.Terminated; ended != nil && r.last.Before(ended.FinishedAt.Time) {
		r.last = ended.FinishedAt.Time
	}
}

func summarize(p *corev1.Pod) podSummary {
	s := podSummary{total: len(p.Spec.Containers), reason: or(p.Status.Reason, string(p.Status.Phase))}
	if slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonSchedulingGated
	}) {
		s.reason = corev1.PodReasonSchedulingGated
	}
	if s.addInitContainers(p) {
		s.addContainers(p)
	}
	switch {
	case p.DeletionTimestamp == nil:
	case p.Status.Reason == "NodeLost":
		s.reason = "Unknown"
	case p.Status.Phase != corev1.PodFailed && p.Status.Phase != corev1.PodSucceeded:
		s.reason = "Terminating"
	}
	return s
}

// addInitContainers adds the init containers up to the first one that has not ended. It reports
// whether the containers run.
func (s *podSummary) addInitContainers(p *corev1.Pod) (initialized bool) {
	initialized = true
	sidecars := map[string]bool{} // they are restarted, and run beside the containers
	for _, c := range p.Spec.InitContainers {
		if sidecars[c.Name] = c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways; sidecars[c.Name] {
			s.total++
		}
	}
	var all, ofSidecars restarts
	for i := range p.Status.InitContainerStatuses {
		c := &p.Status.InitContainerStatuses[i]
		all.add(c)
		if sidecars[c.Name] {
			ofSidecars.add(c)
		}
		ended, waiting := c.State.Terminated, c.State.Waiting
		switch {
		case ended != nil && ended.ExitCode == 0:
			continue
		case sidecars[c.Name] && c.Started != nil && *c.Started:
			if c.Ready {
				s.ready++
			}
			continue
		case ended != nil:
			s.reason = "Init:" + endOf(ended)
		case waiting != nil && waiting.Reason != "" && waiting.Reason != "PodInitializing":
			s.reason = "Init:" + waiting.Reason
		default:
			s.reason = fmt.Sprintf("Init:%d/%d", i, len(p.Spec.InitContainers))
		}
		condition := podCondition(p, corev1.PodInitialized)
		initialized = condition != nil && condition.Status == corev1.ConditionTrue
		break
	}
	// The restarts of the other init containers count while they run.
	s.restarts = all
	if initialized {
		s.restarts = ofSidecars
	}
	return initialized
}

// addContainers adds the containers. The first one decides about the reason.
func (s *podSummary) addContainers(p *corev1.Pod) {
	running, failure := false, ""
	for i := len(p.Status.ContainerStatuses) - 1; i >= 0; i-- {
		c := &p.Status.ContainerStatuses[i]
		s.restarts.add(c)
		switch ended, waiting := c.State.Terminated, c.State.Waiting; {
		case waiting != nil && waiting.Reason != "":
			s.reason = waiting.Reason
		case ended != nil:
			s.reason = endOf(ended)
			if ended.ExitCode != 0 {
				failure = s.reason
			}
		case c.Ready && c.State.Running != nil:
			running = true
			s.ready++
		}
	}
	if s.reason != "Completed" {
		return
	}
	isReady := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
	switch {
	case running && isReady:
		s.reason = "Running"
	case failure != "":
		s.reason = failure
	case running:
		s.reason = "NotReady"
	}
}

// endOf returns why a container has ended.
func endOf(c *corev1.ContainerStateTerminated) string {
	switch {
	case c.Reason != "":
		return c.Reason
	case c.Signal != 0:
		return fmt.Sprintf("Signal:%d", c.Signal)
	}
	return fmt.Sprintf("ExitCode:%d", c.ExitCode)
}

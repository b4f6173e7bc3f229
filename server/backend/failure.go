package backend

import (
	"errors"
	"fmt"
	"net/http"
	"sync"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"espalier.dev/store"
)

// reasonFull is the reason of the Status if etcd is full. Kubernetes has no reason for it.
const reasonFull metav1.StatusReason = "InsufficientStorage"

// maxRequest is the default of etcd's --max-request-bytes.
const maxRequest = 1.5 * 1024 * 1024

// tooLargeError is the error for a client whose object is too large for etcd. k8s.io/apiserver
// recognizes it as such by the status that etcd's client returns, and then repeats the write
// without managed fields.
type tooLargeError struct{ *apierrors.StatusError }

// GRPCStatus returns the status of a request that etcd's client does not send.
func (tooLargeError) GRPCStatus() *status.Status {
	return status.New(codes.ResourceExhausted, "trying to send message larger than max")
}

// IsTooLarge reports whether an error of a write means that the object is too large for etcd.
func IsTooLarge(err error) bool {
	var large tooLargeError
	return errors.As(err, &large)
}

// Failure returns the error for the client if etcd has failed, and counts it: what is wrong,
// and what to do. It returns other errors as they are.
func Failure(err error) error {
	if full := (*store.FullError)(nil); errors.As(err, &full) {
		failures().WithLabelValues("full").Inc()
		return failed(http.StatusInsufficientStorage, reasonFull, 0,
			"the database of etcd is full: objects can be read and deleted, but not written. "+full.Advice+": "+full.Err.Error())
	}
	if large := (*store.TooLargeError)(nil); errors.As(err, &large) {
		return tooLargeError{apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
			"the object has %d bytes as stored, and etcd accepts %d by default (--max-request-bytes)", large.Size, int(maxRequest)))}
	}
	switch {
	case errors.Is(err, store.ErrClosed):
		return failed(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable,
			retrySeconds, "the server is shutting down: try again")
	case errors.Is(err, store.ErrReplaced):
		return failed(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, retrySeconds, err.Error())
	case status.Code(err) == codes.InvalidArgument: // kine cannot store all keys
		return apierrors.NewBadRequest(status.Convert(err).Message())
	}
	unavailable := (*store.UnavailableError)(nil)
	if !errors.As(err, &unavailable) {
		return err
	}
	failures().WithLabelValues("unavailable").Inc()
	if unavailable.Unknown {
		// Without Retry-After: clients would repeat a write that may have taken effect.
		return failed(http.StatusGatewayTimeout, metav1.StatusReasonTimeout, 0,
			"etcd does not answer, and the write may still take effect: read the object before you repeat the write. "+
				"Check that a majority of the etcd members runs and that the server can reach it: "+unavailable.Err.Error())
	}
	return failed(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, retrySeconds,
		"etcd does not answer: check that a majority of the etcd members runs and that the server can reach it. "+
			"Reads with resourceVersion=0 are answered from memory: "+unavailable.Err.Error())
}

// IsFull reports whether a write was rejected because etcd has no space left. The error is one of
// the store, or one that [Failure] has returned.
func IsFull(err error) bool {
	return errors.As(err, new(*store.FullError)) || errors.Is(err, rpctypes.ErrNoSpace) || apierrors.ReasonForError(err) == reasonFull
}

func failed(code int32, reason metav1.StatusReason, retry int32, message string) error {
	status := metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}
	if retry > 0 {
		status.Details = &metav1.StatusDetails{RetryAfterSeconds: retry}
	}
	return &apierrors.StatusError{ErrStatus: status}
}

// failures registers the metric on first use, because the registry is global. [New] uses it, so that every
// server has it.
var failures = sync.OnceValue(func() *metrics.CounterVec {
	c := metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "espalier_etcd_failures_total", StabilityLevel: metrics.ALPHA,
		Help: "Number of requests that failed because etcd did not answer (unavailable) or had no space left (full), by reason.",
	}, []string{"reason"})
	legacyregistry.MustRegister(c)
	for _, reason := range []string{"full", "unavailable"} {
		c.WithLabelValues(reason) // a series that begins with the first failure shows no increase
	}
	return c
})

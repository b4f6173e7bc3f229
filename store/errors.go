package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// answerTime is the longest time that a request waits for an answer of etcd.
	answerTime = 10 * time.Second
	// attemptTime is after which a read without an answer is repeated, because it may have
	// been sent to a member that cannot be reached.
	attemptTime = 2 * time.Second
)

// UnavailableError is returned when etcd does not answer: no member can be reached, or the
// members have no leader.
type UnavailableError struct {
	// Unknown is set if the request was a write that may still take effect.
	Unknown bool
	Err     error
}

func (e *UnavailableError) Error() string { return fmt.Sprintf("etcd does not answer: %v", e.Err) }

func (e *UnavailableError) Unwrap() error { return e.Err }

// FullError is returned for writes when etcd has no space left.
type FullError struct {
	// Advice is what to do, see [Config.Advice].
	Advice string
	Err    error
}

func (e *FullError) Error() string { return fmt.Sprintf("the database of etcd is full: %v", e.Err) }

func (e *FullError) Unwrap() error { return e.Err }

// TooLargeError is returned for a write that is larger than a request to etcd may be. The object
// was not written.
type TooLargeError struct {
	// Size is the size of the keys and values in bytes.
	Size int
	Err  error
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("a write of %d bytes is too large for etcd: %v", e.Size, e.Err)
}

func (e *TooLargeError) Unwrap() error { return e.Err }

// isTooLarge reports whether etcd, or its client, has rejected a request because of its size.
func isTooLarge(err error) bool {
	const inClient = "trying to send message larger than max"
	if errors.Is(err, rpctypes.ErrRequestTooLarge) {
		return true
	}
	s, ok := status.FromError(err)
	return ok && s.Code() == codes.ResourceExhausted && strings.Contains(s.Message(), inClient)
}

// writeFailure returns the error of a write with keys and values of a size.
func (s *Store) writeFailure(ctx context.Context, err error, size int) error {
	if isTooLarge(err) {
		return &TooLargeError{size, err}
	}
	return s.failure(ctx, err)
}

// limited limits the time for an answer of etcd. It leaves time to report a failure before
// ctx ends.
func limited(ctx context.Context) (context.Context, context.CancelFunc) {
	d := answerTime
	if deadline, ok := ctx.Deadline(); ok {
		d = min(d, time.Until(deadline)*3/4)
	}
	return context.WithTimeout(ctx, d)
}

// failure returns the error of a request whose context was ctx. If that has ended, its own
// error is the reason.
func failure(ctx context.Context, err error, write bool) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, rpctypes.ErrNoSpace):
		return &FullError{Err: err}
	case isUnavailable(err):
		return &UnavailableError{Unknown: write, Err: err}
	}
	return err
}

// failure returns the error of a write. One for lack of space has the advice of the
// configuration.
func (s *Store) failure(ctx context.Context, err error) error {
	err = failure(ctx, err, true)
	if full := (*FullError)(nil); errors.As(err, &full) && s.config.Advice != nil {
		full.Advice = s.config.Advice()
	}
	return err
}

// Full returns err as a [FullError] if etcd has rejected a write for lack of space.
func (s *Store) Full(ctx context.Context, err error) error {
	if errors.Is(err, rpctypes.ErrNoSpace) {
		return s.failure(ctx, err)
	}
	return err
}

// isUnavailable reports whether an error means that etcd cannot answer at the moment. Its
// errors have the code Unavailable then, for example those about a missing leader.
func isUnavailable(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	var etcd rpctypes.EtcdError
	if errors.As(err, &etcd) {
		return etcd.Code() == codes.Unavailable || etcd.Code() == codes.DeadlineExceeded
	}
	s, ok := status.FromError(err)
	return ok && (s.Code() == codes.Unavailable || s.Code() == codes.DeadlineExceeded)
}

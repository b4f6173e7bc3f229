package source

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/rest"
)

// Delays after a request has failed: the first, which doubles, and the longest. The first one counts
// again if requests have succeeded for steadyTime.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// Keeper keeps following the CRDs of a cluster, also if it is gone for a while.
type Keeper struct {
	// Cluster is the cluster. Its kubeconfig is read before each attempt: the credentials may be new.
	Cluster Cluster
	// Open is called before each attempt. It may change the configuration.
	Open func(*rest.Config)
	// Changed is called as by Follow.
	Changed func(Update)
	// Failed is called when an attempt has failed, with what was wrong.
	Failed func(error)
	// Again ends an attempt when it has an element: the CRDs are listed again. It may be nil.
	Again <-chan struct{}
}

// errAgain ends an attempt to list the CRDs again.
var errAgain = errors.New("the CRDs are listed again")

// Run follows the CRDs until the context ends.
func (k *Keeper) Run(ctx context.Context) {
	wait := firstRetry
	for {
		worked, err := k.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		if worked >= steadyTime {
			wait = firstRetry
		}
		if !errors.Is(err, errAgain) {
			k.Failed(err)
		}
		if sleep(ctx, wait) != nil {
			return
		}
		wait = min(2*wait, lastRetry)
	}
}

// follow follows the CRDs until that fails, and returns the time since the first answer. A panic is an
// error: the next attempt may succeed.
func (k *Keeper) follow(ctx context.Context) (worked time.Duration, err error) {
	var since time.Time
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
		if !since.IsZero() {
			worked = time.Since(since)
		}
	}()
	config, err := k.Cluster.Config()
	if err != nil {
		return 0, err
	}
	k.Open(config)
	following, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // ends with follow
		select {
		case <-k.Again:
			cancel(errAgain)
		case <-following.Done():
		}
	}()
	err = Follow(following, config, func(u Update) {
		if since.IsZero() {
			since = time.Now()
		}
		k.Changed(u)
	})
	if errors.Is(context.Cause(following), errAgain) {
		err = errAgain
	}
	return 0, err
}

package lsp

import (
	"fmt"
	"time"
)

// watchClient ends the session when the process of the client has ended. A client that is not
// found at first, because it is in another container, is not watched.
func (s *server) watchClient(pid *int) {
	if pid == nil || *pid <= 0 || !processExists(*pid) {
		return
	}
	s.spawn(func() {
		ticker := time.NewTicker(s.options.ClientPoll)
		defer ticker.Stop()
		for {
			select {
			case <-s.ctx.Done():
				return
			case <-ticker.C:
				if !processExists(*pid) {
					s.stop(fmt.Errorf("%w: its process %d has ended", ErrNoShutdown, *pid))
					return
				}
			}
		}
	})
}

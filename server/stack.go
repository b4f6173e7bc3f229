package server

import (
	"net/http"

	"k8s.io/apiserver/pkg/authentication/authenticator"
)

// stackFrame is the size of a stack frame that makes a new stack grow to 16 KB: enough for
// most requests, and the largest stack that the Go runtime keeps for reuse.
const stackFrame = 8 << 10

// withStack returns an authenticator that makes the stack of the goroutine large enough
// first. The timeout filter starts a goroutine for each request, and authentication is the
// first code of the server in it. A stack that grows later grows several times, and each time
// the frames of all filters are copied, which costs as much as the rest of a read.
func withStack(next authenticator.Request) authenticator.Request {
	return authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
		growStack()
		return next.AuthenticateRequest(req)
	})
}

//go:noinline
func growStack() byte {
	var frame [stackFrame]byte
	return last(&frame)
}

// last keeps the compiler from optimizing the frame away.
//
//go:noinline
func last(frame *[stackFrame]byte) byte { return frame[len(frame)-1] }

// Command controller is a controller for the kind Website, built with controller-runtime. It
// shows what a controller usually needs from an API server: a lease for leader election,
// watches, server-side apply, owner references, finalizers, status conditions and events.
//
// README.md says how to run it.
package main

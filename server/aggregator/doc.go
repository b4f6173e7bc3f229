// Package aggregator makes the API server one of several: groups and versions that API services
// assign to other servers are served by these, and clients see one API.
//
// [Aggregator.Run] follows the stored API services and keeps a table of them. A request for a group
// and version of another server is proxied to it; all others go on. Authentication, authorization,
// audit and limits are those of this server: they come before.
//
// What else is done depends on what is used. [Aggregator.RunControllers] waits for the first request
// for API services, or for one of another server. Then kube-aggregator's controllers start: one
// stores the API services of the server's own groups and of CRDs, and others write the conditions. They
// are clients of this server. Nothing else can tell whether these API services are stored before
// somebody asks, so a server on which nobody does starts as fast as without them, and writes nothing.
package aggregator

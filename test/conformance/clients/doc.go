// Package clients uses the server as controllers do: with the clients, informers and mappers
// of client-go, and with the typed clients for CRDs.
package clients

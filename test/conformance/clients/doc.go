// Package clients uses the server as controllers do: with the clients, informers and
// mappers of client-go, and with the typed clients for definitions.
package clients

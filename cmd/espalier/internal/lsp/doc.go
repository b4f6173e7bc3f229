// Package lsp is the protocol layer of a language server: it speaks the Language Server Protocol
// 3.17 with one client and calls a [Session], which knows what the documents mean.
//
// [Serve] owns the connection, the open documents and the lifecycle. Its goroutines are:
//
//   - the reader, which reads messages, applies changes of documents in the order of the client's
//     notifications, and starts requests with the documents of that moment;
//   - the writer, which sends messages, so that a client that does not read blocks nobody else;
//   - one for each running request, at most [Options].MaxRequests at a time;
//   - the scheduler of diagnostics and its run, at most one at a time;
//   - the watcher of the client's process.
//
// All of them end with the session, and the session ends with the connection, with the client's
// process, with the notification exit, and with the context.
//
// Positions of the protocol count UTF-16 code units unless the client and the server agree on
// something else. Only this package knows about it: a [Text] converts between byte offsets, lines
// and columns in code points, and positions.
package lsp

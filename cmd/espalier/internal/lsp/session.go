package lsp

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Session answers the requests of one client. [Serve] calls its methods as follows:
//
//   - Initialize first, and nothing else before it has returned without an error.
//   - Changed in the order of the client's notifications, one call at a time. A request that the
//     client has sent after a notification is started after Changed has returned.
//   - Diagnose at most once at a time.
//   - All other methods concurrently, also with Changed and Diagnose.
//   - Close last, once, when all other methods have returned, or have not returned in time after
//     their contexts were canceled. It is not called if newSession was not.
//
// Requests get the documents as they were when the client sent the request; later changes do not
// affect them. Their context ends if the client cancels the request, and with the session. What a
// method returns after that is ignored. An error that is an [*Error] has its own code.
// A method that panics fails its request only.
//
// Offsets are byte offsets in a Text, which converts them to positions and ranges. Results may be
// nil if there are none.
type Session interface {
	// Initialize prepares the session. It must return soon: reading files belongs into Changed or
	// Initialized.
	Initialize(ctx context.Context, params *InitializeParams) (*Features, error)
	// Initialized is called when the client accepts requests. It may run as long as the session.
	Initialized(ctx context.Context)
	// Changed is told what has changed, and the documents after the change. It must return soon,
	// since no message is read meanwhile. Diagnose follows.
	Changed(docs *Documents, change Change)

	// Diagnose calls publish with the diagnostics of each document and file that it has examined,
	// in any order and as soon as they are known. Files need not be open. After a run that returns
	// nil, diagnostics of earlier runs for other URIs are removed; if it returns an error, they
	// stay, except for those of closed documents. The context ends when the documents have
	// changed again. Calls of publish after that have no effect.
	Diagnose(ctx context.Context, docs *Documents, publish func(URI, []Diagnostic)) error

	Completion(ctx context.Context, docs *Documents, text *Text, offset int, how CompletionContext) (*CompletionList, error)
	Hover(ctx context.Context, docs *Documents, text *Text, offset int) (*Hover, error)
	Definition(ctx context.Context, docs *Documents, text *Text, offset int) ([]Location, error)
	References(ctx context.Context, docs *Documents, text *Text, offset int, declaration bool) ([]Location, error)
	// CodeActions returns actions for the text between start and end. The context's diagnostics may
	// be of another server, or of an earlier version.
	CodeActions(ctx context.Context, docs *Documents, text *Text, start, end int, request *CodeActionContext) ([]CodeAction, error)
	CodeLenses(ctx context.Context, docs *Documents, text *Text) ([]CodeLens, error)

	// Close releases what the session holds.
	Close()
}

// CompletionResolver is implemented by a [Session] that completes items when the client shows them.
type CompletionResolver interface {
	ResolveCompletion(ctx context.Context, docs *Documents, item *CompletionItem) (*CompletionItem, error)
}

// CodeLensResolver is implemented by a [Session] that completes code lenses when the client shows
// them.
type CodeLensResolver interface {
	ResolveCodeLens(ctx context.Context, docs *Documents, lens *CodeLens) (*CodeLens, error)
}

// CommandExecutor is implemented by a [Session] that has commands of its own, which are listed in
// [Features].
type CommandExecutor interface {
	ExecuteCommand(ctx context.Context, docs *Documents, command string, arguments []json.RawMessage) (any, error)
}

// Features describe a session to the client.
type Features struct {
	Name, Version string
	// CompletionTriggers are the characters besides letters that make clients ask for completion.
	CompletionTriggers []string
	CodeActionKinds    []CodeActionKind
	// Commands are the names of the commands for ExecuteCommand.
	Commands []string
	// Watch lists glob patterns of files whose changes the session wants to know about. Clients
	// that cannot register watchers tell about what they watch by themselves.
	Watch []string
	// WatchDeleted lists those whose deletion is enough to know. They may match directories.
	WatchDeleted []string
}

// Change describes what has changed in the client.
type Change struct {
	// Opened and Edited are documents of which the session gets the text.
	Opened, Edited *Text
	// Closed is the URI of a document that is no longer open: what is on disk counts.
	Closed URI
	// Saved is a document that is on disk now.
	Saved *Text
	// Files have changed on disk. They may be open too, and may be gone.
	Files []FileEvent
	// AddedFolders and RemovedFolders have changed in the workspace.
	AddedFolders, RemovedFolders []WorkspaceFolder
	// Settings are the settings of the client. Many clients send null and expect the server to
	// ask with [Client.Configuration].
	Settings json.RawMessage
	// SettingsChanged is set if the client has announced changed settings.
	SettingsChanged bool
}

// Documents are the open documents at one moment. They never change.
type Documents struct {
	texts map[URI]*Text
}

// Get returns an open document, or nil.
func (d *Documents) Get(uri URI) *Text { return d.texts[uri] }

// ByPath returns the open document with the path of a file, or nil.
func (d *Documents) ByPath(path string) *Text {
	if t := d.texts[FileURI(path)]; t != nil {
		return t
	}
	for uri, t := range d.texts {
		if p, ok := uri.Path(); ok && p == path {
			return t
		}
	}
	return nil
}

// All returns the open documents in the order of their URIs.
func (d *Documents) All() []*Text {
	return slices.SortedFunc(maps.Values(d.texts), func(a, b *Text) int { return strings.Compare(string(a.uri), string(b.uri)) })
}

// with returns the documents with another text.
func (d *Documents) with(t *Text) *Documents {
	texts := maps.Clone(d.texts)
	if texts == nil {
		texts = map[URI]*Text{}
	}
	texts[t.uri] = t
	return &Documents{texts}
}

// without returns the documents without one.
func (d *Documents) without(uri URI) *Documents {
	texts := maps.Clone(d.texts)
	delete(texts, uri)
	return &Documents{texts}
}

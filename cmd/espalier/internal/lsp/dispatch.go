package lsp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/sourcegraph/jsonrpc2"
)

// method answers a request.
type method func(ctx context.Context, docs *Documents, params json.RawMessage) (any, error)

// unmarshal decodes parameters.
func unmarshal(params json.RawMessage, v any) error {
	if len(params) == 0 {
		params = json.RawMessage("{}")
	}
	if err := json.Unmarshal(params, v); err != nil {
		return Errorf(jsonrpc2.CodeInvalidParams, "invalid parameters: %v", err)
	}
	return nil
}

// decoded returns a method whose parameters are of type P.
func decoded[P any](f func(ctx context.Context, docs *Documents, params *P) (any, error)) method {
	return func(ctx context.Context, docs *Documents, params json.RawMessage) (any, error) {
		var p P
		if err := unmarshal(params, &p); err != nil {
			return nil, err
		}
		return f(ctx, docs, &p)
	}
}

// sessionMethods returns the requests that the session supports. Requests about a document that is
// not open, or too large, have the result null.
func (s *server) sessionMethods() map[string]method {
	methods := map[string]method{
		"textDocument/completion": decoded(func(ctx context.Context, docs *Documents, p *CompletionParams) (any, error) {
			text := docs.Get(p.TextDocument.URI)
			if text == nil {
				return nil, nil
			}
			how := CompletionContext{TriggerKind: CompletionInvoked}
			if p.Context != nil {
				how = *p.Context
			}
			list, err := s.session.Completion(ctx, docs, text, text.Offset(p.Position), how)
			if list != nil && list.Items == nil {
				list.Items = []CompletionItem{}
			}
			return list, err
		}),
		"textDocument/hover": decoded(func(ctx context.Context, docs *Documents, p *TextDocumentPositionParams) (any, error) {
			text := docs.Get(p.TextDocument.URI)
			if text == nil {
				return nil, nil
			}
			return s.session.Hover(ctx, docs, text, text.Offset(p.Position))
		}),
		"textDocument/definition": decoded(func(ctx context.Context, docs *Documents, p *TextDocumentPositionParams) (any, error) {
			text := docs.Get(p.TextDocument.URI)
			if text == nil {
				return nil, nil
			}
			return s.session.Definition(ctx, docs, text, text.Offset(p.Position))
		}),
		"textDocument/references": decoded(func(ctx context.Context, docs *Documents, p *ReferenceParams) (any, error) {
			text := docs.Get(p.TextDocument.URI)
			if text == nil {
				return nil, nil
			}
			return s.session.References(ctx, docs, text, text.Offset(p.Position), p.Context.IncludeDeclaration)
		}),
		"textDocument/codeAction": decoded(func(ctx context.Context, docs *Documents, p *CodeActionParams) (any, error) {
			text := docs.Get(p.TextDocument.URI)
			if text == nil {
				return nil, nil
			}
			start, end := text.Offsets(p.Range)
			return s.session.CodeActions(ctx, docs, text, start, end, &p.Context)
		}),
		"textDocument/codeLens": decoded(func(ctx context.Context, docs *Documents, p *CodeLensParams) (any, error) {
			text := docs.Get(p.TextDocument.URI)
			if text == nil {
				return nil, nil
			}
			return s.session.CodeLenses(ctx, docs, text)
		}),
		"textDocument/documentSymbol": decoded(func(ctx context.Context, docs *Documents, p *DocumentSymbolParams) (any, error) {
			text := docs.Get(p.TextDocument.URI)
			if text == nil {
				return nil, nil
			}
			symbols := Symbols(ctx, text)
			if !s.client.Capabilities().TextDocument.DocumentSymbol.HierarchicalDocumentSymbolSupport {
				return flat(text.URI(), symbols), nil
			}
			return symbols, nil
		}),
		"textDocument/foldingRange": decoded(func(ctx context.Context, docs *Documents, p *FoldingRangeParams) (any, error) {
			text := docs.Get(p.TextDocument.URI)
			if text == nil {
				return nil, nil
			}
			return FoldingRanges(ctx, text, s.client.Capabilities().TextDocument.FoldingRange.RangeLimit), nil
		}),
	}
	if r, ok := s.session.(CompletionResolver); ok {
		methods["completionItem/resolve"] = decoded(func(ctx context.Context, docs *Documents, item *CompletionItem) (any, error) {
			return r.ResolveCompletion(ctx, docs, item)
		})
	}
	if r, ok := s.session.(CodeLensResolver); ok {
		methods["codeLens/resolve"] = decoded(func(ctx context.Context, docs *Documents, lens *CodeLens) (any, error) {
			return r.ResolveCodeLens(ctx, docs, lens)
		})
	}
	if e, ok := s.session.(CommandExecutor); ok {
		methods["workspace/executeCommand"] = decoded(func(ctx context.Context, docs *Documents, p *ExecuteCommandParams) (any, error) {
			return e.ExecuteCommand(ctx, docs, p.Command, p.Arguments)
		})
	}
	return methods
}

// capabilities returns the capabilities of a server with this session.
func (s *server) capabilities(f *Features) ServerCapabilities {
	_, resolvesItems := s.session.(CompletionResolver)
	_, resolvesLenses := s.session.(CodeLensResolver)
	c := ServerCapabilities{
		PositionEncoding:       s.client.encoding,
		TextDocumentSync:       &TextDocumentSyncOptions{OpenClose: true, Change: SyncIncremental, Save: &SaveOptions{}},
		CompletionProvider:     &CompletionOptions{TriggerCharacters: f.CompletionTriggers, ResolveProvider: resolvesItems},
		HoverProvider:          true,
		DefinitionProvider:     true,
		ReferencesProvider:     true,
		DocumentSymbolProvider: true,
		FoldingRangeProvider:   true,
		CodeActionProvider:     &CodeActionOptions{CodeActionKinds: f.CodeActionKinds},
		CodeLensProvider:       &ResolveOptions{ResolveProvider: resolvesLenses},
		Workspace: &WorkspaceCapabilities{
			WorkspaceFolders: &WorkspaceFoldersOptions{Supported: true, ChangeNotifications: true},
		},
	}
	if _, ok := s.session.(CommandExecutor); ok && len(f.Commands) > 0 {
		c.ExecuteCommandProvider = &ExecuteCommandOptions{Commands: f.Commands}
	}
	return c
}

// notified handles a notification. The reader calls it. Unknown notifications are ignored, as the
// protocol demands of those that start with $/, and others are none of this server.
func (s *server) notified(name string, params json.RawMessage) {
	if name == "exit" {
		if s.state == shutDown {
			s.stop(errDone)
		} else {
			s.stop(ErrNoShutdown)
		}
		// Nothing follows. The reader must not wait for it.
		s.stream.end(io.EOF)
		return
	}
	if s.state != running {
		return
	}
	var err error
	switch name {
	case "initialized":
		s.spawn(func() { s.recovered("initialized", s.initialized) })
	case "$/cancelRequest":
		var p struct {
			ID jsonrpc2.ID `json:"id"`
		}
		if err = unmarshal(params, &p); err == nil {
			s.cancelRequest(p.ID)
		}
	case "textDocument/didOpen":
		err = notification(params, s.opened)
	case "textDocument/didChange":
		err = notification(params, s.edited)
	case "textDocument/didSave":
		err = notification(params, func(p *DidSaveParams) {
			if text := s.docs.Get(p.TextDocument.URI); text != nil {
				s.changed(Change{Saved: text})
			}
		})
	case "textDocument/didClose":
		err = notification(params, s.closed)
	case "workspace/didChangeWatchedFiles":
		err = notification(params, func(p *DidChangeWatchedFilesParams) {
			if len(p.Changes) > 0 {
				s.changed(Change{Files: p.Changes})
			}
		})
	case "workspace/didChangeWorkspaceFolders":
		err = notification(params, func(p *DidChangeWorkspaceFoldersParams) {
			s.changed(Change{AddedFolders: p.Event.Added, RemovedFolders: p.Event.Removed})
		})
	case "workspace/didChangeConfiguration":
		err = notification(params, func(p *DidChangeConfigurationParams) {
			s.changed(Change{Settings: p.Settings, SettingsChanged: true})
		})
	}
	if err != nil {
		s.client.LogMessage(MessageError, fmt.Sprintf("%s: %v", name, err))
	}
}

// notification decodes parameters and calls f.
func notification[P any](params json.RawMessage, f func(*P)) error {
	var p P
	if err := unmarshal(params, &p); err != nil {
		return err
	}
	f(&p)
	return nil
}

// initialized registers watchers of files and tells the session that the client is ready.
func (s *server) initialized() {
	if len(s.client.watch) > 0 && s.client.Capabilities().Workspace.DidChangeWatchedFiles.DynamicRegistration {
		var o WatchedFilesOptions
		for _, pattern := range s.client.watch {
			o.Watchers = append(o.Watchers, FileSystemWatcher{GlobPattern: pattern})
		}
		for _, pattern := range s.client.watchDeleted {
			o.Watchers = append(o.Watchers, FileSystemWatcher{GlobPattern: pattern, Kind: WatchDelete})
		}
		err := s.client.RegisterCapability(s.ctx, Registration{
			ID: "espalier-files", Method: "workspace/didChangeWatchedFiles", RegisterOptions: o,
		})
		if err != nil && s.ctx.Err() == nil {
			s.client.LogMessage(MessageWarning, fmt.Sprintf("watching files: %v", err))
		}
	}
	s.session.Initialized(s.ctx)
}

// opened adds a document.
func (s *server) opened(p *DidOpenParams) {
	d := &p.TextDocument
	if len(d.Text) > s.options.MaxDocument {
		s.reject(d.URI, len(d.Text))
		return
	}
	delete(s.rejected, d.URI)
	text := NewText(d.URI, d.Version, d.LanguageID, []byte(d.Text), s.client.encoding)
	s.docs = s.docs.with(text)
	s.changed(Change{Opened: text})
}

// edited changes a document.
func (s *server) edited(p *DidChangeParams) {
	uri := p.TextDocument.URI
	old := s.docs.Get(uri)
	switch {
	case s.rejected[uri]:
		return
	case old == nil:
		s.client.LogMessage(MessageWarning, fmt.Sprintf("%s was changed, but is not open", uri))
		return
	}
	text := old.Apply(p.TextDocument.Version, p.ContentChanges)
	if n := len(text.Bytes()); n > s.options.MaxDocument {
		s.reject(uri, n)
		return
	}
	s.docs = s.docs.with(text)
	s.changed(Change{Edited: text})
}

// closed removes a document.
func (s *server) closed(p *DidCloseParams) {
	uri := p.TextDocument.URI
	delete(s.rejected, uri)
	if s.docs.Get(uri) == nil {
		return
	}
	s.docs = s.docs.without(uri)
	s.changed(Change{Closed: uri})
}

// reject removes a document that is too large, and tells the user once.
func (s *server) reject(uri URI, size int) {
	s.rejected[uri] = true
	name := string(uri)
	if path, ok := uri.Path(); ok {
		name = path
	}
	s.client.ShowMessage(MessageWarning, fmt.Sprintf("%s is not checked: it has %d MiB, and at most %d MiB are supported",
		name, size>>20, s.options.MaxDocument>>20))
	if s.docs.Get(uri) != nil {
		s.docs = s.docs.without(uri)
		s.changed(Change{Closed: uri})
	}
}

// changed tells the session about a change, and schedules diagnostics.
func (s *server) changed(c Change) {
	defer s.diag.kick(s.docs, c.Closed)
	s.session.Changed(s.docs, c)
}

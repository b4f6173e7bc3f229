package lsp

import "encoding/json"

// The error codes of the protocol, beside those of JSON-RPC.
const (
	CodeServerNotInitialized = -32002
	CodeRequestFailed        = -32803
	CodeServerCancelled      = -32802
	CodeContentModified      = -32801
	CodeRequestCancelled     = -32800
)

// URI is the URI of a document, as the client writes it.
type URI string

// Encoding is the unit in which positions count characters of a line.
type Encoding string

// The encodings of positions. UTF16 is the default, which all clients support.
const (
	UTF8  Encoding = "utf-8"
	UTF16 Encoding = "utf-16"
	UTF32 Encoding = "utf-32"
)

// Position is a position between two characters. Both numbers count from 0.
type Position struct {
	Line      int `json:"line"`
	Character int `json:"character"`
}

// Range is a range of text. The end is exclusive.
type Range struct {
	Start Position `json:"start"`
	End   Position `json:"end"`
}

// Location is a range of a document.
type Location struct {
	URI   URI   `json:"uri"`
	Range Range `json:"range"`
}

// TextEdit replaces a range of a document.
type TextEdit struct {
	Range   Range  `json:"range"`
	NewText string `json:"newText"`
}

// TextDocumentIdentifier names a document.
type TextDocumentIdentifier struct {
	URI URI `json:"uri"`
}

// VersionedTextDocumentIdentifier names a version of a document.
type VersionedTextDocumentIdentifier struct {
	URI     URI `json:"uri"`
	Version int `json:"version"`
}

// OptionalVersionedTextDocumentIdentifier names a document and the version that edits are made
// for, or null if the document is not open.
type OptionalVersionedTextDocumentIdentifier struct {
	URI     URI  `json:"uri"`
	Version *int `json:"version"`
}

// TextDocumentItem is a document with its text.
type TextDocumentItem struct {
	URI        URI    `json:"uri"`
	LanguageID string `json:"languageId"`
	Version    int    `json:"version"`
	Text       string `json:"text"`
}

// TextDocumentPositionParams are a document and a position in it.
type TextDocumentPositionParams struct {
	TextDocument TextDocumentIdentifier `json:"textDocument"`
	Position     Position               `json:"position"`
}

// WorkspaceFolder is a directory that the client has opened.
type WorkspaceFolder struct {
	URI  URI    `json:"uri"`
	Name string `json:"name"`
}

// InitializeParams are the parameters of initialize.
type InitializeParams struct {
	ProcessID             *int               `json:"processId"`
	ClientInfo            *ClientInfo        `json:"clientInfo,omitempty"`
	Locale                string             `json:"locale,omitempty"`
	RootPath              *string            `json:"rootPath,omitempty"`
	RootURI               *URI               `json:"rootUri"`
	InitializationOptions json.RawMessage    `json:"initializationOptions,omitempty"`
	Capabilities          ClientCapabilities `json:"capabilities"`
	Trace                 string             `json:"trace,omitempty"`
	WorkspaceFolders      []WorkspaceFolder  `json:"workspaceFolders"`
}

// Folders returns the directories that the client has opened: its workspace folders, or the root
// of clients that know no folders.
func (p *InitializeParams) Folders() []WorkspaceFolder {
	switch {
	case len(p.WorkspaceFolders) > 0:
		return p.WorkspaceFolders
	case p.RootURI != nil && *p.RootURI != "":
		return []WorkspaceFolder{{URI: *p.RootURI}}
	case p.RootPath != nil && *p.RootPath != "":
		return []WorkspaceFolder{{URI: FileURI(*p.RootPath)}}
	}
	return nil
}

// ClientInfo is the name and version of the client.
type ClientInfo struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
}

// ClientCapabilities are the parts of a client's capabilities that matter to this server.
type ClientCapabilities struct {
	General struct {
		PositionEncodings []Encoding `json:"positionEncodings,omitempty"`
	} `json:"general"`
	Workspace struct {
		ApplyEdit              bool              `json:"applyEdit,omitempty"`
		WorkspaceFolders       bool              `json:"workspaceFolders,omitempty"`
		Configuration          bool              `json:"configuration,omitempty"`
		DidChangeConfiguration DynamicCapability `json:"didChangeConfiguration"`
		DidChangeWatchedFiles  struct {
			DynamicRegistration    bool `json:"dynamicRegistration,omitempty"`
			RelativePatternSupport bool `json:"relativePatternSupport,omitempty"`
		} `json:"didChangeWatchedFiles"`
		WorkspaceEdit struct {
			DocumentChanges    bool     `json:"documentChanges,omitempty"`
			ResourceOperations []string `json:"resourceOperations,omitempty"`
		} `json:"workspaceEdit"`
		CodeLens    RefreshCapability `json:"codeLens"`
		Diagnostics RefreshCapability `json:"diagnostics"`
	} `json:"workspace"`
	TextDocument struct {
		Completion struct {
			ContextSupport bool `json:"contextSupport,omitempty"`
			CompletionItem struct {
				SnippetSupport          bool     `json:"snippetSupport,omitempty"`
				DocumentationFormat     []string `json:"documentationFormat,omitempty"`
				InsertReplaceSupport    bool     `json:"insertReplaceSupport,omitempty"`
				DeprecatedSupport       bool     `json:"deprecatedSupport,omitempty"`
				LabelDetailsSupport     bool     `json:"labelDetailsSupport,omitempty"`
				InsertTextModeSupport   ValueSet `json:"insertTextModeSupport"`
				TagSupport              ValueSet `json:"tagSupport"`
				CommitCharactersSupport bool     `json:"commitCharactersSupport,omitempty"`
			} `json:"completionItem"`
		} `json:"completion"`
		Hover struct {
			ContentFormat []string `json:"contentFormat,omitempty"`
		} `json:"hover"`
		CodeAction struct {
			CodeActionLiteralSupport *struct{} `json:"codeActionLiteralSupport,omitempty"`
			IsPreferredSupport       bool      `json:"isPreferredSupport,omitempty"`
			DataSupport              bool      `json:"dataSupport,omitempty"`
		} `json:"codeAction"`
		DocumentSymbol struct {
			HierarchicalDocumentSymbolSupport bool `json:"hierarchicalDocumentSymbolSupport,omitempty"`
		} `json:"documentSymbol"`
		FoldingRange struct {
			RangeLimit      int  `json:"rangeLimit,omitempty"`
			LineFoldingOnly bool `json:"lineFoldingOnly,omitempty"`
		} `json:"foldingRange"`
		PublishDiagnostics struct {
			RelatedInformation     bool     `json:"relatedInformation,omitempty"`
			VersionSupport         bool     `json:"versionSupport,omitempty"`
			CodeDescriptionSupport bool     `json:"codeDescriptionSupport,omitempty"`
			DataSupport            bool     `json:"dataSupport,omitempty"`
			TagSupport             ValueSet `json:"tagSupport"`
		} `json:"publishDiagnostics"`
	} `json:"textDocument"`
	Window struct {
		WorkDoneProgress bool `json:"workDoneProgress,omitempty"`
		ShowDocument     struct {
			Support bool `json:"support,omitempty"`
		} `json:"showDocument"`
	} `json:"window"`
}

// DynamicCapability reports whether a client supports dynamic registration of a method.
type DynamicCapability struct {
	DynamicRegistration bool `json:"dynamicRegistration,omitempty"`
}

// RefreshCapability reports whether a server may ask a client to request something again.
type RefreshCapability struct {
	RefreshSupport bool `json:"refreshSupport,omitempty"`
}

// ValueSet lists the values of an enumeration that a client supports. Very old clients send a
// boolean instead, which is read as an empty set.
type ValueSet struct {
	Values []int
}

// UnmarshalJSON implements json.Unmarshaler.
func (v *ValueSet) UnmarshalJSON(data []byte) error {
	var set struct {
		ValueSet []int `json:"valueSet"`
	}
	if err := json.Unmarshal(data, &set); err != nil {
		*v = ValueSet{}
		return nil //nolint:nilerr // a capability in another form is none
	}
	v.Values = set.ValueSet
	return nil
}

// InitializeResult is the result of initialize.
type InitializeResult struct {
	Capabilities ServerCapabilities `json:"capabilities"`
	ServerInfo   *ServerInfo        `json:"serverInfo,omitempty"`
}

// ServerInfo is the name and version of the server.
type ServerInfo struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
}

// ServerCapabilities are what this server offers to a client.
type ServerCapabilities struct {
	PositionEncoding       Encoding                 `json:"positionEncoding,omitempty"`
	TextDocumentSync       *TextDocumentSyncOptions `json:"textDocumentSync,omitempty"`
	CompletionProvider     *CompletionOptions       `json:"completionProvider,omitempty"`
	HoverProvider          bool                     `json:"hoverProvider,omitempty"`
	DefinitionProvider     bool                     `json:"definitionProvider,omitempty"`
	ReferencesProvider     bool                     `json:"referencesProvider,omitempty"`
	DocumentSymbolProvider bool                     `json:"documentSymbolProvider,omitempty"`
	FoldingRangeProvider   bool                     `json:"foldingRangeProvider,omitempty"`
	CodeActionProvider     *CodeActionOptions       `json:"codeActionProvider,omitempty"`
	CodeLensProvider       *ResolveOptions          `json:"codeLensProvider,omitempty"`
	ExecuteCommandProvider *ExecuteCommandOptions   `json:"executeCommandProvider,omitempty"`
	Workspace              *WorkspaceCapabilities   `json:"workspace,omitempty"`
}

// SyncIncremental is the kind of synchronization in which a client sends changed ranges.
const SyncIncremental = 2

// TextDocumentSyncOptions describe how documents are synchronized.
type TextDocumentSyncOptions struct {
	OpenClose bool         `json:"openClose"`
	Change    int          `json:"change"`
	Save      *SaveOptions `json:"save,omitempty"`
}

// SaveOptions describe the notification of saved documents.
type SaveOptions struct {
	IncludeText bool `json:"includeText"`
}

// CompletionOptions describe completion.
type CompletionOptions struct {
	TriggerCharacters []string `json:"triggerCharacters,omitempty"`
	ResolveProvider   bool     `json:"resolveProvider,omitempty"`
}

// CodeActionOptions describe code actions.
type CodeActionOptions struct {
	CodeActionKinds []CodeActionKind `json:"codeActionKinds,omitempty"`
}

// ResolveOptions report whether items are resolved in a second request.
type ResolveOptions struct {
	ResolveProvider bool `json:"resolveProvider,omitempty"`
}

// ExecuteCommandOptions list the commands of the server.
type ExecuteCommandOptions struct {
	Commands []string `json:"commands"`
}

// WorkspaceCapabilities describe the folders of a workspace.
type WorkspaceCapabilities struct {
	WorkspaceFolders *WorkspaceFoldersOptions `json:"workspaceFolders,omitempty"`
}

// WorkspaceFoldersOptions describe the support of several folders and of their notifications.
type WorkspaceFoldersOptions struct {
	Supported           bool `json:"supported"`
	ChangeNotifications bool `json:"changeNotifications"`
}

// DidOpenParams are the parameters of textDocument/didOpen.
type DidOpenParams struct {
	TextDocument TextDocumentItem `json:"textDocument"`
}

// DidChangeParams are the parameters of textDocument/didChange.
type DidChangeParams struct {
	TextDocument   VersionedTextDocumentIdentifier `json:"textDocument"`
	ContentChanges []ContentChange                 `json:"contentChanges"`
}

// ContentChange replaces a range of a document, or its text if there is no range.
type ContentChange struct {
	Range *Range `json:"range,omitempty"`
	Text  string `json:"text"`
}

// DidSaveParams are the parameters of textDocument/didSave.
type DidSaveParams struct {
	TextDocument TextDocumentIdentifier `json:"textDocument"`
}

// DidCloseParams are the parameters of textDocument/didClose.
type DidCloseParams struct {
	TextDocument TextDocumentIdentifier `json:"textDocument"`
}

// DidChangeWatchedFilesParams are the parameters of workspace/didChangeWatchedFiles.
type DidChangeWatchedFilesParams struct {
	Changes []FileEvent `json:"changes"`
}

// The types of a FileEvent.
const (
	FileCreated = 1
	FileChanged = 2
	FileDeleted = 3
)

// FileEvent is a change of a file on disk.
type FileEvent struct {
	URI  URI `json:"uri"`
	Type int `json:"type"`
}

// DidChangeWorkspaceFoldersParams are the parameters of workspace/didChangeWorkspaceFolders.
type DidChangeWorkspaceFoldersParams struct {
	Event struct {
		Added   []WorkspaceFolder `json:"added"`
		Removed []WorkspaceFolder `json:"removed"`
	} `json:"event"`
}

// DidChangeConfigurationParams are the parameters of workspace/didChangeConfiguration.
type DidChangeConfigurationParams struct {
	Settings json.RawMessage `json:"settings"`
}

// Registration registers a method with a client.
type Registration struct {
	ID              string `json:"id"`
	Method          string `json:"method"`
	RegisterOptions any    `json:"registerOptions,omitempty"`
}

// RegistrationParams are the parameters of client/registerCapability.
type RegistrationParams struct {
	Registrations []Registration `json:"registrations"`
}

// Unregistration removes a registration.
type Unregistration struct {
	ID     string `json:"id"`
	Method string `json:"method"`
}

// UnregistrationParams are the parameters of client/unregisterCapability. The name of the field is
// the protocol's.
type UnregistrationParams struct {
	Unregistrations []Unregistration `json:"unregisterations"`
}

// WatchedFilesOptions are the options of a registration of workspace/didChangeWatchedFiles.
type WatchedFilesOptions struct {
	Watchers []FileSystemWatcher `json:"watchers"`
}

// FileSystemWatcher names files to watch. GlobPattern is relative to the workspace folders.
type FileSystemWatcher struct {
	GlobPattern string `json:"globPattern"`
	// Kind is the sum of the kinds of events, and all of them if it is 0.
	Kind WatchKind `json:"kind,omitempty"`
}

// WatchKind is a kind of events.
type WatchKind int

// WatchDelete selects deleted files and directories.
const WatchDelete WatchKind = 4

// ConfigurationParams are the parameters of workspace/configuration.
type ConfigurationParams struct {
	Items []ConfigurationItem `json:"items"`
}

// ConfigurationItem names a section of a client's settings.
type ConfigurationItem struct {
	ScopeURI URI    `json:"scopeUri,omitempty"`
	Section  string `json:"section,omitempty"`
}

// MessageType is the severity of a message to the user.
type MessageType int

// The severities of messages.
const (
	MessageError   MessageType = 1
	MessageWarning MessageType = 2
	MessageInfo    MessageType = 3
	MessageLog     MessageType = 4
)

// MessageParams are the parameters of window/logMessage and window/showMessage.
type MessageParams struct {
	Type    MessageType `json:"type"`
	Message string      `json:"message"`
}

// ProgressParams are the parameters of $/progress.
type ProgressParams struct {
	Token string `json:"token"`
	Value any    `json:"value"`
}

// ProgressValue is the state of a work in progress.
type ProgressValue struct {
	// Kind is begin, report or end.
	Kind    string `json:"kind"`
	Title   string `json:"title,omitempty"`
	Message string `json:"message,omitempty"`
	// Percentage is at most 100. All values of a work have one, or none.
	Percentage *int `json:"percentage,omitempty"`
}

// ApplyEditParams are the parameters of workspace/applyEdit.
type ApplyEditParams struct {
	Label string        `json:"label,omitempty"`
	Edit  WorkspaceEdit `json:"edit"`
}

// ApplyEditResult is the result of workspace/applyEdit.
type ApplyEditResult struct {
	Applied       bool   `json:"applied"`
	FailureReason string `json:"failureReason,omitempty"`
}

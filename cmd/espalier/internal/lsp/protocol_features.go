package lsp

import "encoding/json"

// DiagnosticSeverity is the severity of a diagnostic.
type DiagnosticSeverity int

// The severities of diagnostics.
const (
	SeverityError       DiagnosticSeverity = 1
	SeverityWarning     DiagnosticSeverity = 2
	SeverityInformation DiagnosticSeverity = 3
	SeverityHint        DiagnosticSeverity = 4
)

// DiagnosticTag is something that clients show besides the severity.
type DiagnosticTag int

// The tags of diagnostics: clients show unnecessary text faded, and deprecated text struck out.
const (
	TagUnnecessary DiagnosticTag = 1
	TagDeprecated  DiagnosticTag = 2
)

// Diagnostic is a finding in a document.
type Diagnostic struct {
	Range              Range                          `json:"range"`
	Severity           DiagnosticSeverity             `json:"severity,omitempty"`
	Code               string                         `json:"code,omitempty"`
	CodeDescription    *CodeDescription               `json:"codeDescription,omitempty"`
	Source             string                         `json:"source,omitempty"`
	Message            string                         `json:"message"`
	Tags               []DiagnosticTag                `json:"tags,omitempty"`
	RelatedInformation []DiagnosticRelatedInformation `json:"relatedInformation,omitempty"`
	// Data is returned by clients with the request for code actions.
	Data json.RawMessage `json:"data,omitempty"`
}

// UnmarshalJSON implements json.Unmarshaler. Code actions are requested with the diagnostics of
// all servers, whose codes may be numbers.
func (d *Diagnostic) UnmarshalJSON(data []byte) error {
	type plain Diagnostic
	lenient := struct {
		*plain
		Code json.RawMessage `json:"code"`
	}{plain: (*plain)(d)}
	if err := json.Unmarshal(data, &lenient); err != nil {
		return err
	}
	d.Code = ""
	if len(lenient.Code) > 0 && json.Unmarshal(lenient.Code, &d.Code) != nil {
		d.Code = string(lenient.Code)
	}
	return nil
}

// CodeDescription is the page that describes the code of a diagnostic.
type CodeDescription struct {
	Href URI `json:"href"`
}

// DiagnosticRelatedInformation is a location that helps to understand a diagnostic.
type DiagnosticRelatedInformation struct {
	Location Location `json:"location"`
	Message  string   `json:"message"`
}

// PublishDiagnosticsParams are the parameters of textDocument/publishDiagnostics.
type PublishDiagnosticsParams struct {
	URI         URI          `json:"uri"`
	Version     *int         `json:"version,omitempty"`
	Diagnostics []Diagnostic `json:"diagnostics"`
}

// The trigger kinds of completion.
const (
	CompletionInvoked    = 1
	CompletionCharacter  = 2
	CompletionIncomplete = 3
)

// CompletionContext describes how completion was triggered.
type CompletionContext struct {
	TriggerKind      int    `json:"triggerKind"`
	TriggerCharacter string `json:"triggerCharacter,omitempty"`
}

// CompletionParams are the parameters of textDocument/completion.
type CompletionParams struct {
	TextDocumentPositionParams
	Context *CompletionContext `json:"context,omitempty"`
}

// CompletionList is the result of textDocument/completion.
type CompletionList struct {
	// IsIncomplete is set if the client should ask again while the user types.
	IsIncomplete bool             `json:"isIncomplete"`
	Items        []CompletionItem `json:"items"`
}

// CompletionItemKind is the symbol that clients show beside an item.
type CompletionItemKind int

// The kinds of items that this server uses.
const (
	CompletionText       CompletionItemKind = 1
	CompletionFunction   CompletionItemKind = 3
	CompletionField      CompletionItemKind = 5
	CompletionVariable   CompletionItemKind = 6
	CompletionClass      CompletionItemKind = 7
	CompletionModule     CompletionItemKind = 9
	CompletionProperty   CompletionItemKind = 10
	CompletionValue      CompletionItemKind = 12
	CompletionEnum       CompletionItemKind = 13
	CompletionKeyword    CompletionItemKind = 14
	CompletionSnippet    CompletionItemKind = 15
	CompletionReference  CompletionItemKind = 18
	CompletionEnumMember CompletionItemKind = 20
	CompletionStruct     CompletionItemKind = 22
)

// The formats of the text that an item inserts.
const (
	InsertPlainText = 1
	InsertSnippet   = 2
)

// The modes of whitespace in inserted text: AsIs inserts lines as they are, AdjustIndentation
// indents them like the line of the cursor.
const (
	InsertAsIs              = 1
	InsertAdjustIndentation = 2
)

// CompletionItem is one proposal.
type CompletionItem struct {
	Label               string                      `json:"label"`
	LabelDetails        *CompletionItemLabelDetails `json:"labelDetails,omitempty"`
	Kind                CompletionItemKind          `json:"kind,omitempty"`
	Tags                []DiagnosticTag             `json:"tags,omitempty"`
	Detail              string                      `json:"detail,omitempty"`
	Documentation       *MarkupContent              `json:"documentation,omitempty"`
	Deprecated          bool                        `json:"deprecated,omitempty"`
	Preselect           bool                        `json:"preselect,omitempty"`
	SortText            string                      `json:"sortText,omitempty"`
	FilterText          string                      `json:"filterText,omitempty"`
	InsertText          string                      `json:"insertText,omitempty"`
	InsertTextFormat    int                         `json:"insertTextFormat,omitempty"`
	InsertTextMode      int                         `json:"insertTextMode,omitempty"`
	TextEdit            *TextEdit                   `json:"textEdit,omitempty"`
	AdditionalTextEdits []TextEdit                  `json:"additionalTextEdits,omitempty"`
	CommitCharacters    []string                    `json:"commitCharacters,omitempty"`
	Command             *Command                    `json:"command,omitempty"`
	Data                json.RawMessage             `json:"data,omitempty"`
}

// CompletionItemLabelDetails is text after the label of an item.
type CompletionItemLabelDetails struct {
	Detail      string `json:"detail,omitempty"`
	Description string `json:"description,omitempty"`
}

// The kinds of MarkupContent.
const (
	PlainText = "plaintext"
	Markdown  = "markdown"
)

// MarkupContent is text for users.
type MarkupContent struct {
	Kind  string `json:"kind"`
	Value string `json:"value"`
}

// Hover is the result of textDocument/hover.
type Hover struct {
	Contents MarkupContent `json:"contents"`
	Range    *Range        `json:"range,omitempty"`
}

// ReferenceParams are the parameters of textDocument/references.
type ReferenceParams struct {
	TextDocumentPositionParams
	Context struct {
		IncludeDeclaration bool `json:"includeDeclaration"`
	} `json:"context"`
}

// CodeActionKind is the kind of a code action, a path with dots.
type CodeActionKind string

// The kinds of code actions that this server uses.
const (
	QuickFix     CodeActionKind = "quickfix"
	Refactor     CodeActionKind = "refactor"
	Source       CodeActionKind = "source"
	SourceFixAll CodeActionKind = "source.fixAll"
)

// CodeActionContext has the diagnostics that code actions are requested for.
type CodeActionContext struct {
	Diagnostics []Diagnostic `json:"diagnostics"`
	// Only lists the kinds that the client wants; none means all.
	Only        []CodeActionKind `json:"only,omitempty"`
	TriggerKind int              `json:"triggerKind,omitempty"`
}

// Wants reports whether the client wants actions of a kind.
func (c *CodeActionContext) Wants(kind CodeActionKind) bool {
	if len(c.Only) == 0 {
		return true
	}
	for _, only := range c.Only {
		if only == "" || kind == only || len(kind) > len(only) && kind[:len(only)] == only && kind[len(only)] == '.' {
			return true
		}
	}
	return false
}

// CodeActionParams are the parameters of textDocument/codeAction.
type CodeActionParams struct {
	TextDocument TextDocumentIdentifier `json:"textDocument"`
	Range        Range                  `json:"range"`
	Context      CodeActionContext      `json:"context"`
}

// CodeAction is a change that the user may choose.
type CodeAction struct {
	Title       string          `json:"title"`
	Kind        CodeActionKind  `json:"kind,omitempty"`
	Diagnostics []Diagnostic    `json:"diagnostics,omitempty"`
	IsPreferred bool            `json:"isPreferred,omitempty"`
	Edit        *WorkspaceEdit  `json:"edit,omitempty"`
	Command     *Command        `json:"command,omitempty"`
	Data        json.RawMessage `json:"data,omitempty"`
}

// WorkspaceEdit changes documents. Clients that support versions prefer DocumentChanges.
type WorkspaceEdit struct {
	Changes         map[URI][]TextEdit `json:"changes,omitempty"`
	DocumentChanges []TextDocumentEdit `json:"documentChanges,omitempty"`
}

// TextDocumentEdit changes a version of a document.
type TextDocumentEdit struct {
	TextDocument OptionalVersionedTextDocumentIdentifier `json:"textDocument"`
	Edits        []TextEdit                              `json:"edits"`
}

// Command is a command of the client or the server.
type Command struct {
	Title     string `json:"title"`
	Command   string `json:"command"`
	Arguments []any  `json:"arguments,omitempty"`
}

// ExecuteCommandParams are the parameters of workspace/executeCommand.
type ExecuteCommandParams struct {
	Command   string            `json:"command"`
	Arguments []json.RawMessage `json:"arguments,omitempty"`
}

// CodeLensParams are the parameters of textDocument/codeLens.
type CodeLensParams struct {
	TextDocument TextDocumentIdentifier `json:"textDocument"`
}

// CodeLens is a line above a range, with a command. A lens without a command is resolved when the
// client shows it.
type CodeLens struct {
	Range   Range           `json:"range"`
	Command *Command        `json:"command,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// DocumentSymbolParams are the parameters of textDocument/documentSymbol.
type DocumentSymbolParams struct {
	TextDocument TextDocumentIdentifier `json:"textDocument"`
}

// SymbolKind is the symbol that clients show beside a name.
type SymbolKind int

// The kinds of symbols that this server uses.
const (
	SymbolFile    SymbolKind = 1
	SymbolModule  SymbolKind = 2
	SymbolField   SymbolKind = 8
	SymbolString  SymbolKind = 15
	SymbolNumber  SymbolKind = 16
	SymbolBoolean SymbolKind = 17
	SymbolArray   SymbolKind = 18
	SymbolObject  SymbolKind = 19
	SymbolKey     SymbolKind = 20
	SymbolNull    SymbolKind = 21
)

// DocumentSymbol is a named part of a document.
type DocumentSymbol struct {
	Name           string           `json:"name"`
	Detail         string           `json:"detail,omitempty"`
	Kind           SymbolKind       `json:"kind"`
	Range          Range            `json:"range"`
	SelectionRange Range            `json:"selectionRange"`
	Children       []DocumentSymbol `json:"children,omitempty"`
}

// SymbolInformation is a symbol for clients that know no hierarchy.
type SymbolInformation struct {
	Name          string     `json:"name"`
	Kind          SymbolKind `json:"kind"`
	Location      Location   `json:"location"`
	ContainerName string     `json:"containerName,omitempty"`
}

// FoldingRangeParams are the parameters of textDocument/foldingRange.
type FoldingRangeParams struct {
	TextDocument TextDocumentIdentifier `json:"textDocument"`
}

// The kinds of folding ranges.
const (
	FoldComment = "comment"
	FoldRegion  = "region"
)

// FoldingRange is a range of lines that can be hidden except for the first one.
type FoldingRange struct {
	StartLine int    `json:"startLine"`
	EndLine   int    `json:"endLine"`
	Kind      string `json:"kind,omitempty"`
}

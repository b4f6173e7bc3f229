package lsp

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/sourcegraph/jsonrpc2"
)

// Client sends notifications and requests to the client of a session. Its methods are safe for
// concurrent use. Notifications return at once: they are sent in the order of the calls. After the
// end of the connection they do nothing. Requests must not be sent from [Session.Initialize] and
// [Session.Changed], because the answer is not read until these return.
type Client struct {
	log  *slog.Logger
	conn *jsonrpc2.Conn

	// Set by initialize, before the session gets the first call.
	params   InitializeParams
	encoding Encoding
	// watch are the patterns of files to watch, and watchDeleted of those whose deletion matters.
	watch, watchDeleted []string

	rediagnose func()
	tokens     atomic.Int64
}

// initialize remembers the parameters and chooses the encoding of positions.
func (c *Client) initialize(p *InitializeParams) {
	c.params = *p
	c.encoding = UTF16
	// The first one that is known is the one that the client prefers.
	for _, e := range p.Capabilities.General.PositionEncodings {
		if e == UTF8 || e == UTF16 || e == UTF32 {
			c.encoding = e
			break
		}
	}
}

// Params returns the parameters of initialize.
func (c *Client) Params() *InitializeParams { return &c.params }

// Capabilities returns the capabilities of the client.
func (c *Client) Capabilities() *ClientCapabilities { return &c.params.Capabilities }

// Encoding returns the unit of positions that is used with the client.
func (c *Client) Encoding() Encoding { return c.encoding }

// FileText returns the text of a file that is not open. It keeps data, which must not be changed.
func (c *Client) FileText(uri URI, data []byte) *Text {
	return NewText(uri, 0, "", data, c.encoding)
}

// Diagnose schedules a run of [Session.Diagnose], like a change of a document. The session calls it
// if it knows something new.
func (c *Client) Diagnose() { c.rediagnose() }

// PublishDiagnostics replaces the diagnostics of a document at the client. Sessions return
// diagnostics from Diagnose instead, which publishes only what has changed.
func (c *Client) PublishDiagnostics(p *PublishDiagnosticsParams) {
	if p.Diagnostics == nil {
		p.Diagnostics = []Diagnostic{}
	}
	c.notify("textDocument/publishDiagnostics", p)
}

// LogMessage writes to the client's log.
func (c *Client) LogMessage(kind MessageType, message string) {
	c.notify("window/logMessage", &MessageParams{Type: kind, Message: message})
}

// ShowMessage shows a message to the user, who has to dismiss it in some clients.
func (c *Client) ShowMessage(kind MessageType, message string) {
	c.notify("window/showMessage", &MessageParams{Type: kind, Message: message})
}

// RefreshCodeLenses asks the client to request code lenses again, if it supports that.
func (c *Client) RefreshCodeLenses(ctx context.Context) error {
	if !c.params.Capabilities.Workspace.CodeLens.RefreshSupport {
		return nil
	}
	return c.call(ctx, "workspace/codeLens/refresh", nil, nil)
}

// RegisterCapability registers methods with the client. It must support dynamic registration of
// them.
func (c *Client) RegisterCapability(ctx context.Context, registrations ...Registration) error {
	return c.call(ctx, "client/registerCapability", &RegistrationParams{registrations}, nil)
}

// UnregisterCapability removes registrations.
func (c *Client) UnregisterCapability(ctx context.Context, registrations ...Unregistration) error {
	return c.call(ctx, "client/unregisterCapability", &UnregistrationParams{registrations}, nil)
}

// ApplyEdit asks the client to change documents.
func (c *Client) ApplyEdit(ctx context.Context, label string, edit WorkspaceEdit) error {
	var result ApplyEditResult
	if err := c.call(ctx, "workspace/applyEdit", &ApplyEditParams{label, edit}, &result); err != nil {
		return err
	}
	if !result.Applied {
		if result.FailureReason == "" {
			result.FailureReason = "no reason given"
		}
		return errors.New("the client has not applied the edit: " + result.FailureReason)
	}
	return nil
}

// Configuration asks the client for a section of its settings. It returns nil if the client does not
// support that.
func (c *Client) Configuration(ctx context.Context, section string) (json.RawMessage, error) {
	if !c.params.Capabilities.Workspace.Configuration {
		return nil, nil
	}
	var values []json.RawMessage
	err := c.call(ctx, "workspace/configuration", &ConfigurationParams{[]ConfigurationItem{{Section: section}}}, &values)
	if err != nil || len(values) == 0 {
		return nil, err
	}
	return values[0], nil
}

// Progress is a work in progress that the client shows. A nil Progress shows nothing.
type Progress struct {
	client *Client
	token  string
}

// Progress begins a work in progress, or returns nil if the client does not show them. The caller
// must call End.
func (c *Client) Progress(ctx context.Context, title, message string) *Progress {
	if !c.params.Capabilities.Window.WorkDoneProgress {
		return nil
	}
	p := &Progress{c, "espalier-" + strconv.FormatInt(c.tokens.Add(1), 10)}
	if err := c.call(ctx, "window/workDoneProgress/create", &ProgressParams{Token: p.token}, nil); err != nil {
		return nil
	}
	p.send(ProgressValue{Kind: "begin", Title: title, Message: message})
	return p
}

// Report replaces the message.
func (p *Progress) Report(message string) { p.send(ProgressValue{Kind: "report", Message: message}) }

// End ends the work.
func (p *Progress) End(message string) { p.send(ProgressValue{Kind: "end", Message: message}) }

func (p *Progress) send(v ProgressValue) {
	if p != nil {
		p.client.notify("$/progress", &ProgressParams{p.token, v})
	}
}

// notify sends a notification. If the connection has ended there is nobody to tell.
func (c *Client) notify(method string, params any) {
	if err := c.conn.Notify(context.Background(), method, params); err != nil && !errors.Is(err, jsonrpc2.ErrClosed) {
		c.log.Warn("sending a notification has failed", "method", method, "err", err)
	}
}

// callTime is how long a client may take for a request of the server.
const callTime = time.Minute

// call sends a request and waits for the answer, for a bounded time.
func (c *Client) call(ctx context.Context, method string, params, result any) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	id := jsonrpc2.ID{Str: "espalier-" + strconv.FormatInt(c.tokens.Add(1), 10), IsString: true}
	err := c.conn.Call(ctx, method, params, result, jsonrpc2.PickID(id))
	if ctx.Err() != nil {
		c.notify("$/cancelRequest", map[string]any{"id": id})
	}
	return err
}

package source

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Live is an API server whose objects are read page by page, as tables, and watched.
type Live struct {
	Finder
	// watching has no timeout, which would end watches. patience is the time in which the server has to
	// start a watch.
	watching *served
	patience time.Duration
}

// watchPatience is the patience of a Live whose requests have no timeout.
const watchPatience = 30 * time.Second

// NewLive returns a Live. It sends no request.
func NewLive(config *rest.Config) (*Live, error) {
	listing, err := NewCluster(config)
	if err != nil {
		return nil, err
	}
	patience := cmp.Or(config.Timeout, watchPatience)
	config = rest.CopyConfig(config)
	config.Timeout = 0
	watching, err := NewCluster(config)
	if err != nil {
		return nil, err
	}
	return &Live{listing, watching.(*served), patience}, nil
}

// Collection are the objects of a CRD in a version.
type Collection struct {
	runtimeschema.GroupVersionResource
	// Namespace selects a namespace, and Name an object. Both may be empty.
	Namespace, Name string
}

func (c *Collection) path() string {
	var namespaces []string
	if c.Namespace != "" {
		namespaces = []string{c.Namespace}
	}
	return pathsOf("/apis/"+c.Group+"/"+c.Version, c.Resource, true, namespaces)[0]
}

// check fails if a namespace or name would lead to another path or another selector.
func (c *Collection) check() error {
	for _, segment := range []string{c.Namespace, c.Name} {
		if reasons := content.IsPathSegmentName(segment); len(reasons) > 0 {
			return fmt.Errorf("%q is not a name: it %s", segment, reasons[0])
		}
		if strings.ContainsAny(segment, ",=!\\") {
			return fmt.Errorf("%q is not a name", segment)
		}
	}
	return nil
}

func (c *Collection) fields() string {
	if c.Name == "" {
		return ""
	}
	return metav1.ObjectNameField + "=" + c.Name
}

// Count returns the number of objects of a collection.
func (l *Live) Count(ctx context.Context, c Collection) (int64, error) {
	if err := c.check(); err != nil {
		return 0, err
	}
	n, err := l.Finder.(*served).count(ctx, c.path())
	if err != nil {
		err = fmt.Errorf("list %s: %w", c.path(), err)
	}
	return n, err
}

// Table is a page of objects as the API server shows them.
type Table struct {
	// Columns are empty in the events of a watch, except the first.
	Columns []metav1.TableColumnDefinition
	Rows    []Row
	// Version is the resource version of the table. Continue is set if there are more objects, and
	// Remaining is how many, or 0 if that is not known.
	Version, Continue string
	Remaining         int64
}

// Row is an object of a Table.
type Row struct {
	Object
	Cells []json.RawMessage
}

// maxCells limits the columns of a table. It has maxPage rows at most, as a page has objects.
const maxCells = 1000

// tableType is the content type of tables.
const tableType = "application/json;as=Table;g=meta.k8s.io;v=v1"

// Page returns some objects of a collection. token is the Continue of the page before, or empty. The
// error is ErrExpired if the server has forgotten the state that the token is of.
func (l *Live) Page(ctx context.Context, c Collection, limit int, token string) (*Table, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	list := &listing{client: l.Finder.(*served).client, path: c.path(), fields: c.fields(), accept: tableType}
	body, err := list.get(ctx, limit, token)
	if token != "" && isGone(err) {
		return nil, fmt.Errorf("list %s: %w", c.path(), ErrExpired)
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", c.path(), err)
	}
	return c.table(body)
}

// row is a row of a table as an API server sends it.
type row struct {
	Cells  json.RawMessage `json:"cells"`
	Object json.RawMessage `json:"object"`
}

// table reads a table.
func (c *Collection) table(body []byte) (*Table, error) {
	var in struct {
		Kind     string          `json:"kind"`
		Metadata metav1.ListMeta `json:"metadata"`
		Columns  json.RawMessage `json:"columnDefinitions"`
		Rows     json.RawMessage `json:"rows"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, fmt.Errorf("%s: the answer is not a table: %w", c.path(), err)
	}
	if in.Kind != "Table" {
		return nil, fmt.Errorf("%s: the answer is not a table, but %q", c.path(), in.Kind)
	}
	columns, err := elements[metav1.TableColumnDefinition](in.Columns, maxCells)
	if err != nil {
		return nil, fmt.Errorf("%s: the columns of the answer: %w", c.path(), err)
	}
	t := &Table{Columns: columns, Version: in.Metadata.ResourceVersion, Continue: in.Metadata.Continue}
	if in.Metadata.RemainingItemCount != nil {
		t.Remaining = *in.Metadata.RemainingItemCount
	}
	rows, err := elements[row](in.Rows, maxPage)
	if err != nil {
		return nil, fmt.Errorf("%s: the rows of the answer: %w", c.path(), err)
	}
	for _, r := range rows {
		cells, err := elements[json.RawMessage](r.Cells, maxCells)
		if err != nil {
			return nil, fmt.Errorf("%s: the cells of a row: %w", c.path(), err)
		}
		o := identified(Object{Definition: c.GroupResource().String(), JSON: r.Object})
		o.where = objectPath("/apis/"+c.Group+"/"+c.Version, c.Resource, o)
		t.Rows = append(t.Rows, Row{o, cells})
	}
	return t, nil
}

// ErrExpired is returned if a watch or a list cannot be continued: the objects have to be listed again.
var ErrExpired = errors.New("the server has forgotten the resource version")

// Event is a change of an object.
type Event struct {
	// Type is ADDED, MODIFIED, DELETED or BOOKMARK, which has no row.
	Type string
	Table
}

// isGone reports whether an API server has answered that it has forgotten a resource version.
func isGone(err error) bool {
	var status *apierrors.StatusError
	return errors.As(err, &status) && status.ErrStatus.Code == http.StatusGone
}

// Watch calls changed with the changes of a collection from a resource version on. It calls started
// before that, when the server has accepted the watch. It returns nil when the server ends the watch,
// which it does every few minutes.
func (l *Live) Watch(ctx context.Context, c Collection, version string, started func() error, changed func(Event) error) error {
	if err := c.check(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	late := time.AfterFunc(l.patience, cancel)
	w, err := l.watching.watch(ctx, c.path(), c.fields(), version, tableType)
	inTime := late.Stop()
	if err == nil {
		defer w.stop()
	}
	switch {
	case !inTime:
		return fmt.Errorf("watch %s: no answer within %v", c.path(), l.patience)
	case isGone(err):
		return ErrExpired
	case err != nil:
		return fmt.Errorf("watch %s: %w", c.path(), err)
	}
	if err := started(); err != nil {
		return err
	}
	for e := range w.events {
		if e.Type == "ERROR" {
			return c.failure(e.Object)
		}
		t, err := c.table(e.Object)
		if err != nil {
			return err
		}
		if err := changed(Event{e.Type, *t}); err != nil {
			return err
		}
	}
	return w.err()
}

// failure returns the error of an event.
func (c *Collection) failure(object []byte) error {
	var status metav1.Status
	if err := json.Unmarshal(object, &status); err != nil {
		return fmt.Errorf("watch %s: the error is not a status: %w", c.path(), err)
	}
	err := &apierrors.StatusError{ErrStatus: status}
	if isGone(err) {
		return ErrExpired
	}
	return fmt.Errorf("watch %s: %w", c.path(), err)
}

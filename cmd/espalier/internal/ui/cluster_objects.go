package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/analysis"
	"espalier.dev/analysis/audit"
	"espalier.dev/analysis/why"
	"espalier.dev/cmd/espalier/internal/source"
	"espalier.dev/crd"
	"espalier.dev/crd/compliance"
	"espalier.dev/web/protocol"
)

// The limits of an answer: rows of a page, characters of a cell, findings about an object, characters of a
// message, CRDs whose objects are counted, objects that are audited, those of them that are listed, and
// versions of an object.
const (
	defaultRows  = 50
	maxRows      = 200
	maxCell      = 300
	maxProblems  = 50
	maxMessage   = 4000
	maxCounted   = 50
	maxAudited   = 5000
	maxListed    = 500
	maxVersions  = 10
	maxWhyLength = 10_000
)

// definition is a compiled CRD of a cluster.
type definition struct {
	crd       *ClusterCRD
	made      *crd.Definition
	inspector *compliance.Inspector
}

func newDefinition(known *ClusterCRD, made *crd.Definition) *definition {
	return &definition{known, made, compliance.New(made)}
}

// request returns a function that reads a request and answers it.
func request[Request, Answer any](answer func(context.Context, Request) (Answer, error)) func(context.Context, []byte) (any, error) {
	return func(ctx context.Context, body []byte) (any, error) {
		var r Request
		d := json.NewDecoder(bytes.NewReader(body))
		d.DisallowUnknownFields()
		if err := d.Decode(&r); err != nil {
			return nil, &protocol.Error{Code: protocol.BadRequest, Message: fmt.Sprintf("cannot read the request: %v", err)}
		}
		return answer(ctx, r)
	}
}

// expired is the code if a list cannot be continued: it has to be read from its start.
const expired protocol.Code = "expired"

// asError returns an error for the page.
func asError(ctx context.Context, err error) *protocol.Error {
	var known *protocol.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, source.ErrExpired):
		return &protocol.Error{Code: expired, Message: brief(err)}
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &protocol.Error{Code: protocol.Timeout, Message: fmt.Sprintf("the cluster has not answered within %v", timeout)}
	case ctx.Err() != nil:
		return &protocol.Error{Code: protocol.Canceled, Message: "the request was canceled"}
	}
	return &protocol.Error{Code: protocol.Failed, Message: brief(err)}
}

// brief returns an error without the URL of the request, which is long. What a server says can be long, too.
func brief(err error) string {
	var request *url.Error
	if errors.As(err, &request) {
		return cut(strings.Replace(err.Error(), request.Error(), request.Err.Error(), 1), maxMessage)
	}
	return cut(err.Error(), maxMessage)
}

// objectRequest names a CRD and, maybe, one of its objects.
type objectRequest struct {
	CRD       string             `json:"crd"`
	Namespace string             `json:"namespace,omitempty"`
	Name      string             `json:"name,omitempty"`
	Semantics protocol.Semantics `json:"semantics"`
}

// crdAnswer is a CRD.
type crdAnswer struct {
	Text string `json:"text"`
	// Problem is why the CRD cannot be used, or empty.
	Problem string `json:"problem,omitempty"`
}

// crd returns a CRD as YAML.
func (c *Cluster) crd(ctx context.Context, r objectRequest) (*crdAnswer, error) {
	_, live, err := c.named(r.CRD)
	if err != nil {
		return nil, err
	}
	o, err := live.Definition(ctx, r.CRD)
	if err != nil {
		return nil, err
	}
	text, err := readableYAML(o.JSON)
	if err != nil {
		return nil, err
	}
	a := &crdAnswer{Text: text}
	if _, err := c.options.Define(o.JSON, r.Semantics.Semantics); err != nil {
		a.Problem = brief(err)
	}
	return a, nil
}

// countRequest asks for the number of objects of CRDs.
type countRequest struct {
	CRDs []string `json:"crds"`
}

// countAnswer has the number of objects of each CRD, or why it is not known.
type countAnswer struct {
	Counts   map[string]int64  `json:"counts"`
	Problems map[string]string `json:"problems"`
}

// count counts the objects of CRDs, some at a time.
func (c *Cluster) count(ctx context.Context, r countRequest) (*countAnswer, error) {
	if len(r.CRDs) > maxCounted {
		return nil, &protocol.Error{Code: protocol.TooLarge, Message: fmt.Sprintf("a request may count the objects of %d CRDs", maxCounted)}
	}
	a := &countAnswer{map[string]int64{}, map[string]string{}}
	var mu sync.Mutex
	var running sync.WaitGroup
	slots := make(chan struct{}, maxRequests)
	for _, name := range r.CRDs {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			n, err := c.countOne(ctx, name)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				a.Problems[name] = asError(ctx, err).Message
				return
			}
			a.Counts[name] = n
		})
	}
	running.Wait()
	return a, nil
}

func (c *Cluster) countOne(ctx context.Context, name string) (int64, error) {
	d, live, err := c.named(name)
	if err != nil {
		return 0, err
	}
	all, err := d.collection("")
	if err != nil {
		return 0, err
	}
	return live.Count(ctx, all)
}

// objectsRequest asks for a page of objects.
type objectsRequest struct {
	objectRequest
	Version  string `json:"version,omitempty"`
	Limit    int    `json:"limit,omitempty"`
	Continue string `json:"continue,omitempty"`
}

// objectsAnswer is a page of objects as a table.
type objectsAnswer struct {
	Version   string        `json:"version"`
	Columns   []tableColumn `json:"columns"`
	Rows      []tableRow    `json:"rows"`
	Continue  string        `json:"continue,omitempty"`
	Remaining int64         `json:"remaining,omitempty"`
	// ResourceVersion is that of the page: a watch continues from there.
	ResourceVersion string `json:"resourceVersion"`
	// Problem is why the objects are not checked, or empty.
	Problem string `json:"problem,omitempty"`
}

type tableColumn struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Description string `json:"description,omitempty"`
	// Wide is set for columns that kubectl shows with -o wide only.
	Wide bool `json:"wide,omitempty"`
}

type tableRow struct {
	Namespace string   `json:"namespace,omitempty"`
	Name      string   `json:"name"`
	Cells     []string `json:"cells"`
	// Findings are what does not comply.
	Findings []protocol.Finding `json:"findings,omitempty"`
	// Unchecked is why the object was not checked, or empty: without findings, it need not comply.
	Unchecked string `json:"unchecked,omitempty"`
}

// objects returns a page of objects. A CRD that cannot be compiled still has objects.
func (c *Cluster) objects(ctx context.Context, r objectsRequest) (*objectsAnswer, error) {
	known, live, err := c.named(r.CRD)
	if err != nil {
		return nil, err
	}
	all, err := known.collection(r.Version)
	if err != nil {
		return nil, err
	}
	all.Namespace, all.Name = r.Namespace, r.Name
	if r.Limit <= 0 {
		r.Limit = defaultRows
	}
	page, err := live.Page(ctx, all, min(r.Limit, maxRows), r.Continue)
	if err != nil {
		return nil, err
	}
	a := &objectsAnswer{Version: all.Version, Columns: columnsOf(page), Rows: []tableRow{}, Continue: page.Continue, Remaining: page.Remaining, ResourceVersion: page.Version}
	d, _, err := c.definition(ctx, r.CRD, r.Semantics)
	if err != nil {
		a.Problem = asError(ctx, err).Message
	}
	for _, row := range page.Rows {
		a.Rows = append(a.Rows, rowOf(ctx, d, a.Problem, &row))
	}
	return a, ctx.Err()
}

func columnsOf(t *source.Table) (all []tableColumn) {
	for _, c := range t.Columns {
		all = append(all, tableColumn{c.Name, c.Type, c.Description, c.Priority > 0})
	}
	return all
}

// rowOf returns a row of a table. If d is nil, problem is why.
func rowOf(ctx context.Context, d *definition, problem string, r *source.Row) tableRow {
	row := tableRow{Namespace: r.Namespace, Name: r.Name, Cells: []string{}}
	for _, cell := range r.Cells {
		row.Cells = append(row.Cells, cut(cellText(cell), maxCell))
	}
	if d == nil {
		row.Unchecked = problem
		return row
	}
	found, err := d.inspect(ctx, r.JSON)
	if err != nil {
		row.Unchecked = brief(err)
	}
	row.Findings = findingsOf(found.Problems)
	return row
}

// cellText returns the text of a cell: that of a string, JSON of another value, or nothing.
func cellText(cell json.RawMessage) string {
	var text *string
	if json.Unmarshal(cell, &text) != nil {
		return string(cell)
	}
	if text == nil {
		return ""
	}
	return *text
}

// cut cuts a text at a number of bytes.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}

// inspect returns what of an object does not comply, as far as the API shows it: the version is that of the request.
func (d *definition) inspect(ctx context.Context, object []byte) (compliance.Report, error) {
	if err := checkSize(object); err != nil {
		return compliance.Report{}, err
	}
	found, err := d.inspector.Inspect(ctx, object)
	if err != nil {
		return compliance.Report{}, err
	}
	found.Problems = slices.DeleteFunc(found.Problems, func(p compliance.Problem) bool { return p.Kind == compliance.OtherVersion })
	return found, nil
}

func findingsOf(problems []compliance.Problem) (all []protocol.Finding) {
	for i := range problems[:min(len(problems), maxProblems)] {
		all = append(all, findingOf(audit.Finding(&problems[i])))
	}
	return all
}

// findingOf returns a finding for the page. Each can have all of a long key or value.
func findingOf(f analysis.Finding) protocol.Finding {
	if len(f.Pointer) > maxPointer {
		f.Pointer = ""
	}
	var detail []string
	for _, line := range f.Detail[:min(len(f.Detail), maxProblems)] {
		detail = append(detail, cut(line, maxMessage))
	}
	return protocol.Finding{Rule: f.Rule, Severity: f.Severity, Path: cut(f.Path, maxPointer), Pointer: f.Pointer,
		Message: cut(f.Message, maxMessage), Detail: detail}
}

// objectAnswer is an object in all served versions.
type objectAnswer struct {
	Versions []objectVersion `json:"versions"`
	// Findings are what does not comply in what is served.
	Findings []protocol.Finding `json:"findings"`
	// Inspected is set if the server tells what does not comply in what is stored: Stored.
	Inspected bool               `json:"inspected"`
	Stored    []protocol.Finding `json:"stored"`
}

// objectVersion is an object in a version.
type objectVersion struct {
	Name    string     `json:"name"`
	Storage bool       `json:"storage,omitempty"`
	Text    string     `json:"text,omitempty"`
	Lines   []yamlLine `json:"lines,omitempty"`
	More    bool       `json:"more,omitempty"`
	// Problem is why it cannot be read, or empty.
	Problem string `json:"problem,omitempty"`
}

// object returns an object in all served versions.
func (c *Cluster) object(ctx context.Context, r objectRequest) (*objectAnswer, error) {
	d, live, err := c.definition(ctx, r.CRD, r.Semantics)
	if err != nil {
		return nil, err
	}
	a := &objectAnswer{Findings: []protocol.Finding{}, Stored: []protocol.Finding{}}
	for _, v := range d.crd.Versions {
		if !v.Served || len(a.Versions) == maxVersions {
			continue
		}
		shown := objectVersion{Name: v.Name, Storage: v.Storage}
		o, err := live.Object(ctx, runtimeschema.GroupVersionResource{Group: d.crd.Group, Version: v.Name, Resource: d.crd.Plural}, r.Namespace, r.Name)
		if err == nil {
			shown.Text, err = readableYAML(o.JSON)
			shown.Lines, shown.More = yamlLines(shown.Text)
		}
		if err == nil && (v.Storage || len(a.Findings) == 0) {
			var found compliance.Report
			found, err = d.inspect(ctx, o.JSON)
			a.Findings = append([]protocol.Finding{}, findingsOf(found.Problems)...)
		}
		if err != nil {
			shown.Problem = asError(ctx, err).Message
		}
		a.Versions = append(a.Versions, shown)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if len(a.Versions) > 0 && !slices.ContainsFunc(a.Versions, func(v objectVersion) bool { return v.Problem == "" }) {
		return nil, errors.New(a.Versions[0].Problem)
	}
	selected := source.Selection{Definitions: []*crd.Definition{d.made}, Name: r.Name}
	if r.Namespace != "" {
		selected.Namespaces = []string{r.Namespace}
	}
	a.Inspected = true
	for o, err := range live.Finder.(source.Inspector).Noncompliant(ctx, selected) {
		if err != nil {
			a.Inspected = false // what is served is known
			break
		}
		if o.Object.Namespace == r.Namespace {
			a.Stored = append(a.Stored, findingsOf(audit.ServerProblems(d.made, o.Problems))...)
			break
		}
	}
	return a, nil
}

// whyRequest asks for the reason of what is at a path of an object.
type whyRequest struct {
	objectRequest
	Path string `json:"path"`
}

// why explains a field of an object.
func (c *Cluster) why(ctx context.Context, r whyRequest) (*why.Explanation, error) {
	if len(r.Path) > maxWhyLength {
		return nil, &protocol.Error{Code: protocol.TooLarge, Message: "the path is too long"}
	}
	d, live, err := c.definition(ctx, r.CRD, r.Semantics)
	if err != nil {
		return nil, err
	}
	all, err := d.crd.collection("")
	if err != nil {
		return nil, err
	}
	o, err := live.Object(ctx, all.GroupVersionResource, r.Namespace, r.Name)
	if err == nil {
		err = checkSize(o.JSON)
	}
	if err != nil {
		return nil, err
	}
	return why.Explain(d.made, o.JSON, r.Path, why.Options{FromServer: true})
}

// auditAnswer is what does not comply of the objects of a CRD.
type auditAnswer struct {
	// Inspected is set if the server has told it, about what is stored. Otherwise it is about what the
	// API serves.
	Inspected bool               `json:"inspected"`
	Objects   int64              `json:"objects"`
	Failing   int64              `json:"failing"`
	Findings  []protocol.Finding `json:"findings"`
	// Failures are the objects that do not comply, with the number of problems.
	Failures []failure `json:"failures"`
	// More is set if not all objects were looked at, or not all failures are listed.
	More bool `json:"more,omitempty"`
}

type failure struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Problems  int    `json:"problems"`
}

// audit does what espalier audit does, for the objects of one CRD.
func (c *Cluster) audit(ctx context.Context, r objectRequest) (*auditAnswer, error) {
	d, live, err := c.definition(ctx, r.CRD, r.Semantics)
	if err != nil {
		return nil, err
	}
	a := &auditAnswer{Findings: []protocol.Finding{}, Failures: []failure{}}
	result := audit.New(audit.Options{Examples: 5, Paths: 200})
	add := func(o *source.Object, found *compliance.Report) {
		result.Add(d.made, audit.Object{Namespace: o.Namespace, Name: o.Name, Where: o.Where}, found)
		if len(found.Problems) == 0 {
			return
		}
		if len(a.Failures) < maxListed {
			a.Failures = append(a.Failures, failure{o.Namespace, o.Name, len(found.Problems)})
		} else {
			a.More = true
		}
	}
	selected := source.Selection{Definitions: []*crd.Definition{d.made}}
	if r.Namespace != "" {
		selected.Namespaces = []string{r.Namespace}
	}
	err = noncompliant(ctx, live, d, selected, add, a)
	if errors.Is(err, source.ErrNotInspected) {
		err = served(ctx, live, d, selected, add, a)
	}
	if err != nil {
		return nil, err
	}
	total := result.Total()
	a.Objects += total.Objects
	a.Failing = total.Failing
	for _, g := range result.Groups() {
		a.Findings = append(a.Findings, findingOf(g.Finding()))
	}
	return a, nil
}

// noncompliant reads what the server has found in stored objects.
func noncompliant(ctx context.Context, live *source.Live, d *definition, selected source.Selection, add func(*source.Object, *compliance.Report), a *auditAnswer) error {
	inspector := live.Finder.(source.Inspector)
	failing := int64(0)
	for o, err := range inspector.Noncompliant(ctx, selected) {
		if err != nil {
			return err
		}
		if failing++; failing > maxAudited {
			a.More = true
			break
		}
		add(&o.Object, &compliance.Report{Problems: audit.ServerProblems(d.made, o.Problems)})
	}
	n, err := inspector.Count(ctx, selected)
	if err != nil {
		return err
	}
	a.Inspected, a.Objects = true, max(n-failing, 0)
	return nil
}

// served inspects objects as the API serves them.
func served(ctx context.Context, live *source.Live, d *definition, selected source.Selection, add func(*source.Object, *compliance.Report), a *auditAnswer) error {
	seen := 0
	for o, err := range live.Objects(ctx, selected) {
		if err != nil {
			return err
		}
		if seen++; seen > maxAudited {
			a.More = true
			return nil
		}
		found, err := d.inspect(ctx, o.JSON)
		if err != nil {
			return fmt.Errorf("%s: %w", o.Where(), err)
		}
		add(&o, &found)
	}
	return ctx.Err()
}

package ui

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"espalier.dev/api"
	"espalier.dev/cmd/espalier/internal/source"
	"espalier.dev/crd"
	"espalier.dev/internal/lru"
	"espalier.dev/schema"
	"espalier.dev/web/protocol"
)

// The limits of a cluster: the CRDs that the page gets, those that are known, the compiled ones that are
// kept, the requests to the cluster at a time, and the watches at a time. A browser has six connections to
// the page for all of its tabs: the watches must leave some.
const (
	maxCRDs     = 5000
	maxKnown    = 10 * maxCRDs
	maxCompiled = 8
	maxRequests = 4
	maxWatches  = 4
)

// ClusterOptions configure a Cluster.
type ClusterOptions struct {
	Cluster source.Cluster
	// Define returns the CRD in a text, which evaluates rules.
	Define func(text []byte, sem schema.Semantics) (*crd.Definition, error)
}

// Cluster shows a running cluster. It only reads. It is safe for concurrent use.
type Cluster struct {
	options  ClusterOptions
	compiled *lru.Cache[compiledKey, *definition]
	requests map[string]func(context.Context, []byte) (any, error)
	// slots limits the requests to the cluster, and watches those that stay.
	slots, watches chan struct{}

	mu sync.Mutex
	// live is nil before the kubeconfig is read.
	live   *source.Live
	byName map[string]*ClusterCRD
	state  ClusterState
	// text is the state as JSON with its tag, or nil if it has changed.
	text []byte
	tag  string
}

// ClusterState is what is known about a cluster.
type ClusterState struct {
	// Server is the address of the API server.
	Server string `json:"server"`
	// Connected is set while the CRDs are followed. Known is set if they were ever read.
	Connected bool `json:"connected"`
	Known     bool `json:"known"`
	// Problem is why the cluster cannot be read, or empty.
	Problem string        `json:"problem,omitempty"`
	CRDs    []*ClusterCRD `json:"crds"`
	// More is set if there are more CRDs than are listed.
	More bool `json:"more,omitempty"`
}

// ClusterCRD is a CRD of a cluster.
type ClusterCRD struct {
	Name       string           `json:"name"`
	Group      string           `json:"group"`
	Kind       string           `json:"kind"`
	Plural     string           `json:"plural"`
	Namespaced bool             `json:"namespaced"`
	Created    metav1.Time      `json:"created"`
	Deleting   bool             `json:"deleting,omitempty"`
	Conversion string           `json:"conversion"`
	Versions   []ClusterVersion `json:"versions"`
	// Stored are the versions in which objects may be stored.
	Stored     []string           `json:"stored"`
	Conditions []metav1.Condition `json:"conditions"`
	// Revision changes with the CRD.
	Revision string `json:"revision"`
}

// ClusterVersion is a version of a CRD.
type ClusterVersion struct {
	Name       string `json:"name"`
	Served     bool   `json:"served"`
	Storage    bool   `json:"storage"`
	Deprecated bool   `json:"deprecated,omitempty"`
}

// NewCluster returns a Cluster, which Run connects.
func NewCluster(o ClusterOptions) *Cluster {
	c := &Cluster{
		options: o, byName: map[string]*ClusterCRD{}, slots: make(chan struct{}, maxRequests), watches: make(chan struct{}, maxWatches),
		compiled: lru.New(maxCompiled, func(compiledKey, *definition) int64 { return 1 }),
	}
	c.requests = map[string]func(context.Context, []byte) (any, error){
		"crd":     request(c.crd),
		"count":   request(c.count),
		"objects": request(c.objects),
		"object":  request(c.object),
		"why":     request(c.why),
		"audit":   request(c.audit),
	}
	return c
}

// Run follows the CRDs of the cluster until the context ends.
func (c *Cluster) Run(ctx context.Context) {
	keeper := &source.Keeper{Cluster: c.options.Cluster, Open: c.open, Changed: c.update, Failed: c.failed}
	keeper.Run(ctx)
}

// open uses a configuration, which may be new.
func (c *Cluster) open(config *rest.Config) {
	live, err := source.NewLive(config)
	c.change(func() {
		if server := config.Host; server != c.state.Server {
			c.state.Server, c.state.Known = server, false
			clear(c.byName)
		}
		if err != nil {
			c.state.Problem = err.Error()
			return
		}
		c.live = live
	})
}

// failed says that the cluster cannot be read.
func (c *Cluster) failed(err error) {
	c.change(func() { c.state.Connected, c.state.Problem = false, brief(err) })
}

// update uses what has changed.
func (c *Cluster) update(u source.Update) {
	c.change(func() {
		if u.Complete {
			clear(c.byName)
		}
		for _, name := range u.Deleted {
			delete(c.byName, name)
		}
		for _, o := range u.CRDs {
			crd := newClusterCRD(o.JSON)
			if crd != nil && (c.byName[o.Name] != nil || len(c.byName) < maxKnown) {
				c.byName[o.Name] = crd
			}
		}
		c.state.Connected, c.state.Known, c.state.Problem = true, true, ""
	})
}

// change changes the state.
func (c *Cluster) change(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
	c.text = nil
}

// newClusterCRD reads what the page shows of a CRD. It returns nil if the text is no CRD.
func newClusterCRD(text []byte) *ClusterCRD {
	var in struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
		Spec     struct {
			Group      string                            `json:"group"`
			Scope      string                            `json:"scope"`
			Names      api.CustomResourceDefinitionNames `json:"names"`
			Versions   []ClusterVersion                  `json:"versions"`
			Conversion struct {
				Strategy string `json:"strategy"`
			} `json:"conversion"`
		} `json:"spec"`
		Status struct {
			StoredVersions []string           `json:"storedVersions"`
			Conditions     []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if json.Unmarshal(text, &in) != nil {
		return nil
	}
	m, s := &in.Metadata, &in.Spec
	return &ClusterCRD{Name: m.Name, Group: s.Group, Kind: s.Names.Kind, Plural: s.Names.Plural, Namespaced: s.Scope == "Namespaced",
		Created: m.CreationTimestamp, Deleting: m.DeletionTimestamp != nil, Conversion: cmp.Or(s.Conversion.Strategy, "None"),
		Versions: append([]ClusterVersion{}, s.Versions...), Stored: append([]string{}, in.Status.StoredVersions...),
		Conditions: append([]metav1.Condition{}, in.Status.Conditions...), Revision: string(m.UID) + "/" + m.ResourceVersion}
}

// collection returns the objects of the CRD in a version. The default is the storage version or, if that
// is not served, the first one that is.
func (d *ClusterCRD) collection(version string) (source.Collection, error) {
	var found *ClusterVersion
	for i := range d.Versions {
		v := &d.Versions[i]
		if v.Served && (v.Name == version || version == "" && (found == nil || v.Storage)) {
			found = v
		}
	}
	switch {
	case found == nil && version == "":
		return source.Collection{}, &protocol.Error{Code: protocol.Failed, Message: "no version of " + d.Name + " is served"}
	case found == nil:
		return source.Collection{}, &protocol.Error{Code: protocol.Failed, Message: fmt.Sprintf("%s serves no version %q", d.Name, version)}
	}
	return source.Collection{GroupVersionResource: runtimeschema.GroupVersionResource{Group: d.Group, Version: found.Name, Resource: d.Plural}}, nil
}

// named returns a CRD, and the cluster that has it.
func (c *Cluster) named(name string) (*ClusterCRD, *source.Live, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch d := c.byName[name]; {
	case c.live == nil || !c.state.Known:
		return nil, nil, &protocol.Error{Code: protocol.Failed, Message: "the CRDs of the cluster are not known yet"}
	case d == nil:
		return nil, nil, &protocol.Error{Code: protocol.Failed, Message: fmt.Sprintf("the cluster has no CRD %q", name)}
	default:
		return d, c.live, nil
	}
}

// compiledKey identifies a CRD at one moment, in a semantics.
type compiledKey struct {
	name, revision string
	semantics      schema.Semantics
}

// definition returns a compiled CRD.
func (c *Cluster) definition(ctx context.Context, name string, sem protocol.Semantics) (*definition, *source.Live, error) {
	known, live, err := c.named(name)
	if err != nil {
		return nil, nil, err
	}
	d, err := c.compiled.Get(compiledKey{name, known.Revision, sem.Semantics}, func() (*definition, error) {
		// Other requests wait for the same CRD: it is read although this one may be canceled.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		o, err := live.Definition(ctx, name)
		if err != nil {
			return nil, err
		}
		if err := checkSize(o.JSON); err != nil {
			return nil, fmt.Errorf("the CRD %s cannot be used: %w", name, err)
		}
		made, err := c.options.Define(o.JSON, sem.Semantics)
		if err != nil {
			return nil, fmt.Errorf("the CRD %s cannot be used: %w", name, err)
		}
		return newDefinition(known, made), nil
	})
	return d, live, err
}

// serve answers the requests of the page about the cluster. name is empty for its state.
func (c *Cluster) serve(w http.ResponseWriter, r *http.Request, name string) {
	if name == "" {
		c.serveState(w, r)
		return
	}
	body, ok := readJSON(w, r)
	if !ok {
		return
	}
	if name == "watch" {
		c.watch(w, r, body)
		return
	}
	do := c.requests[name]
	if do == nil {
		writeJSON(w, protocol.Response{Error: &protocol.Error{Code: protocol.UnknownRequest, Message: fmt.Sprintf("unknown request %q", name)}})
		return
	}
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-r.Context().Done():
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	answer, err := do(ctx, body)
	if err != nil {
		writeJSON(w, protocol.Response{Error: asError(ctx, err)})
		return
	}
	writeJSON(w, protocol.Response{Answer: answer})
}

// serveState sends the CRDs, unless the browser has them.
func (c *Cluster) serveState(w http.ResponseWriter, r *http.Request) {
	text, tag, err := c.stateText()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeTagged(w, r, text, tag)
}

func (c *Cluster) stateText() ([]byte, string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.text == nil {
		state := c.state
		state.CRDs = []*ClusterCRD{}
		for _, d := range c.byName {
			state.CRDs = append(state.CRDs, d)
		}
		slices.SortFunc(state.CRDs, func(a, b *ClusterCRD) int { return cmp.Compare(a.Name, b.Name) })
		state.More = len(state.CRDs) > maxCRDs
		state.CRDs = state.CRDs[:min(len(state.CRDs), maxCRDs)]
		text, err := json.Marshal(state)
		if err != nil {
			return nil, "", err
		}
		sum := sha256.Sum256(text)
		c.text, c.tag = text, `"`+hex.EncodeToString(sum[:16])+`"`
	}
	return c.text, c.tag, nil
}

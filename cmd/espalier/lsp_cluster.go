package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"espalier.dev/analysis/assist"
	"espalier.dev/analysis/lookup"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/lsp"
	"espalier.dev/cmd/espalier/internal/source"
	"espalier.dev/schema"
)

// lspCluster knows the CRDs of a cluster for a session of the language server. They are read in the
// background, and kept in files, so that the next session has them before the cluster answers. No
// method but run waits for anything.
type lspCluster struct {
	flags source.Cluster
	// root is the directory of the caches, or "" if there is none.
	root string
	// changed is called when other CRDs are known, and tell tells the user.
	changed func()
	tell    func(kind lsp.MessageType, show bool, message string)

	// known is nil before the first CRDs are known.
	known atomic.Pointer[servedCRDs]

	// lost has an element if a CRD in the cache cannot be read anymore.
	lost chan struct{}

	// Only run uses these: the server, its cache, and the CRDs by name.
	server string
	cache  *source.DefinitionCache
	byName map[string]*servedCRD
	files  *input.Repositories
}

// servedCRDs are the CRDs of a cluster at one moment. They never change.
type servedCRDs struct {
	definitions map[schema.Semantics][]*definition
	kinds       []assist.Kind
}

// servedCRD is a CRD of a cluster.
type servedCRD struct {
	sum         input.Sum
	definitions map[schema.Semantics]*definition
	kinds       []assist.Kind
}

// unread reports whether it could not be read again.
func (c *servedCRD) unread() bool {
	for _, d := range c.definitions {
		if d.unread.Load() {
			return true
		}
	}
	return false
}

// clusterCacheDir returns the directory of the caches of clusters, or "" if the user has none.
func (a *app) clusterCacheDir() string {
	dir, ok := a.environ("XDG_CACHE_HOME")
	if !ok || !filepath.IsAbs(dir) {
		var err error
		if dir, err = os.UserCacheDir(); err != nil {
			return ""
		}
	}
	return filepath.Join(dir, "espalier", "clusters")
}

// crds returns the CRDs that are known, or nil.
func (c *lspCluster) crds() *servedCRDs {
	if c == nil {
		return nil
	}
	return c.known.Load()
}

// pending reports whether the CRDs of the cluster are not known yet.
func (c *lspCluster) pending() bool { return c != nil && c.known.Load() == nil }

// of returns the CRDs for a semantics.
func (s *servedCRDs) of(sem schema.Semantics) []*definition {
	if s == nil {
		return nil
	}
	return s.definitions[sem]
}

// run follows the CRDs of the cluster until the context ends.
func (c *lspCluster) run(ctx context.Context) {
	c.files = input.NewRepositories(ctx, "")
	defer func() { _ = c.files.Close() }() // it has read files only
	told, down := false, false
	keeper := &source.Keeper{Cluster: c.flags, Again: c.lost, Open: func(config *rest.Config) {
		if config.ExecProvider != nil {
			config.ExecProvider.StdinUnavailable = true // it is the connection to the editor
		}
		c.open(ctx, config)
	}, Changed: func(u source.Update) {
		if down {
			c.tell(lsp.MessageInfo, false, "espalier reads the CRDs of the cluster again")
		}
		down = false
		c.update(ctx, u)
	}, Failed: func(err error) {
		if down {
			return
		}
		using := "objects without a CRD in the workspace are not checked"
		if !c.pending() {
			using = fmt.Sprintf("the %d that were read before are used", len(c.byName))
		}
		// The user is told once. What follows is in the log.
		c.tell(lsp.MessageWarning, !told, fmt.Sprintf("espalier cannot read the CRDs of the cluster: %v: %s", err, using))
		told, down = true, true
	}}
	keeper.Run(ctx)
}

// open opens the cache of a cluster, and uses what it has.
func (c *lspCluster) open(ctx context.Context, config *rest.Config) {
	server := source.ServerName(config)
	if c.server == server {
		return
	}
	c.server, c.cache = server, nil
	clear(c.byName)
	if c.known.Swap(nil) != nil {
		c.changed() // they are those of another cluster
	}
	if c.root == "" {
		return
	}
	cache, err := source.OpenDefinitionCache(c.root, config)
	if err != nil {
		c.tell(lsp.MessageWarning, false, fmt.Sprintf("the CRDs of the cluster are not cached: %v", err))
		return
	}
	c.cache = cache
	for _, name := range cache.Names() {
		if ctx.Err() != nil {
			return
		}
		if crd := c.read(ctx, name); crd != nil {
			c.byName[name] = crd
		}
	}
	if len(c.byName) > 0 {
		c.publish()
	}
}

// update uses what has changed in the cluster.
func (c *lspCluster) update(ctx context.Context, u source.Update) {
	before := maps.Clone(c.byName)
	if u.Complete {
		clear(c.byName)
	}
	for _, name := range u.Deleted {
		delete(c.byName, name)
	}
	var failed error
	for _, o := range u.CRDs {
		var crd *servedCRD
		if c.cache != nil {
			if err := c.cache.Write(o); err != nil {
				failed = cmp.Or(failed, fmt.Errorf("%s: %w", o.Name, err))
			} else {
				crd = c.read(ctx, o.Name)
			}
		}
		if crd == nil {
			crd = keptCRD(o)
		}
		if old := before[o.Name]; crd != nil && old != nil && old.sum == crd.sum && !old.unread() {
			crd = old // it may be compiled
		}
		if crd != nil {
			c.byName[o.Name] = crd
		}
	}
	if c.cache != nil {
		for _, name := range c.cache.Names() {
			if c.byName[name] == nil {
				failed = cmp.Or(failed, c.cache.Remove(name))
			}
		}
	}
	if failed != nil {
		c.tell(lsp.MessageWarning, false, fmt.Sprintf("not all CRDs of the cluster are cached: %v", failed))
	}
	if c.pending() || !maps.Equal(before, c.byName) {
		c.publish()
	}
}

// read reads a CRD in the cache, or returns nil: it is read from the cluster then.
func (c *lspCluster) read(ctx context.Context, name string) (found *servedCRD) {
	flags := input.Flags{Paths: []string{c.cache.Path(name)}, Git: c.files, Keep: input.Definitions}
	err := input.Read(ctx, emptyInput{}, flags, func(it *input.Item) error {
		if isDefinition(it) && it.Name() == name {
			found = newServedCRD(it, newIndexEntry)
		}
		return nil
	}, func(input.Problem) { found = nil })
	if err != nil || found == nil {
		return nil
	}
	for _, d := range found.definitions {
		d.lost = func() {
			select {
			case c.lost <- struct{}{}:
			default: // the CRDs are about to be listed
			}
		}
	}
	return found
}

// keptCRD returns a CRD that is in no file, or nil if it cannot be read.
func keptCRD(o source.Object) *servedCRD {
	it, err := o.AsItem()
	if err != nil || !isDefinition(it) {
		return nil
	}
	return newServedCRD(it, newDefinition)
}

func newServedCRD(it *input.Item, entry func(*input.Item, schema.Semantics) *definition) *servedCRD {
	crd := &servedCRD{sum: it.Sum(), definitions: map[schema.Semantics]*definition{}, kinds: servedKinds(it.JSON)}
	for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		crd.definitions[sem] = entry(it, sem)
	}
	return crd
}

// servedKinds returns the versions that a CRD serves. It does not compile it: there may be many.
func servedKinds(src []byte) (all []assist.Kind) {
	kind := lookup.Defined(src)
	for _, v := range servedVersions(src) {
		gv := runtimeschema.GroupVersion{Group: kind.Group, Version: v.name}
		all = append(all, assist.Kind{APIVersion: gv.String(), Kind: kind.Kind, Deprecated: v.deprecated})
	}
	return all
}

// publish lets workspaces see the CRDs.
func (c *lspCluster) publish() {
	now := &servedCRDs{definitions: map[schema.Semantics][]*definition{}}
	for _, name := range slices.Sorted(maps.Keys(c.byName)) {
		crd := c.byName[name]
		for sem, d := range crd.definitions {
			now.definitions[sem] = append(now.definitions[sem], d)
		}
		now.kinds = append(now.kinds, crd.kinds...)
	}
	c.known.Store(now)
	c.changed()
}

func newCRDsOfCluster(flags source.Cluster, root string, changed func(), tell func(lsp.MessageType, bool, string)) *lspCluster {
	return &lspCluster{flags: flags, root: root, changed: changed, tell: tell, lost: make(chan struct{}, 1), byName: map[string]*servedCRD{}}
}

// newLSPCluster returns the cluster of a session, or nil if there is none.
func (s *lspSession) newLSPCluster(o lspOptions) *lspCluster {
	if o.cluster == nil {
		return nil
	}
	return newCRDsOfCluster(*o.cluster, o.caches, s.client.Diagnose, func(kind lsp.MessageType, show bool, message string) {
		if show {
			s.client.ShowMessage(kind, message)
		} else {
			s.client.LogMessage(kind, message)
		}
	})
}

// background runs a function until the session ends. A panic ends the function only.
func (s *lspSession) background(what string, run func(context.Context)) {
	s.starting.Lock()
	defer s.starting.Unlock()
	if s.closed {
		return // Close waits for those that it knows
	}
	s.running.Add(1)
	go func() {
		defer s.running.Done()
		defer func() {
			if p := recover(); p != nil {
				s.client.LogMessage(lsp.MessageError, fmt.Sprintf("%s: panic: %v", what, p))
			}
		}()
		run(s.ctx)
	}()
}

// skipped returns which objects are not validated. As long as the CRDs of the cluster are unknown,
// objects that have none in the workspace get no findings.
func (w *workspace) skipped() skipFlags {
	skip := w.checks.validating.skip
	if w.cluster != nil && w.served == nil {
		skip.missing, skip.undefined = true, true
	}
	return skip
}

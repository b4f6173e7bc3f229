package roles

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/klog/v2"

	"espalier.dev/server/keys"
	"espalier.dev/store"
)

// current returns an index that is as new as the store was when current was called.
func (a *Authorizer) current() (*index, error) {
	if w := a.watchers.Load(); w != nil && !pending(*w) && !a.stale.Load() {
		// The order of the steps matters: the index that has the events that were pending
		// before is published before stale is reset.
		return a.index.Load(), nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.refresh(); err != nil {
		return nil, err
	}
	return a.index.Load(), nil
}

func pending(watchers []*store.Watcher) bool {
	for _, w := range watchers {
		if w.Pending() {
			return true
		}
	}
	return false
}

// refresh replaces the index if it is not as new as the store. mu is held.
func (a *Authorizer) refresh() error {
	select {
	case <-a.store.Loaded():
	default:
		return ErrLoading
	}
	a.stale.Store(true)
	w := a.watchers.Load()
	if w == nil {
		return a.rebuild()
	}
	revision := a.store.Revision()
	events := a.later
	for _, w := range *w {
		for {
			some, at, err := w.Poll()
			if errors.Is(err, store.ErrClosed) {
				return err
			}
			if err != nil {
				return a.rebuild() // events are lost
			}
			events = append(events, some...)
			if len(some) == 0 || at >= revision {
				break
			}
		}
	}
	// All events up to the revision are there. Later ones may be there from some prefixes only.
	slices.SortStableFunc(events, func(a, b *store.Event) int { return cmp.Compare(a.Revision, b.Revision) })
	n, _ := slices.BinarySearchFunc(events, revision+1, func(e *store.Event, revision int64) int { return cmp.Compare(e.Revision, revision) })
	if n > 0 {
		c := a.index.Load().change()
		for _, e := range events[:n] {
			a.take(c, e.Key(), e.Entry)
		}
		a.index.Store(c.apply())
	}
	a.later = slices.Clone(events[n:])
	a.stale.Store(len(a.later) > 0)
	return nil
}

// rebuild replaces the index by one that is read from the store. mu is held.
func (a *Authorizer) rebuild() error {
	if old := a.watchers.Swap(nil); old != nil {
		for _, w := range *old {
			w.Stop()
		}
	}
	a.later = nil
	snapshot, watchers, err := a.watch()
	if err != nil {
		return err
	}
	c := (*index)(nil).change()
	for _, prefix := range slices.Concat(a.roles, a.bindings) {
		for e := range snapshot.Range(string(prefix), "") {
			a.take(c, e.Key, e)
		}
	}
	a.index.Store(c.apply())
	a.watchers.Store(&watchers)
	a.stale.Store(false)
	return nil
}

// watch returns a snapshot of the store, and watchers for what changes afterwards.
func (a *Authorizer) watch() (snapshot *store.Snapshot, watchers []*store.Watcher, err error) {
	snapshot = a.store.Snapshot()
	for _, prefix := range slices.Concat(a.roles, a.bindings) {
		w, err := a.store.Watch(string(prefix), snapshot.Revision)
		if err != nil {
			for _, w := range watchers {
				w.Stop()
			}
			if expired := (*store.ExpiredError)(nil); errors.As(err, &expired) {
				return nil, nil, ErrLoading // the store was loaded again in between
			}
			return nil, nil, err
		}
		watchers = append(watchers, w)
	}
	return snapshot, watchers, nil
}

// take takes in the entry of a key, which is nil if it was deleted.
func (a *Authorizer) take(c *changes, key string, e *store.Entry) {
	for _, prefix := range a.roles {
		if namespace, name, ok := prefix.Cut(key); ok {
			c.setRole(roleKey(namespace, name), readRole(e, namespace))
		}
	}
	for _, prefix := range a.bindings {
		if namespace, name, ok := prefix.Cut(key); ok {
			c.setBinding(key, readBinding(e, namespace, name))
		}
	}
}

// readRole reads a stored role. It is nil if there is none.
func readRole(e *store.Entry, namespace string) *role {
	if e == nil {
		return nil
	}
	if namespace == "" {
		var obj rbacv1.ClusterRole
		if err := Decode(e, "ClusterRole", &obj); err != nil {
			return &role{err: err}
		}
		return compileRole(obj.Rules)
	}
	var obj rbacv1.Role
	if err := Decode(e, "Role", &obj); err != nil {
		return &role{err: err}
	}
	return compileRole(obj.Rules)
}

// readBinding reads a stored binding. It is nil if there is none, or if it cannot be read: then
// it grants nothing.
func readBinding(e *store.Entry, namespace, name string) *binding {
	if e == nil {
		return nil
	}
	if namespace == "" {
		var obj rbacv1.ClusterRoleBinding
		if err := Decode(e, "ClusterRoleBinding", &obj); err != nil {
			klog.ErrorS(err, "A cluster role binding grants nothing, because it cannot be read", "name", name)
			return nil
		}
		return newBinding("", name, obj.RoleRef, obj.Subjects)
	}
	var obj rbacv1.RoleBinding
	if err := Decode(e, "RoleBinding", &obj); err != nil {
		klog.ErrorS(err, "A role binding grants nothing, because it cannot be read", "namespace", namespace, "name", name)
		return nil
	}
	return newBinding(namespace, name, obj.RoleRef, obj.Subjects)
}

// Decode reads a stored role or binding: protobuf as this server and kube-apiserver write it, or
// JSON.
func Decode(e *store.Entry, kind string, into interface{ Unmarshal([]byte) error }) error {
	if e.Err != nil {
		return e.Err
	}
	envelope, binary, err := keys.Unwrap(e.Value)
	if !binary {
		err = json.Unmarshal(e.Value, &envelope.TypeMeta)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", e.Key, err)
	}
	meta := envelope.TypeMeta
	if meta.APIVersion != rbacv1.SchemeGroupVersion.String() || meta.Kind != kind {
		return fmt.Errorf("%s: unexpected %s %s", e.Key, meta.APIVersion, meta.Kind)
	}
	if binary {
		if err := into.Unmarshal(envelope.Raw); err != nil {
			return fmt.Errorf("%s: %w", e.Key, err)
		}
		return nil
	}
	if err := json.Unmarshal(e.Value, into); err != nil {
		return fmt.Errorf("%s: %w", e.Key, err)
	}
	return nil
}

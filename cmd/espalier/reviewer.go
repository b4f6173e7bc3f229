package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/analysis"
	"espalier.dev/analysis/lint"
	"espalier.dev/analysis/lookup"
	"espalier.dev/analysis/object"
	"espalier.dev/api"
	"espalier.dev/cmd/espalier/internal/changes"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/cmd/espalier/internal/suppress"
	"espalier.dev/internal/jsonptr"
	"espalier.dev/internal/jsonx"
)

// reviewer is one run of review.
type reviewer struct {
	ctx    context.Context
	r      *report.Reporter
	set    *changes.Set
	differ *differ
	lint   lint.Options
	// validator has the settings of all validators.
	validator validator

	// now and before have the CRDs of the working tree and of the base, and those of --crd.
	now, before *definitions
	// tree returns the CRDs of the working tree.
	tree func() ([]*definition, error)
	// pairs has the CRDs that differ.
	pairs []*crdPair
	// manifests has the findings about objects.
	manifests []objectResult
}

// crdPair is a CRD before and after the change. One of them may be nil.
type crdPair struct {
	old, new *definition
	contents crdContents
}

// definitionKey identifies a CRD in a file.
type definitionKey struct {
	file string
	sum  input.Sum
}

// load prepares to find the CRDs of objects, before and after the change.
func (rv *reviewer) load(a *app, crds, files input.Flags) error {
	rv.now, rv.before = a.noDefinitions(), a.noDefinitions()
	if len(crds.Paths) > 0 {
		named, err := a.index(rv.ctx, crds, rv.r.Failure)
		if err != nil {
			return err
		}
		for _, d := range named.All() {
			rv.now.Add(d)
			rv.before.Add(d)
		}
	}
	rv.tree = sync.OnceValues(func() ([]*definition, error) {
		files.Keep, files.Skipped = input.Definitions, nil
		// Problems with changed files are known, and others are as old as the base.
		found, err := a.index(rv.ctx, files, func(input.Problem) {})
		if err != nil {
			return nil, err
		}
		return found.All(), nil
	})
	rv.now.Extend(rv.tree)
	rv.before.Extend(rv.oldTree)
	rv.pair()
	return nil
}

// pair finds the CRDs that differ.
func (rv *reviewer) pair() {
	for _, o := range rv.set.Objects() {
		if !isDefinition(o.New) {
			continue
		}
		p := &crdPair{new: newDefinition(o.New, rv.now.semantics)}
		if o.Old != nil {
			p.old = newDefinition(o.Old, rv.now.semantics)
		}
		rv.pairs = append(rv.pairs, p)
	}
	for _, it := range rv.set.Removed {
		if isDefinition(it) {
			rv.pairs = append(rv.pairs, &crdPair{old: newDefinition(it, rv.now.semantics)})
		}
	}
	for _, p := range rv.pairs {
		p.contents = crdContents{p.old.content(), p.new.content()}
	}
	slices.SortStableFunc(rv.pairs, func(a, b *crdPair) int { return strings.Compare(a.name(), b.name()) })
}

// name returns the name of the CRD.
func (p *crdPair) name() string {
	if p.new != nil {
		return p.new.identity().Name
	}
	return p.old.identity().Name
}

// oldTree returns the CRDs of the base.
func (rv *reviewer) oldTree() ([]*definition, error) {
	all, err := rv.tree()
	if err != nil {
		return nil, err
	}
	changed := map[definitionKey]*crdPair{}
	var old []*definition
	for _, p := range rv.pairs {
		if p.new != nil {
			changed[definitionKey{p.new.file, p.new.sum}] = p
		} else {
			old = append(old, p.old)
		}
	}
	for _, d := range all {
		switch p := changed[definitionKey{d.file, d.sum}]; {
		case p == nil:
			old = append(old, d)
		case p.old != nil:
			// Messages name the file of both, so that they can be compared.
			p.old.file = d.file
			old = append(old, p.old)
		}
	}
	return old, nil
}

// compare compares the CRDs that differ.
func (rv *reviewer) compare() error {
	if len(rv.pairs) == 0 {
		return nil
	}
	all, err := rv.tree()
	if err != nil {
		return err
	}
	seen := map[string]*compared{}
	seenPairs := map[crdContents]bool{}
	for _, p := range rv.pairs {
		old, new := rv.side(p.old, true), rv.side(p.new, false)
		if old == nil && p.old != nil || new == nil && p.new != nil || seenPairs[p.contents] || p.isCopy(all) {
			continue // copies of a CRD often change together
		}
		seenPairs[p.contents] = true
		n := len(rv.differ.compared)
		rv.differ.compare(rv.ctx, old, new)
		if len(rv.differ.compared) == n {
			continue // it was reported why
		}
		c := rv.differ.compared[n]
		if first := seen[p.name()]; first != nil {
			// Findings name the CRD that they are about. Objects are tried on the first.
			c.Name += " in " + c.item().File
			if first.old != nil {
				rv.differ.byKind[first.kind()] = first
			}
			continue
		}
		seen[p.name()] = c
	}
	return nil
}

// crdContents has the checksums of the contents of the old and the new CRD, which are zero for one
// that is missing.
type crdContents struct{ old, new input.Sum }

// content returns a checksum of a CRD, which does not depend on the order of its fields: copies in
// YAML and in JSON are equal.
func (d *definition) content() (sum input.Sum) {
	if d == nil {
		return sum
	}
	value, err := jsonx.Parse(d.item().JSON)
	if err != nil {
		return d.sum
	}
	text, err := jsonx.Append(nil, value)
	if err != nil {
		return d.sum
	}
	return input.SumOf(text)
}

// isCopy reports whether a CRD that was created or removed is one of several of that name.
func (p *crdPair) isCopy(all []*definition) bool {
	return (p.old == nil || p.new == nil) && slices.ContainsFunc(all, func(d *definition) bool {
		return d.identity().Name == p.name() && (p.new == nil || d.file != p.new.file || d.sum != p.new.sum)
	})
}

// side returns a CRD to compare, or nil if there is none or if it cannot be read.
func (rv *reviewer) side(d *definition, old bool) *diffSide {
	if d == nil {
		return nil
	}
	side, err := newDiffSide(d)
	if err == nil {
		return side
	}
	at := d.item().Position("").Value
	if old {
		reportBase(rv.r, input.Problem{File: d.file, Line: at.Line, Column: at.Column, Message: err.Error(), Object: d.identity()},
			"it is not compared")
	} else {
		rv.r.Failure(input.Problem{Rule: object.RuleInvalidDefinition, File: d.file, Line: at.Line, Column: at.Column,
			Message: err.Error(), Object: d.identity()})
	}
	return nil
}

// changedKinds are the kinds that the CRDs that differ define, with the name of the CRD if it was removed.
type changedKinds map[runtimeschema.GroupKind]string

func (rv *reviewer) kinds() changedKinds {
	all := changedKinds{}
	for _, p := range rv.pairs {
		removed := ""
		if p.new == nil {
			removed = p.name()
		}
		for _, d := range []*definition{p.old, p.new} {
			if d != nil {
				all[d.kind] = cmp.Or(removed, all[d.kind])
			}
		}
	}
	return all
}

// mentioned returns a function that reports whether a text may have objects of the kinds. It is
// cheaper than to parse the text.
func (k changedKinds) mentioned() func([]byte) bool {
	type words struct{ group, kind []byte }
	var all []words
	for gk := range k {
		all = append(all, words{[]byte(gk.Group), []byte(gk.Kind)})
	}
	return func(text []byte) bool {
		return slices.ContainsFunc(all, func(w words) bool { return bytes.Contains(text, w.group) && bytes.Contains(text, w.kind) })
	}
}

// itemKey identifies an object in a file.
type itemKey struct {
	file string
	line int
	base string
}

func keyOf(it *input.Item) itemKey { return itemKey{it.File, it.Line(), it.Base} }

// check checks the objects that were created or updated, and those of CRDs that differ.
func (rv *reviewer) check(files input.Flags) error {
	kinds := rv.kinds()
	update := rv.validator
	update.definitions, update.before, update.unconverted = rv.now, beforeChange(rv.set), true
	found, err := changes.Parallel(rv.ctx, rv.set, func(items []*input.Item) documentResult {
		items = slices.DeleteFunc(slices.Clone(items), isDefinition)
		out := update.items(items)
		for i := range out.objects {
			old, _ := update.before(out.objects[i].item)
			rv.leaveOutOld(&out.objects[i], old)
			rv.addNew(&out.objects[i], kinds)
		}
		return out
	})
	if err != nil {
		return err
	}
	// changed has the objects before the change, nil for those that were created.
	changed := map[itemKey]*input.Item{}
	for _, d := range found {
		for _, o := range d.objects {
			changed[keyOf(o.item)], _ = update.before(o.item)
			rv.manifests = append(rv.manifests, o)
		}
	}
	if len(kinds) == 0 {
		return nil
	}
	files.Select, files.Skipped = kinds.mentioned(), nil
	work := func(d *input.Document) (out documentResult) {
		items, _ := d.Items()
		for _, it := range items {
			if _, ok := kinds[lookup.KindOf(it)]; !ok {
				continue
			}
			o := objectResult{item: it}
			if _, ok := changed[keyOf(it)]; !ok {
				rv.addNew(&o, kinds)
			}
			out.objects = append(out.objects, o)
		}
		return out
	}
	emit := func(d documentResult) error {
		for _, o := range d.objects {
			if o.failed != nil {
				return o.failed
			}
			was, ok := changed[keyOf(o.item)]
			if !ok {
				was = o.item
			}
			if err := rv.try(o.item, was); err != nil {
				return err
			}
			if len(o.findings) > 0 {
				rv.manifests = append(rv.manifests, o)
			}
		}
		return nil
	}
	return input.Parallel(rv.ctx, strings.NewReader(""), files, work, emit, func(input.Problem) {})
}

// try applies both CRDs to an object as it was before the change: the old CRD has never seen another
// one. was is nil for an object that was created.
func (rv *reviewer) try(it, was *input.Item) error {
	// The old CRD can have no objects of a version that it lacks.
	if c := rv.differ.byKind[lookup.KindOf(it)]; was == nil || c == nil || !c.hadVersion(was) {
		return nil
	}
	rv.differ.tried = true
	return rv.differ.try(rv.ctx, it, substituted(was, rv.validator.variables))
}

// hadVersion reports whether the old CRD has the version of an object.
func (c *compared) hadVersion(it *input.Item) bool {
	return slices.ContainsFunc(c.old.crd.Spec.Versions, func(v api.CustomResourceDefinitionVersion) bool {
		return it.APIVersion() == c.old.crd.Spec.Group+"/"+v.Name
	})
}

// leaveOutOld removes the findings about an updated object that it had before. An update does not
// tolerate all of them, but it is not what this change does.
func (rv *reviewer) leaveOutOld(o *objectResult, old *input.Item) {
	o.findings = slices.DeleteFunc(o.findings, func(f report.Finding) bool { return f.Rule == object.RuleRatcheted })
	if old == nil || len(o.findings) == 0 {
		return
	}
	before := rv.validator
	before.definitions, before.skipped = rv.before, nil
	var was objectResult
	found := before.object(old, &was)
	if was.failed != nil {
		o.failed = was.failed
		return
	}
	if !rv.validator.skip.missing { // the user asks for them
		found = slices.DeleteFunc(found, func(f analysis.Finding) bool { return f.Rule == lookup.RuleMissing })
	}
	// Items of lists may have moved: the same finding about an equal item comes first, then one at the
	// same index, then any.
	moved := func(f *analysis.Finding, more string) findingKey {
		return findingKey{f.Rule, index.ReplaceAllString(f.Path, "[]"), index.ReplaceAllString(f.Message, "[]") + more}
	}
	itemBefore, itemNow := listItems(old), listItems(o.item)
	for _, keyOf := range []func(item func(string) string, f *analysis.Finding) findingKey{
		func(item func(string) string, f *analysis.Finding) findingKey {
			return moved(f, "\x00"+item(f.Pointer))
		},
		func(_ func(string) string, f *analysis.Finding) findingKey {
			return findingKey{f.Rule, f.Path, f.Message}
		},
		func(_ func(string) string, f *analysis.Finding) findingKey { return moved(f, "") },
	} {
		known := map[findingKey]int{}
		for i := range found {
			known[keyOf(itemBefore, &found[i])]++
		}
		left := map[findingKey]int{}
		o.findings = slices.DeleteFunc(o.findings, func(f report.Finding) bool {
			key := keyOf(itemNow, &f.Finding)
			if left[key] == known[key] {
				return false
			}
			left[key]++
			return true
		})
		found = slices.DeleteFunc(found, func(f analysis.Finding) bool {
			key := keyOf(itemBefore, &f)
			left[key]--
			return left[key] >= 0
		})
	}
}

// listItems returns a function that returns a digest of the innermost item of a list that a pointer is
// in, or that it names. An object can have thousands of findings, so each item is encoded once.
func listItems(it *input.Item) func(pointer string) string {
	object, err := jsonx.Parse(it.JSON)
	if err != nil {
		return func(string) string { return "" }
	}
	digests := map[string]string{} // by the pointer of the item
	return func(pointer string) string {
		value := object
		var item any
		end := 0
		// The pointer of a reported finding is relative to the document.
		tokens := jsonptr.Split(strings.TrimPrefix(pointer, it.Base))
		for n, token := range tokens {
			switch at := value.(type) {
			case map[string]any:
				value = at[token]
			case []any:
				i, err := strconv.Atoi(token)
				if err != nil || i < 0 || i >= len(at) {
					return ""
				}
				value, item, end = at[i], at[i], n+1
			}
		}
		key := strings.Join(tokens[:end], "\x00")
		digest, ok := digests[key]
		if !ok {
			if text, err := jsonx.Append(nil, item); err == nil {
				sum := sha256.Sum256(text)
				digest = string(sum[:])
			}
			digests[key] = digest
		}
		return digest
	}
}

// index matches an index in a path.
var index = regexp.MustCompile(`\[[0-9]+\]`)

// addNew adds what is wrong with an object under the CRDs of the working tree, but not under those
// of the base. Updates tolerate some of it, but the object cannot be created anymore.
func (rv *reviewer) addNew(o *objectResult, kinds changedKinds) {
	it := o.item
	removed, ok := kinds[lookup.KindOf(it)]
	if !ok || rv.validator.skip.byKind(it) != "" {
		return
	}
	now, before := rv.validator, rv.validator
	now.definitions, before.definitions = rv.now, rv.before
	before.skipped = nil                                 // what is left out is counted once
	now.skip.missing = now.skip.missing && removed == "" // that there is no CRD anymore is news
	// Messages have limits, which may have changed: the same value was wrong before.
	known := map[findingKey]bool{}
	var was, is objectResult
	for _, f := range before.object(it, &was) {
		known[findingKey{rule: f.Rule, path: f.Path}] = true
	}
	for _, f := range o.findings {
		known[findingKey{rule: f.Rule, path: f.Path}] = true
	}
	added := now.object(it, &is)
	if is.failed != nil {
		o.failed = is.failed
		return
	}
	for _, f := range added {
		if f.Severity == analysis.Info || known[findingKey{rule: f.Rule, path: f.Path}] {
			continue
		}
		if f.Rule == lookup.RuleMissing && removed != "" {
			f.Message = fmt.Sprintf("the CRD %s was removed: remove the object too, or add the CRD with --crd", removed)
		} else {
			f.Detail = append(slices.Clip(f.Detail), "the CRD has changed: it accepted this before")
		}
		o.findings = append(o.findings, report.At(it, f))
		o.skipped = ""
	}
	report.Sort(o.findings)
}

// findingKey identifies a finding about an object or a CRD, wherever it is in a file.
type findingKey struct{ rule, path, message string }

// reportAll reports all sections.
func (rv *reviewer) reportAll() error {
	rv.r.Section("CRD changes")
	extra := rv.r.Summary().Extra
	rv.differ.report(rv.ctx)
	maps.Copy(extra, rv.r.Summary().Extra)
	rv.r.Summary().Extra = extra
	rv.r.Section("Manifests")
	rv.reportManifests()
	rv.r.Section("New lint findings")
	err := rv.reportLint()
	rv.r.Section("")
	return err
}

// reportManifests reports the findings about objects, the worst first.
func (rv *reviewer) reportManifests() {
	slices.SortStableFunc(rv.manifests, func(a, b objectResult) int { return worst(a.findings).Compare(worst(b.findings)) })
	for _, o := range rv.manifests {
		if o.skipped != "" {
			rv.r.Skipped(o.item, o.skipped)
			continue
		}
		rv.r.Saw(o.item)
		for _, f := range o.findings {
			rv.r.Add(f)
		}
	}
}

// worst returns the worst severity of findings.
func worst(findings []report.Finding) analysis.Severity {
	severity := analysis.Severity("")
	for _, f := range findings {
		if severity == "" || f.Severity.Compare(severity) < 0 {
			severity = f.Severity
		}
	}
	return cmp.Or(severity, analysis.Info)
}

// reportLint reports what is new about the CRDs that differ.
func (rv *reviewer) reportLint() error {
	var olds, news [][]byte
	var pairs []*crdPair
	copies := map[crdContents]bool{}
	for _, p := range rv.pairs {
		if p.new == nil || copies[p.contents] {
			continue
		}
		copies[p.contents] = true
		pairs, news = append(pairs, p), append(news, p.new.item().JSON)
		if p.old != nil {
			olds = append(olds, p.old.item().JSON)
		}
	}
	now, err := lint.Run(rv.ctx, news, rv.lint)
	if err != nil {
		return err
	}
	before, err := lint.Run(rv.ctx, olds, rv.lint)
	if err != nil {
		return err
	}
	for i, p := range pairs {
		known := map[findingKey]bool{}
		if p.old != nil {
			for _, f := range placed(p.old.item(), before[0]) {
				known[lintKey(&f)] = true
			}
			before = before[1:]
		}
		for _, f := range placed(p.new.item(), now[i]) {
			if !known[lintKey(&f)] {
				rv.r.Add(f)
			}
		}
	}
	return nil
}

// number matches the numbers in a message.
var number = regexp.MustCompile(`[0-9]+`)

// lintKey returns the key of a finding about a CRD. Versions have names, because another version
// changes their indexes. Numbers do not count: a CRD that was too large before is not news.
func lintKey(f *report.Finding) findingKey {
	return findingKey{f.Rule, suppress.NameVersion(f.Path, f.Pointer, f.Doc), number.ReplaceAllString(f.Message, "0")}
}

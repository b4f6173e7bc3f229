package main

import (
	"go/ast"
	"path/filepath"
	"strings"
)

// readDefaults reads which versions and resources kube-apiserver serves without --runtime-config.
func (r *release) readDefaults() error {
	for _, group := range []string{"apiextensions.k8s.io", "apiregistration.k8s.io"} { // which it always serves
		r.versions[group+"/v1"], r.versions[group+"/v1beta1"] = true, true
	}
	file, err := parseFile(filepath.Join(r.dirs["k8s.io/kubernetes"], "pkg/controlplane/instance.go"))
	if err != nil {
		return err
	}
	imports := importsOf(file)
	lists := map[string][]ast.Expr{} // variables
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.ValueSpec); ok && len(s.Values) == 1 {
			if lit, ok := s.Values[0].(*ast.CompositeLit); ok {
				lists[s.Names[0].Name] = lit.Elts
			}
		}
		return true
	})
	// version returns the version of an expression like appsv1.SchemeGroupVersion.
	version := func(e ast.Expr) string {
		s, ok := e.(*ast.SelectorExpr)
		if !ok || s.Sel.Name != "SchemeGroupVersion" {
			return ""
		}
		// Some packages of defaults repeat the version of the types.
		path := strings.Replace(imports[s.X.(*ast.Ident).Name], "k8s.io/kubernetes/pkg/apis/", "k8s.io/api/", 1)
		p := r.packages[path]
		if p == nil {
			return ""
		}
		return p.groupVersion()
	}
	found := false
	ast.Inspect(file, func(n ast.Node) bool {
		c, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		enables, disables := calls(c, "EnableVersions"), calls(c, "DisableVersions")
		if !enables && !disables && !calls(c, "EnableResources") {
			return true
		}
		args := c.Args
		if id, ok := args[0].(*ast.Ident); ok && c.Ellipsis.IsValid() {
			args = lists[id.Name]
		}
		for _, arg := range args {
			if enables || disables {
				gv := version(arg)
				r.versions[gv] = r.versions[gv] || enables
				found = true
				continue
			}
			call := arg.(*ast.CallExpr) // version.WithResource("plural")
			r.resources[version(call.Fun.(*ast.SelectorExpr).X)+"/"+stringOf(call.Args[0])] = true
		}
		return true
	})
	if !found {
		return errNoFile("list of versions that are on by default", r.minor)
	}
	return nil
}

// onByDefault reports whether a kind is served without --runtime-config.
func (r *release) onByDefault(p *apiPackage, kind string) bool {
	return r.versions[p.groupVersion()] || r.resources[p.groupVersion()+"/"+plural(kind)]
}

// serves reports whether a kind is served if --runtime-config enables its version.
func (r *release) serves(p *apiPackage, kind string) bool {
	if _, listed := r.versions[p.groupVersion()]; !listed || !isResource(p, kind) {
		return false
	}
	if l := p.lifecycle[kind]; l != nil && l.removed > 0 && l.removed <= r.minor { // the server drops it when it starts
		return false
	}
	// The versions are in the list, but the server has no storage for these kinds any more.
	switch p.groupVersion() {
	case "networking.k8s.io/v1alpha1":
		return r.minor < 31
	case "scheduling.k8s.io/v1alpha1":
		return kind != "PriorityClass" || r.minor < 23
	case "storage.k8s.io/v1alpha1":
		return kind != "VolumeAttachment" || r.minor < 23
	}
	return true
}

// plural returns the name of the resource of a kind.
func plural(kind string) string {
	name := strings.ToLower(kind)
	switch {
	case name == "endpoints":
		return name
	case strings.HasSuffix(name, "s"):
		return name + "es"
	case strings.HasSuffix(name, "y"):
		return strings.TrimSuffix(name, "y") + "ies"
	}
	return name + "s"
}

// readGates reads the feature gates.
func (r *release) readGates() error {
	for _, module := range []string{"k8s.io/kubernetes", "k8s.io/apiserver", "k8s.io/apiextensions-apiserver"} {
		paths, err := filepath.Glob(filepath.Join(r.dirs[module], "pkg/features/*_features.go"))
		if err != nil {
			return err
		}
		if len(paths) == 0 {
			return errNoFile("feature gates of "+module, r.minor)
		}
		for _, path := range paths {
			file, err := parseFile(path)
			if err != nil {
				return err
			}
			r.addGates(file)
		}
	}
	return nil
}

// addGates adds the feature gates in a file.
func (r *release) addGates(file *ast.File) {
	ast.Inspect(file, func(n ast.Node) bool {
		kv, ok := n.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		value, ok := kv.Value.(*ast.CompositeLit)
		if !ok {
			return true
		}
		on, ok := r.defaultOf(value)
		if !ok {
			return true
		}
		switch key := kv.Key.(type) {
		case *ast.Ident:
			r.gates[key.Name] = on
		case *ast.SelectorExpr:
			r.gates[key.Sel.Name] = on
		}
		return true
	})
}

// defaultOf returns the default in the literal of a feature gate, or in the last of its literals
// that is not for a later release.
func (r *release) defaultOf(lit *ast.CompositeLit) (on, ok bool) {
	for _, e := range lit.Elts {
		switch e := e.(type) {
		case *ast.CompositeLit:
			if later(e, r.minor) {
				continue
			}
			if o, found := r.defaultOf(e); found {
				on, ok = o, true
			}
		case *ast.KeyValueExpr:
			if key, isIdent := e.Key.(*ast.Ident); isIdent && key.Name == "Default" {
				if value, isIdent := e.Value.(*ast.Ident); isIdent {
					return value.Name == "true", true
				}
			}
		}
	}
	return on, ok
}

// later reports whether a literal is for a release after minor.
func later(lit *ast.CompositeLit, minor int) (is bool) {
	ast.Inspect(lit, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok && calls(c, "MustParse") {
			text := strings.TrimPrefix(stringOf(c.Args[0]), "1.")
			is = atoi(text) > minor
		}
		return true
	})
	return is
}

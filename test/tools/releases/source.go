package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// A release is what the source of a release of Kubernetes says about its kinds.
type release struct {
	minor int
	// packages are the packages of API versions by their import path.
	packages map[string]*apiPackage
	// versions has the versions that the server can serve, and whether they are on by default.
	// resources are on by default in other versions: group/version/plural.
	versions, resources map[string]bool
	// gates has the feature gates, and whether they are on by default.
	gates map[string]bool
	dirs  map[string]string
}

// An apiPackage is the package of one version of a group.
type apiPackage struct {
	path, group, version string
	// registered are the types that are kinds, and clients those that have clients, which are
	// resources.
	registered, clients map[string]bool
	types               map[string]*goType
	lifecycle           map[string]*lifecycle
}

func (p *apiPackage) groupVersion() string {
	if p.group == "" {
		return p.version
	}
	return p.group + "/" + p.version
}

// A lifecycle is what the generated functions of a type return. Versions are minor versions.
type lifecycle struct {
	introduced, deprecated, removed int
	replacement                     string
}

// A goType is a type declaration.
type goType struct {
	pkg     *apiPackage
	name    string
	expr    ast.Expr
	imports map[string]string
}

// roots are the directories of API versions in modules.
var roots = map[string]string{
	"k8s.io/api":                     ".",
	"k8s.io/apiextensions-apiserver": "pkg/apis/apiextensions",
	"k8s.io/kube-aggregator":         "pkg/apis/apiregistration",
}

// read reads the modules of a release.
func read(minor int) (*release, error) {
	r := &release{minor: minor, packages: map[string]*apiPackage{}, versions: map[string]bool{}, resources: map[string]bool{},
		gates: map[string]bool{}, dirs: map[string]string{}}
	for module := range modules {
		dir, err := download(module, minor)
		if err != nil {
			return nil, err
		}
		r.dirs[module] = dir
	}
	for module, root := range roots {
		if err := r.readPackages(module, root); err != nil {
			return nil, err
		}
	}
	if err := r.readDefaults(); err != nil {
		return nil, err
	}
	return r, r.readGates()
}

// readPackages reads the packages of API versions below a directory of a module.
func (r *release) readPackages(module, root string) error {
	return filepath.WalkDir(filepath.Join(r.dirs[module], root), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() != "register.go" || !isVersion(filepath.Base(filepath.Dir(path))) {
			return err
		}
		relative, err := filepath.Rel(r.dirs[module], filepath.Dir(path))
		if err != nil {
			return err
		}
		p, err := readPackage(module+"/"+filepath.ToSlash(relative), filepath.Dir(path))
		if err == nil {
			r.packages[p.path] = p
		}
		return err
	})
}

var versionName = regexp.MustCompile(`^v\d+((alpha|beta)\d+)?$`)

func isVersion(name string) bool { return versionName.MatchString(name) }

func readPackage(path, dir string) (*apiPackage, error) {
	p := &apiPackage{path: path, version: filepath.Base(dir), registered: map[string]bool{}, clients: map[string]bool{},
		types: map[string]*goType{}, lifecycle: map[string]*lifecycle{}}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := e.Name()
		generated := strings.HasPrefix(name, "zz_generated") && name != "zz_generated.prerelease-lifecycle.go" || name == "generated.pb.go"
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || generated {
			continue
		}
		file, err := parseFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		p.add(file)
	}
	return p, nil
}

func parseFile(path string) (*ast.File, error) {
	return parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
}

func (p *apiPackage) add(file *ast.File) {
	imports := importsOf(file)
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					p.types[s.Name.Name] = &goType{p, s.Name.Name, s.Type, imports}
				case *ast.ValueSpec:
					if s.Names[0].Name == "GroupName" && len(s.Values) == 1 {
						p.group = stringOf(s.Values[0])
					}
				}
			}
		case *ast.FuncDecl:
			if d.Recv != nil {
				p.addLifecycle(d)
				continue
			}
			ast.Inspect(d, func(n ast.Node) bool {
				if c, ok := n.(*ast.CallExpr); ok && calls(c, "AddKnownTypes") {
					for _, arg := range c.Args {
						if name := pointedType(arg); name != "" {
							p.registered[name] = true
						}
					}
				}
				return true
			})
		}
	}
	// The marker of a type may be separated from its comment by an empty line.
	for _, c := range file.Comments {
		if !marked(c, "+genclient") {
			continue
		}
		if name := typeAfter(file, c.End()); name != "" {
			p.clients[name] = true
		}
	}
}

// marked reports whether a comment has a line with a marker.
func marked(c *ast.CommentGroup, marker string) bool {
	for _, line := range c.List {
		if strings.TrimSpace(strings.TrimPrefix(line.Text, "//")) == marker {
			return true
		}
	}
	return false
}

// typeAfter returns the first type that is declared after a position.
func typeAfter(file *ast.File, pos token.Pos) string {
	for _, d := range file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE && g.TokPos > pos {
			return g.Specs[0].(*ast.TypeSpec).Name.Name
		}
	}
	return ""
}

func (p *apiPackage) addLifecycle(d *ast.FuncDecl) {
	name, ok := strings.CutPrefix(d.Name.Name, "APILifecycle")
	if !ok || len(d.Body.List) != 1 {
		return
	}
	star, ok := d.Recv.List[0].Type.(*ast.StarExpr)
	result, isReturn := d.Body.List[0].(*ast.ReturnStmt)
	if !ok || !isReturn {
		return
	}
	typ := star.X.(*ast.Ident).Name
	l := p.lifecycle[typ]
	if l == nil {
		l = &lifecycle{}
		p.lifecycle[typ] = l
	}
	minor := func() int {
		n, _ := strconv.Atoi(result.Results[1].(*ast.BasicLit).Value)
		return n
	}
	switch name {
	case "Introduced":
		l.introduced = minor()
	case "Deprecated":
		l.deprecated = minor()
	case "Removed":
		l.removed = minor()
	case "Replacement":
		fields := map[string]string{}
		for _, e := range result.Results[0].(*ast.CompositeLit).Elts {
			kv := e.(*ast.KeyValueExpr)
			fields[kv.Key.(*ast.Ident).Name] = stringOf(kv.Value)
		}
		gv := fields["Version"]
		if fields["Group"] != "" {
			gv = fields["Group"] + "/" + gv
		}
		l.replacement = gv + " " + strings.TrimSuffix(fields["Kind"], "List") // IngressClass has that of its list
	}
}

func importsOf(file *ast.File) map[string]string {
	imports := map[string]string{}
	for _, i := range file.Imports {
		path := stringOf(i.Path)
		name := filepath.Base(path)
		if i.Name != nil {
			name = i.Name.Name
		}
		imports[name] = path
	}
	return imports
}

func stringOf(e ast.Expr) string {
	if lit, ok := e.(*ast.BasicLit); ok {
		s, _ := strconv.Unquote(lit.Value)
		return s
	}
	return ""
}

// calls reports whether a call is one of a function or method of that name.
func calls(c *ast.CallExpr, name string) bool {
	switch f := c.Fun.(type) {
	case *ast.SelectorExpr:
		return f.Sel.Name == name
	case *ast.Ident:
		return f.Name == name
	}
	return false
}

// pointedType returns T for &T{}.
func pointedType(e ast.Expr) string {
	if u, ok := e.(*ast.UnaryExpr); ok {
		if lit, ok := u.X.(*ast.CompositeLit); ok {
			if id, ok := lit.Type.(*ast.Ident); ok {
				return id.Name
			}
		}
	}
	return ""
}

// A field is a field of a struct in JSON.
type field struct {
	typ  *goType // nil if it is no type of these packages
	gate string
}

var gateMarker = regexp.MustCompile(`\+featureGate=(\w+)`)

// fieldsOf returns the fields of a struct, including those of embedded ones. It returns nil for
// other types.
func (r *release) fieldsOf(t *goType) map[string]field {
	s, ok := t.expr.(*ast.StructType)
	if !ok {
		return nil
	}
	out := map[string]field{}
	for _, f := range s.Fields.List {
		var name string
		if f.Tag != nil {
			name, _, _ = strings.Cut(reflect.StructTag(stringOf(f.Tag)).Get("json"), ",")
		}
		typ := r.resolve(t, f.Type)
		switch {
		case name == "-":
		case name == "" && len(f.Names) == 0:
			if typ != nil {
				for name, f := range r.fieldsOf(typ) {
					out[name] = f
				}
			}
		case name == "":
		default:
			var gate string
			if f.Doc != nil {
				for _, line := range f.Doc.List {
					if m := gateMarker.FindStringSubmatch(line.Text); m != nil {
						gate = m[1]
					}
				}
			}
			out[name] = field{typ, gate}
		}
	}
	return out
}

// resolve returns the struct that an expression in a declaration has: itself, a pointer to it, or
// a list or map of it.
func (r *release) resolve(in *goType, e ast.Expr) *goType {
	switch e := e.(type) {
	case *ast.StarExpr:
		return r.resolve(in, e.X)
	case *ast.ArrayType:
		return r.resolve(in, e.Elt)
	case *ast.MapType:
		return r.resolve(in, e.Value)
	case *ast.Ident:
		return r.named(in.pkg.types[e.Name])
	case *ast.SelectorExpr:
		if p := r.packages[in.imports[e.X.(*ast.Ident).Name]]; p != nil {
			return r.named(p.types[e.Sel.Name])
		}
	}
	return nil
}

// named returns the struct behind a named type.
func (r *release) named(t *goType) *goType {
	if t == nil {
		return nil
	}
	if _, ok := t.expr.(*ast.StructType); ok {
		return t
	}
	return r.resolve(t, t.expr)
}

// errNoFile is returned if a file that must exist has another name in a release.
func errNoFile(what string, minor int) error { return fmt.Errorf("no %s in 1.%d", what, minor) }

package bounds_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// compilers are the packages whose calls compile expressions, and compile the names of those calls.
var (
	compilers = []string{"github.com/google/cel-go/cel", "k8s.io/apiserver/pkg/admission/plugin/cel",
		"k8s.io/apiserver/pkg/admission/plugin/policy/validating", "k8s.io/apiserver/pkg/admission/plugin/policy/mutating",
		"k8s.io/apiserver/pkg/authentication/cel", "k8s.io/apiserver/pkg/authorization/cel"}
	compile = []string{"Compile", "CompileSource", "Parse", "ParseSource", "Check", "CompileCELExpression", "CompileClaimsExpression",
		"CompileUserExpression", "CompileAndStoreVariable", "CompileAndStoreVariables", "CheckExpression", "NewCompiler", "NewConditionCompiler",
		"NewCompositedCompiler", "NewDefaultCompiler"}
)

// others are calls that compile no expressions.
var others = regexp.MustCompile(`^(jsonx|rx|bounds|a|b\.allowance|e\.shared\.allowance|\(\*rx\.Regexp\))\.[A-Z]`)

// TestCallers lists all calls that compile expressions. A new one must check the expression before, with this package.
func TestCallers(t *testing.T) {
	const root = "../../.."
	want := []string{
		"kinds/cel/bounded.go: b.CompileCELExpression",          // it checks
		"kinds/cel/bounded.go: b.compiler.CompileCELExpression", // b.check comes before
		"kinds/cel/bounded.go: plugincel.NewCompiler",
		"kinds/cel/bounded.go: plugincel.NewCompositedCompiler",
		"kinds/cel/cel.go: c.from.plain().CompileCELExpression", // of bounded.go
		"kinds/cel/policy.go: c.CompileAndStoreVariable",        // of bounded.go
		"kinds/cel/policy.go: c.CompileCELExpression",           // of bounded.go
		"kinds/cel/selectors.go: env.Compile",
		"policies/compile.go: c.CompileAndStoreVariables", // of bounded.go
		"policies/evaluator.go: kindscel.NewCompiler",     // of bounded.go
		"schema/rules/bounds/compile.go: expanding.Parse",
		"schema/rules/bounds/compile.go: parsers().plain.Parse",
		"schema/rules/cases.go: env.Parse",
		"schema/rules/expression.go: env.Compile", // compileOnce checks
		"schema/rules/fields.go: env.Parse",
		"schema/rules/texts.go: env.Parse",                 // of an expression that was compiled
		"schema/rules/typecheck/typecheck.go: e.env.Check", // Repeats bounds both
		"schema/rules/typecheck/typecheck.go: e.env.Parse",
		"server/admission/plugin.go: kindscel.NewCompiler", // of bounded.go
		"server/authentication/issuers.go: b.Compiler.CompileClaimsExpression",
		"server/authentication/issuers.go: b.Compiler.CompileUserExpression",
		"server/authentication/issuers.go: authenticationcel.NewDefaultCompiler",
		"server/authorization/config.go: authorizationcel.NewDefaultCompiler",
		"server/authorization/config.go: c.made().CompileCELExpression",
		"server/policystatus/checker.go: c.CompileAndStoreVariable", // of bounded.go
		"server/policystatus/checker.go: c.CompileCELExpression",    // of bounded.go
		"server/policystatus/checker.go: c.types.CheckExpression",   // bound checks
	}
	var got []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		if d.IsDir() && (name == "test" || name == "examples" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && name != ".") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		calls, err := calls(path)
		for _, call := range calls {
			got = append(got, filepath.ToSlash(name)+": "+call)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	got = slices.Compact(got)
	for _, call := range got {
		if !slices.Contains(want, call) {
			t.Errorf("%s: is an expression compiled that was not checked? If it was, add the call to this test", call)
		}
	}
	for _, call := range want {
		if !slices.Contains(got, call) {
			t.Errorf("%s: there is no such call any more", call)
		}
	}
}

// calls returns the calls of a file that may compile expressions.
func calls(path string) (out []string, err error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f, err := parser.ParseFile(token.NewFileSet(), path, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	dir := filepath.ToSlash(filepath.Dir(path))
	uses := strings.HasSuffix(dir, "/schema/rules") || strings.HasSuffix(dir, "/kinds/cel") || strings.HasSuffix(dir, "/policies")
	for _, i := range f.Imports {
		uses = uses || slices.Contains(compilers, strings.Trim(i.Path.Value, `"`))
	}
	if !uses {
		return nil, nil
	}
	ast.Inspect(f, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok || !slices.Contains(compile, s.Sel.Name) {
			return true
		}
		call := string(source[s.Pos()-f.FileStart : s.End()-f.FileStart])
		if !others.MatchString(call) {
			out = append(out, call)
		}
		return true
	})
	return out, nil
}

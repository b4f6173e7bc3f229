// Command lint runs the analyzers of go vet and of staticcheck on packages. Both need facts about
// all dependencies, and most of their time goes into these: one program finds them once, and only
// the cheap ones, such as what is deprecated or formats its arguments, for code of others.
//
//	go run ./lint PACKAGES
package main

import (
	"os"
	"reflect"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/appends"
	"golang.org/x/tools/go/analysis/passes/asmdecl"
	"golang.org/x/tools/go/analysis/passes/assign"
	"golang.org/x/tools/go/analysis/passes/atomic"
	"golang.org/x/tools/go/analysis/passes/bools"
	"golang.org/x/tools/go/analysis/passes/buildtag"
	"golang.org/x/tools/go/analysis/passes/cgocall"
	"golang.org/x/tools/go/analysis/passes/composite"
	"golang.org/x/tools/go/analysis/passes/copylock"
	"golang.org/x/tools/go/analysis/passes/defers"
	"golang.org/x/tools/go/analysis/passes/directive"
	"golang.org/x/tools/go/analysis/passes/errorsas"
	"golang.org/x/tools/go/analysis/passes/framepointer"
	"golang.org/x/tools/go/analysis/passes/hostport"
	"golang.org/x/tools/go/analysis/passes/httpresponse"
	"golang.org/x/tools/go/analysis/passes/ifaceassert"
	"golang.org/x/tools/go/analysis/passes/loopclosure"
	"golang.org/x/tools/go/analysis/passes/lostcancel"
	"golang.org/x/tools/go/analysis/passes/nilfunc"
	"golang.org/x/tools/go/analysis/passes/printf"
	"golang.org/x/tools/go/analysis/passes/shift"
	"golang.org/x/tools/go/analysis/passes/sigchanyzer"
	"golang.org/x/tools/go/analysis/passes/slog"
	"golang.org/x/tools/go/analysis/passes/stdmethods"
	"golang.org/x/tools/go/analysis/passes/stdversion"
	"golang.org/x/tools/go/analysis/passes/stringintconv"
	"golang.org/x/tools/go/analysis/passes/structtag"
	"golang.org/x/tools/go/analysis/passes/testinggoroutine"
	"golang.org/x/tools/go/analysis/passes/tests"
	"golang.org/x/tools/go/analysis/passes/timeformat"
	"golang.org/x/tools/go/analysis/passes/unmarshal"
	"golang.org/x/tools/go/analysis/passes/unreachable"
	"golang.org/x/tools/go/analysis/passes/unsafeptr"
	"golang.org/x/tools/go/analysis/passes/unusedresult"
	"golang.org/x/tools/go/analysis/passes/waitgroup"
	"honnef.co/go/tools/analysis/lint"
	"honnef.co/go/tools/lintcmd"
	"honnef.co/go/tools/lintcmd/version"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"
	"honnef.co/go/tools/stylecheck"
	"honnef.co/go/tools/unused"
)

// vet returns the analyzers of go vet.
func vet() []*analysis.Analyzer {
	return []*analysis.Analyzer{
		appends.Analyzer,
		asmdecl.Analyzer,
		assign.Analyzer,
		atomic.Analyzer,
		bools.Analyzer,
		buildtag.Analyzer,
		cgocall.Analyzer,
		composite.Analyzer,
		copylock.Analyzer,
		defers.Analyzer,
		directive.Analyzer,
		errorsas.Analyzer,
		framepointer.Analyzer,
		httpresponse.Analyzer,
		hostport.Analyzer,
		ifaceassert.Analyzer,
		loopclosure.Analyzer,
		lostcancel.Analyzer,
		nilfunc.Analyzer,
		printf.Analyzer,
		shift.Analyzer,
		sigchanyzer.Analyzer,
		slog.Analyzer,
		stdmethods.Analyzer,
		stdversion.Analyzer,
		stringintconv.Analyzer,
		structtag.Analyzer,
		tests.Analyzer,
		testinggoroutine.Analyzer,
		timeformat.Analyzer,
		unmarshal.Analyzer,
		unreachable.Analyzer,
		unsafeptr.Analyzer,
		unusedresult.Analyzer,
		waitgroup.Analyzer,
	}
}

// checks returns the analyzers of staticcheck.
func checks() []*lint.Analyzer {
	all := []*lint.Analyzer{unused.Analyzer}
	all = append(all, simple.Analyzers...)
	all = append(all, staticcheck.Analyzers...)
	return append(all, stylecheck.Analyzers...)
}

// skipBodies lets an analyzer return nothing for packages of others, and those that it requires.
// buildir compiles all function bodies of a package: for the dependencies, that takes longer than
// everything else, to find out which functions are pure, never return nil, or want pairs of
// arguments.
func skipBodies(a *analysis.Analyzer, seen map[*analysis.Analyzer]bool) {
	if seen[a] {
		return
	}
	seen[a] = true
	for _, required := range a.Requires {
		skipBodies(required, seen)
	}
	if a.Name != "buildir" {
		return
	}
	run := a.Run
	a.Run = func(pass *analysis.Pass) (any, error) {
		if isOthers(pass.Pkg.Path()) {
			return reflect.New(a.ResultType.Elem()).Interface(), nil
		}
		return run(pass)
	}
}

// isOthers reports whether a package is neither ours nor of the standard library. The module of the tutorial has
// the path that its readers choose.
func isOthers(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return strings.Contains(first, ".") && !strings.HasPrefix(first, "espalier.dev") && first != "example.com"
}

func main() {
	cmd := lintcmd.NewCommand("lint")
	cmd.SetVersion(version.Version, version.MachineVersion)
	cmd.ParseFlags(os.Args[1:])
	seen := map[*analysis.Analyzer]bool{}
	for _, a := range checks() {
		skipBodies(a.Analyzer, seen)
	}
	cmd.AddAnalyzers(checks()...)
	cmd.AddBareAnalyzers(vet()...)
	cmd.Run()
}

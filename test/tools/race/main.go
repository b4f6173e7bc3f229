// Command race runs the tests of concurrent packages with the race detector: of every package that
// starts a goroutine, has a lock or an atomic value, and of those whose values goroutines share.
//
//	go run ./race DIR GOTESTSUM…
//	go run ./race -complete DIR
//
// The arguments after the directory are the command that runs the tests. The second form lists the
// packages whose tests all run with the race detector: CI does not run them without it.
package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// shared are packages that need none of these for values that goroutines share.
var shared = []string{
	".", "schema", "schema/rules", "schema/rules/bounds", "crd/cel", "crd/compliance", "kinds", "analysis/lookup", "server/fields",
	"server/definitions/protobuf", "espaliertest",
}

// chosen are the tests of packages whose other tests take long, and find no other races.
var chosen = map[string]string{
	"server":       "PodsWithoutNodes|PodQuarantine",
	"cmd/espalier": "Progress|Interrupt|Watch|Assemble|UnusedDefinitions",
}

// skipped are tests with large inputs: they take long, and find no other races.
const skipped = "Corpus|Hostile|Growth|Expensive|Budget|ManyBroken|Skeleton|Transforms|Convert|" +
	"DamagedFiles|CheckPages|SpaceLive|TypesOfApply|TestSets|TooManyItems|ManyCombinations|ApplyOrder|KeptIsBounded|ResetLarge|Faults|Ahead|" +
	"DefaultedSize|CostlyCall|PatternWork|TooMuchWork|LargestDefaults|MessageSize|TooComplex|TestAllowance|TestPolicyTypes|TestBounds"

// servers are the tests of packages below the server that start a whole server, and find no other
// races.
var servers = map[string]string{
	"server/admission":      "OtherPlugins",
	"server/authentication": "Auth|AuthenticationConfig|OIDCFlags|TokenWebhook|RequestHeaders|Anonymous|Tokens|TokenKeys|TokenAudit",
	"server/authorization":  "Authorization|Impersonation|AuthorizationModes|PolicyIsReconciled|SecurityExamples|RBAC",
	"server/builtin":        "Kinds|RuntimeConfig|CostlyQuantities",
	"server/compliance":     "CheckStoredObjects",
	"server/definitions":    "DefinitionBodies|LargeDefinition|CRDDeletion|Cycles|WatchOfChangingCRD|CorruptCRD|NamesGivenUp",
	"server/encryption":     "Encryption|EncryptionRules|EncryptionWrongKey|EncryptionMistakes|EncryptionRemoved",
	"server/gc":             "ControllersOff|Garbage|GarbageCycles",
	"server/namespaces":     "NamespaceWithoutFinalizers",
	"server/peers":          "Servers|ServerBehind",
	"server/quota":          "ResourceQuota|QuotaServers",
	"server/custom":         "Reads|ReadsEdges|ReadForms|ReadRows|Ages|ConversionWebhook|ApplyScale|PruningCost|DeleteWithNewFinalizer",
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "race:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 {
		return errors.New("usage: race DIR GOTESTSUM…, or race -complete DIR")
	}
	list := args[0] == "-complete"
	if list {
		args = args[1:]
	}
	rest, err := whole(args[0])
	if err != nil {
		return err
	}
	var below []string
	rest = slices.DeleteFunc(rest, func(dir string) bool {
		if servers[dir] != "" {
			below = append(below, dir)
		}
		return servers[dir] != ""
	})
	if list {
		for _, dir := range rest {
			if ok, err := isComplete(filepath.Join(args[0], dir)); err != nil {
				return err
			} else if ok {
				fmt.Println(path.Join("espalier.dev", dir))
			}
		}
		return nil
	}
	names := strings.Join(slices.Sorted(maps.Values(servers)), "|")
	err = errors.Join(test(args, rest, "-short", "-skip="+skipped), test(args, below, "-short", "-skip="+skipped+"|^Test("+names+")$"))
	for _, dir := range slices.Sorted(maps.Keys(chosen)) {
		err = errors.Join(err, test(args, []string{dir}, "-run=^Test("+chosen[dir]+")"))
	}
	return err
}

// whole returns the directories of the packages of which not only chosen tests run.
func whole(root string) ([]string, error) {
	dirs, err := concurrent(root)
	if err != nil {
		return nil, err
	}
	for _, dir := range shared {
		if _, err := os.Stat(filepath.Join(root, dir)); err != nil {
			return nil, err
		}
		dirs = append(dirs, dir)
	}
	dirs = slices.Compact(slices.Sorted(slices.Values(dirs)))
	return slices.DeleteFunc(dirs, func(dir string) bool { return chosen[dir] != "" }), nil
}

// isComplete reports whether no test of a package is skipped, nor does less with -short.
func isComplete(dir string) (bool, error) {
	isTest, isSkipped := regexp.MustCompile("^(Test|Fuzz|Example)"), regexp.MustCompile(skipped)
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return false, err
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return false, err
		}
		complete := true
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if isTest.MatchString(n.Name.Name) && isSkipped.MatchString(n.Name.Name) {
					complete = false
				}
			case *ast.SelectorExpr:
				if pkg, ok := n.X.(*ast.Ident); ok && pkg.Name == "testing" && n.Sel.Name == "Short" {
					complete = false
				}
			}
			return complete
		})
		if !complete {
			return false, nil
		}
	}
	return true, nil
}

// test runs the tests of packages below a directory. args are those of the program.
func test(args, packages []string, flags ...string) error {
	args = append(slices.Clone(args), "--packages", "./"+strings.Join(packages, " ./"), "--", "-race", "-timeout=30m")
	cmd := exec.Command(args[1], append(args[2:], flags...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = args[0], os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	fmt.Println(strings.Join(cmd.Args, " "))
	return cmd.Run()
}

// concurrent returns the directories of packages that start a goroutine or have a lock or an atomic
// value, below the root of a module.
func concurrent(root string) (dirs []string, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if _, err := os.Stat(filepath.Join(path, "go.mod")); path != root && err == nil || d.Name() == "testdata" || d.Name() == ".git" {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if dir, err := filepath.Rel(root, filepath.Dir(path)); err == nil && isConcurrent(file) && !slices.Contains(dirs, dir) {
			dirs = append(dirs, filepath.ToSlash(dir))
		}
		return nil
	})
	return dirs, err
}

// isConcurrent reports whether a file starts a goroutine or has a lock or an atomic value.
func isConcurrent(file *ast.File) (found bool) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = true
		case *ast.SelectorExpr:
			pkg, ok := n.X.(*ast.Ident)
			found = found || ok && (pkg.Name == "sync" && slices.Contains([]string{"Mutex", "RWMutex", "WaitGroup", "Cond", "Map"}, n.Sel.Name) || pkg.Name == "errgroup" || pkg.Name == "atomic")
		}
		return !found
	})
	return found
}

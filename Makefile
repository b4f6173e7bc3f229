# The targets need only Go; race also needs a C compiler.
# `make help` lists the targets.

SHELL := bash
.SHELLFLAGS := -o pipefail -c
.DEFAULT_GOAL := help

# Each module is built and tested separately, so that the dependencies of those
# under test/ stay out of the product's go.mod. test/oracle36 and cluster/components take minutes to build,
# because they contain most of Kubernetes: oracle-builtin and cluster-check check them.
MODULES := $(sort $(dir $(shell find . -name go.mod -not -path '*/testdata/*' -not -path './.git/*' -not -path './dist/*' \
  -not -path './test/oracle36/*' -not -path './cluster/components/*')))

TOOL := go tool -modfile=$(CURDIR)/test/tools/go.mod

# vet is a target of its own, and neither tests nor the programs that they build need debug
# information: without both they are built in much less time.
export GOFLAGS := $(strip $(shell go env GOFLAGS) -vet=off -ldflags=-w)

# A test that fails is repeated, at most twice, and the summary names it: of thousands of tests
# with real processes, one may fail on a busy machine. Nothing is repeated if more than three
# tests fail, if a program panics, or if the race detector reports something.
TEST := $(TOOL) gotestsum --format pkgname-and-test-fails --rerun-fails=2 --rerun-fails-max-failures=3 \
  --rerun-fails-run-root-test --rerun-fails-abort-on-data-race

# Runs $(1) in every module, and fails at the end if it failed in one.
define each-module
	@rc=0; for m in $(MODULES); do \
	  echo "== $$m: $(1)"; (cd "$$m" && $(1)) || rc=1; \
	done; exit $$rc
endef

.PHONY: help
help: ## list all targets
	@set +o pipefail; grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## (.*)/  \1\t\2/' | expand -t 22

.PHONY: build
build: ## compile all packages of all modules
	$(call each-module,go build ./...)

# The modules that make test takes, with -short. The packages that take longest are first, so that they do not run alone at the end.
# Of test/oracle it takes the recorded answers, which need no reference.
FAST  := ./ ./test/tools/ ./test/oracle/
FIRST := ./server ./cmd/espalier ./server/custom ./espaliertest ./schema
packages-in = $(if $(filter ./,$(1)),$(FIRST) ./...,$(if $(filter ./test/oracle/,$(1)),./answers,./...))

# Tests that need the program take it from bin.
IN_BIN := ESPALIER_BIN='$(CURDIR)/bin'

# The flavors of the program that tests use. espalier-editor needs the bundle of make editor.
PROGRAMS := espalier

.PHONY: bin
bin: ## build the program for tests in bin
	@go run ./internal/program/cmd -o bin $(PROGRAMS) >/dev/null

.PHONY: test
test: bin ## test the behaviour of the product, in minutes
	@$(MAKE) --no-print-directory --keep-going --jobs 2 $(FAST:%=fast@%)

.PHONY: $(FAST:%=fast@%)
$(FAST:%=fast@%): fast@%:
	@echo "== $*"; cd '$*' && $(IN_BIN) $(TEST) --packages "$(call packages-in,$*)" -- -short -p=2 -timeout=15m

.PHONY: check
check: ## test, then what it leaves out: slow tests, real etcd, the race detector, the other modules, vet
	@$(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory rest

# Modules that only targets of make nightly use, and what make check takes of others that build other projects: the rest of
# these is in make modules.
AT_NIGHT := ./test/kine/ ./site/hugo/ ./test/bench/cli/others/kubeconform/ ./test/bench/cli/others/kubectlvalidate/ \
  ./test/oracle21/ ./test/oracle21/compare/
sample-of = $(if $(filter ./test/conformance/,$(1)),./clients ./kubectl,$(if $(filter ./test/envtest/,$(1)),./suites,./...))
run-of = $(if $(filter ./test/generate/,$(1)),-run='^Test(Committed|Values|DeepCopy|Client|PodSpec|ProtoNames)$$')

# Two parts at a time, one package of each, because tests also wait. vet is last, because it uses what the others have compiled.
REST := slow race oracle store-rows $(patsubst %,test@%,$(filter-out $(FAST) $(AT_NIGHT),$(MODULES))) vet

.PHONY: rest
rest: ## what make check does after make test
	@$(MAKE) --no-print-directory bin PROGRAMS="espalier espalier-cli $$([ ! -f web/page/bundle/codemirror.js ] || echo espalier-editor)"
	@$(MAKE) --no-print-directory --keep-going --output-sync=target --jobs 2 GOFLAGS='$(GOFLAGS) -p=1' $(REST)

.PHONY: slow
slow: ## run the tests that make test leaves out or shortens
	@rc=0; $(foreach m,$(FAST),echo "== $m: slow tests"; (cd $m && $(IN_BIN) $(CURDIR)/scripts/slow-tests.sh "$(call packages-in,$m)" $(TEST)) || rc=1;) exit $$rc

.PHONY: oracle
oracle: ## compare with the reference, beside what make test has compared with recorded answers
	@cd test/oracle && $(IN_BIN) $(TEST) --packages "$$(go list ./... | grep -v '/answers$$')" -- -timeout=30m

.PHONY: store-rows
store-rows: ## prove the behaviours of servers on a real etcd
	@cd test/tools && $(IN_BIN) go run ./prove ../.. server

$(filter test@%,$(REST)): test@%:
	@echo "== $*"; cd '$*' && $(IN_BIN) $(TEST) --packages "$(call sample-of,$*)" -- -timeout=30m $(call run-of,$*)

# What is compiled from TypeScript is committed, so that go install needs neither esbuild nor Node.
.PHONY: page
page: ## compile the web page, and check its types if npx is installed
	cd test/tools && go run ./page ../..
	@if command -v npx >/dev/null; then $(MAKE) --no-print-directory types; else echo "the types are not checked: npx is not installed"; fi

.PHONY: types
types: ## check the types of the web page; needs Node.js
	cd web/page/src && npx --yes --package typescript@5.9 tsc --project .

# The versions and hashes of the packages are in package-lock.json. None of their scripts is run.
.PHONY: editor
editor: ## bundle CodeMirror for the web page, in web/page/bundle; needs Node.js, and downloads packages with npm
	cd web/page/codemirror && npm ci --ignore-scripts --no-audit --no-fund && npx --yes --package typescript@5.9 tsc --project .
	cd test/tools && go run ./page -editor ../..

# The same commit gives the same files: paths and the version of the tree are left out.
.PHONY: web
web: ## write the web page with the engine as WebAssembly to dist/web, for static hosts; PLAIN=1 leaves out CodeMirror
	rm -rf dist/web && mkdir -p dist/web && cp web/page/static/* dist/web/
	@if [ -n '$(PLAIN)' ] || ! command -v npm >/dev/null; then echo "without CodeMirror, the page has its plain editor: install npm"; else \
	  $(MAKE) --no-print-directory editor && cp web/page/bundle/* dist/web/ && \
	  sed 's|<script src="page.js"|<script src="codemirror.js" defer></script>&|' web/page/static/index.html >dist/web/index.html; fi
	cp "$$(go env GOROOT)/lib/wasm/wasm_exec.js" dist/web/
	web/wasm/build.sh dist/web/espalier.wasm dist/work && web/wasm/build.sh dist/web/small.wasm dist/work small
	gzip -9 -n -k -f dist/web/espalier.wasm dist/web/small.wasm && ls -l dist/web

# Hugo has a module of its own, so that nothing else depends on it; building it takes minutes at first.
.PHONY: docs
docs: web ## write the documentation as a static site to dist/site
	cd site && go run .

.PHONY: vet
vet: ## gofmt, wordings, and the checks of go vet and staticcheck on every module
	@echo "== gofmt"; bad=$$(gofmt -l .); if [ -n "$$bad" ]; then echo "not formatted:"; echo "$$bad"; exit 1; fi
	@echo "== wordings"; cd test/tools && go run ./words ../..
	@bin=$$(mktemp -d) && trap 'rm -rf "$$bin"' EXIT && rc=0 && cd test/tools && go build -o "$$bin/lint" ./lint && cd ../.. || exit 1; \
	  for m in $(MODULES); do echo "== $$m: lint ./..."; (cd "$$m" && "$$bin/lint" ./...) || rc=1; done; exit $$rc

# The concurrent core. make race-server tests the whole server.
RACE := $(addprefix ./,internal/intern internal/lru internal/memnet internal/process store/... crd kinds policies \
  cmd/espalier/internal/input cmd/espalier/internal/lsp cmd/espalier/internal/source cmd/espalier/internal/ui \
  $(addprefix server/,backend compiling etcd/memory fairness faults fence fields follow publish rest tokens webhooks))

.PHONY: race
race: ## run the tests of the concurrent core with the race detector
	@CGO_ENABLED=1 $(IN_BIN) $(TEST) --packages "$(RACE)" -- -race -short -timeout=30m

# The components of the simulated cluster take minutes to build at first, so neither build nor test does.
.PHONY: cluster
cluster: ## run a simulated cluster: espalier serve, kube-controller-manager, kube-scheduler and kwok; CLUSTER_FLAGS='--nodes 3 --storage memory'
	@$(MAKE) --no-print-directory bin && go build -C cluster -o ../bin/cluster . && \
	  bin/cluster --espalier bin/espalier $(CLUSTER_FLAGS)

.PHONY: vuln
vuln: ## check the product and its dependencies for known vulnerabilities
	@scripts/vuln.sh $(TOOL) govulncheck ./...

.PHONY: prove
prove: ## run the tests of a behaviour or of a clause of it: make prove ROW=P-07, ROW=P-07a; without ROW, list all with their tests
	@cd test/tools && go run ./prove ../.. $(ROW)

.PHONY: golden
golden: ## update all golden files
	go test ./cmd/espalier -run '^TestCommands$$' -update
	cd test/tools && go test ./goapi -run '^TestReleased$$' -update
	go test ./schema -run '^TestDocuments$$' -update
	go test ./openapi -run '^(TestDocs|TestMarkers)$$' -update
	ESPALIER_WHOLE_CORPUS=1 go test ./analysis/lint -run '^TestCorpus$$' -update
	ESPALIER_WHOLE_CORPUS=1 go test ./analysis/fix -run '^(TestCases|TestCorpus|TestRewritten)$$' -update
	go test ./analysis/lint -run '^(TestCases|TestRules|TestDifferences)$$' -update
	go test ./analysis/impact ./analysis/upgrade ./analysis/explain/... ./analysis/generate/... -run '^(TestPairs|TestPlans|TestText|TestGolden|TestValues|TestEdits|TestMatches|TestErrorTexts|TestReserved|TestForeignDescriptors|TestMapping)$$' -update
	go test ./analysis/lookup ./analysis/timeline ./internal/yamledit -run '^(TestFind|TestResources|TestMissing|TestDiff|TestEdit)$$' -update
	go test ./analysis/assist ./analysis/audit ./analysis/jsonschema ./analysis/object ./analysis/replay ./analysis/suite ./analysis/why -run '^(TestDocuments|TestGolden|TestLogs|TestSummary)$$' -update
	go test ./cmd/espalier -run '^(TestScripts|TestConfigSchema)$$' -update
	go test ./cmd/espalier ./kinds -run '^TestReference' -update
	cd test/monitoring && go test . -run '^TestMetrics$$' -update

.PHONY: releases
releases: ## regenerate the tables of kinds/releases; downloads all releases of Kubernetes
	cd test/tools && go run ./releases ../..

.PHONY: release
release: ## build a release in dist/VERSION: make release VERSION=v1.0.0 KEY=FILE or UNSIGNED=1 [PLATFORMS=linux/amd64] [IMAGE=NAME] [PLAIN=1]
	@cd release && go run . build --source '$(CURDIR)' --version '$(VERSION)' --output '$(CURDIR)/dist/$(VERSION)' $(RELEASE_FLAGS)

RELEASE_FLAGS = $(if $(KEY),--key '$(abspath $(KEY))') $(if $(UNSIGNED),--unsigned) $(if $(PLATFORMS),--platforms '$(PLATFORMS)') \
  $(if $(FLAVORS),--flavors '$(FLAVORS)') $(if $(BASE_URL),--base-url '$(BASE_URL)') \
  $(if $(PLAIN),--plain) $(if $(IMAGE),--image '$(IMAGE)') $(if $(BUILDER),--builder '$(BUILDER)')

.PHONY: release-check
release-check: ## build a release twice, compare, install and run it: make release-check VERSION=v1.0.0 [PLATFORMS=linux/amd64] [COLD=1]
	@COLD='$(COLD)' release/check.sh '$(VERSION)' '$(PLATFORMS)'

.PHONY: vscode
vscode: ## package the extension for Visual Studio Code; needs Node.js, and downloads its dependencies with npm
	cp LICENSE editors/vscode/
	cd editors/vscode && npm install --no-audit --no-fund --no-package-lock && npm run package

.PHONY: ci
ci: ## run everything that must pass before a change is merged
	@.ci/run

# Runs that take long, and benchmarks.
include test/long.mk test/bench.mk

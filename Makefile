# Every target needs Go and nothing else (race needs a C compiler too).
# `make help` lists the targets.

SHELL := bash
.DEFAULT_GOAL := help

# Each module is built and tested on its own: the heavy dependencies of those
# under test/ stay out of the product's go.mod.
MODULES := $(sort $(dir $(shell find . -name go.mod -not -path '*/testdata/*' -not -path './.git/*')))

# Packages whose values are shared between goroutines. What is made to be large tells
# the race detector nothing that the rest does not.
CONCURRENT := -skip 'Hostile|Growth|Expensive|Budget|ManyBroken|Skeleton|Forms|Convert' . ./schema/... ./crd/...
SERVING    := -short -skip 'Corpus' ./server/definitions ./server/fence ./server/resources ./server/publish ./espaliertest

FUZZTIME     ?= 1m
ORACLE_CASES ?= 1000000
KILL_ROUNDS  ?= 1000
CYCLES       ?= 1000

TOOL := go tool -modfile=$(CURDIR)/test/tools/go.mod

# Runs $(1) in every module, all of them even if one fails.
define each-module
	@rc=0; for m in $(MODULES); do \
	  echo "== $$m: $(1)"; (cd "$$m" && $(1)) || rc=1; \
	done; exit $$rc
endef

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 22

.PHONY: build
build: ## compile every package of every module
	$(call each-module,go build ./...)

.PHONY: test
test: ## run the tests of every module
	$(call each-module,go test ./...)

.PHONY: prove
prove: ## run the proof of one behaviour: make prove ROW=P-07
	@scripts/prove.sh '$(ROW)' $(MODULES)

.PHONY: vet
vet: ## gofmt, go vet and staticcheck on every module
	@echo "== gofmt"; bad=$$(gofmt -l .); if [ -n "$$bad" ]; then echo "not formatted:"; echo "$$bad"; exit 1; fi
	$(call each-module,go vet ./...)
	$(call each-module,$(TOOL) staticcheck ./...)

.PHONY: race
race: ## test the concurrent packages with the race detector
	CGO_ENABLED=1 go test -race $(CONCURRENT)
	CGO_ENABLED=1 go test -race $(SERVING)

.PHONY: kill
kill: ## kill a server KILL_ROUNDS times while clients write: nothing is lost, and no CRD is stranded
	ESPALIER_CRASH_ROUNDS='$(KILL_ROUNDS)' go test -count=1 -timeout=0 -v -run '^TestCrash$$' ./server

.PHONY: cycles
cycles: ## define, use and delete CRDs CYCLES times: no goroutine, file or connection is left
	ESPALIER_CYCLES='$(CYCLES)' go test -count=1 -timeout=0 -v -run '^TestCycles$$' ./server

.PHONY: vuln
vuln: ## look for known vulnerabilities in what the product uses
	@scripts/vuln.sh $(TOOL) govulncheck ./...

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME, then the oracle on ORACLE_CASES cases
	@FUZZTIME='$(FUZZTIME)' scripts/fuzz.sh $(MODULES)
	cd test/oracle && ORACLE_CASES='$(ORACLE_CASES)' go test -count=1 -timeout=0 -v -run '^TestGenerated' .

.PHONY: bench-engine
bench-engine: ## compare the engine's speed with the reference's; BENCH_JSON=file keeps the numbers
	cd test/bench && BENCH_JSON='$(if $(BENCH_JSON),$(abspath $(BENCH_JSON)))' go run ./engine

.PHONY: bench-rules
bench-rules: ## compare the speed of CEL rules with the reference's, on the corpus
	cd test/oracle && go test -run '^$$' -bench Rules -benchmem .

.PHONY: bench-start
bench-start: ## measure the server: start to ready, memory, stop; in a process and in a test
	@bin=$$(mktemp -d) && trap 'rm -rf "$$bin"' EXIT && \
	  go build -o "$$bin/espalier" ./cmd/espalier && (cd test/bench && go run ./start "$$bin/espalier")
	go test -run '^$$' -bench Start -benchtime 11x ./espaliertest ./server 2>&1 | grep -E '^(Benchmark|ok|FAIL|---)'

.PHONY: bench-start-crds
bench-start-crds: ## measure a start with CRDS large CRDs: CPU time until ready, heap against their size
	go test -run '^$$' -bench StartLoaded -benchtime 1x -timeout 30m ./server -crds '$(or $(CRDS),4000)' 2>&1 | grep -E '^(Benchmark|ok|FAIL|---)'

.PHONY: bench-cli
bench-cli: ## compare espalier validate with kubeconform and kubectl-validate, on the corpus
	cd test/bench && go run ./cli

.PHONY: corpus
corpus: ## put the whole corpus on one server (make test takes a part of it)
	ESPALIER_WHOLE_CORPUS=1 go test -count=1 -timeout=60m -v -run '^TestCorpus$$' ./server

.PHONY: conformance
conformance: ## run the reference's integration suite against the server; takes minutes
	cd test/conformance && CONFORMANCE=1 go test ./reference -count=1 -timeout 60m

.PHONY: golden
golden: ## write the golden files anew from what the code does
	go test ./schema -run '^TestDocuments$$' -update
	go test ./openapi -run '^TestDocs$$' -update
	go test ./analysis/lint -run '^TestCorpus$$' -update
	go test ./analysis/fix -run '^(TestCases|TestCorpus)$$' -update
	go test ./cmd/espalier -run '^TestScripts$$' -update

.PHONY: golden-conformance
golden-conformance: ## write anew which tests of the reference's suite pass; takes minutes
	cd test/conformance && go test ./reference -count=1 -timeout 60m -update

.PHONY: ci
ci: ## everything that must pass before a change is merged
	@.ci/run

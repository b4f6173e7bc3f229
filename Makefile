# The targets need only Go; race also needs a C compiler.
# `make help` lists the targets.

SHELL := bash
.DEFAULT_GOAL := help

# Each module is built and tested separately, so that the dependencies of those
# under test/ stay out of the product's go.mod. test/oracle36 takes minutes to build, because it
# contains most of Kubernetes: oracle-builtin checks it.
MODULES := $(sort $(dir $(shell find . -name go.mod -not -path '*/testdata/*' -not -path './.git/*' -not -path './test/oracle36/*')))

# The sizes of long runs. Each target ends within 20 minutes on two cores; larger numbers find
# more: `make kill KILL_ROUNDS=1000`, `make fuzz FUZZTIME=10m`.
FUZZTIME        ?= 10s
REPLAY_OBJECTS  ?= 30000
ORACLE_CASES    ?= 100000
CRD_UPDATES     ?= 10000
FIELD_STEPS     ?= 10000
BUILTIN_CASES   ?= 2000
BUILTIN_MODULES ?=
HELM_VERSION    ?= v3.22.0
RECORDED        := ^Test(Builtin|BuiltinAdmission|Policy|RBAC|ReviewsOfAccess)$$
RBAC_CASES      ?= 100000
KILL_ROUNDS     ?= 100
CYCLES          ?= 1000
LOAD_CLIENTS    ?= 1000
MUTANT_JOBS     ?= 2
ROBUSTNESS_TIME ?= 5m
ENVTEST_TURNS   ?= 1

TOOL := go tool -modfile=$(CURDIR)/test/tools/go.mod

# vet is a target of its own, and tests need no debug information: without both they are built in
# much less time.
TEST := go test -vet=off -ldflags=-w -timeout 30m

# Runs $(1) in every module, and fails at the end if it failed in one.
define each-module
	@rc=0; for m in $(MODULES); do \
	  echo "== $$m: $(1)"; (cd "$$m" && $(1)) || rc=1; \
	done; exit $$rc
endef

.PHONY: help
help: ## list all targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 22

.PHONY: build
build: ## compile all packages of all modules
	$(call each-module,go build ./...)

# Two modules at a time: most of their time, one package is left that keeps one core busy.
.PHONY: test
test: ## run the tests of all modules
	@$(MAKE) --no-print-directory --keep-going --jobs 2 $(MODULES:%=test@%)

.PHONY: $(MODULES:%=test@%)
$(MODULES:%=test@%): test@%:
	@echo "== $*: $(TEST) ./..."; cd '$*' && $(TEST) -p 1 ./...

.PHONY: oracle-builtin
oracle-builtin: ## compare BUILTIN_CASES objects of each of Kubernetes' own kinds, more than 100,000 in all, and the manifests of BUILTIN_MODULES (path@version …)
	cd test/oracle36 && go vet ./... && go test ./...
	cd test/oracle && ORACLE36=$${ORACLE36:-build} BUILTIN_SEED=$${BUILTIN_SEED:-$$(date +%s)} BUILTIN_CASES='$(BUILTIN_CASES)' BUILTIN_MODULES='$(BUILTIN_MODULES)' go test -count=1 -timeout=0 -v -run '^Test(Builtin|Tables)' .

.PHONY: replay-builtin
replay-builtin: ## send REPLAY_OBJECTS objects of Kubernetes' own kinds below REPLAY_DIR, the module cache by default, to validate and to a server, and expect the same verdicts
	ESPALIER_REPLAY="$${REPLAY_DIR:-$$(go env GOMODCACHE)}" ESPALIER_REPLAY_OBJECTS='$(REPLAY_OBJECTS)' go test -count=1 -v -timeout 30m -run '^TestBuiltinReplay$$' ./cmd/espalier

.PHONY: golden-builtin
golden-builtin: ## record the reference's answers for the tests of Kubernetes' own kinds
	cd test/oracle && ORACLE36=$${ORACLE36:-build} ORACLE36_RECORD=all go test -count=1 -timeout=0 -run '$(RECORDED)' .
	cd test/oracle && ORACLE36= go test -count=1 -run '$(RECORDED)' .

# Public projects with manifests or Helm charts.
MANIFEST_MODULES ?= \
  github.com/argoproj/argo-cd/v3@v3.5.6 \
  github.com/argoproj/argo-rollouts@v1.10.1 \
  github.com/cert-manager/cert-manager@v1.21.2 \
  github.com/cilium/cilium@v1.20.2 \
  github.com/fluxcd/flux2/v2@v2.9.5 \
  github.com/grafana/mimir@v1.3.1-0.20260423142704-aced80d74930 \
  github.com/kedacore/keda/v2@v2.21.0 \
  github.com/kyverno/kyverno@v1.19.1 \
  github.com/open-policy-agent/gatekeeper/v3@v3.23.1 \
  github.com/prometheus-operator/prometheus-operator@v0.85.0 \
  github.com/stefanprodan/podinfo@v1.8.1-0.20250910200901-e86405a8674e \
  github.com/traefik/traefik/v3@v3.7.13 \
  istio.io/istio@v0.0.0-20260827124520-eed52ebb66ad \
  k8s.io/ingress-nginx@v0.0.0-20240708192948-52c50467d67d \
  knative.dev/serving@v0.42.2 \
  sigs.k8s.io/cluster-api@v1.14.2 \
  sigs.k8s.io/metrics-server@v0.9.0

.PHONY: oracle-manifests
oracle-manifests: ## compare the manifests and Helm charts of MANIFEST_MODULES (path@version …)
	dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && GOBIN="$$dir" GOFLAGS= go install helm.sh/helm/v3/cmd/helm@$(HELM_VERSION) && \
	cd test/oracle && BUILTIN_HELM="$$dir/helm" BUILTIN_MODULES='$(MANIFEST_MODULES)' go test -count=1 -timeout=0 -v -run '^TestBuiltin$$/^manifests$$' .

.PHONY: oracle-rbac
oracle-rbac: ## compare RBAC_CASES decisions of the RBAC authorizer with Kubernetes' own evaluation
	cd test/oracle && ORACLE36=$${ORACLE36:-build} RBAC_SEED=$${RBAC_SEED:-$$(date +%s)} RBAC_CASES='$(RBAC_CASES)' go test -count=1 -timeout=0 -v -run '^TestRBAC$$' .

.PHONY: prove
prove: ## run the tests of a behaviour: make prove ROW=P-07; without ROW, list the behaviours without tests
	@cd test/tools && go run ./prove ../.. $(ROW)

.PHONY: mutants
mutants: ## break behaviours one at a time and expect their tests to fail: make mutants ROW=P-07 MUTANT_JOBS=4
	@cd test/tools && go run ./mutants -j '$(MUTANT_JOBS)' ../.. $(ROW)

.PHONY: vet
vet: ## gofmt, wordings, and the checks of go vet and staticcheck on every module
	@echo "== gofmt"; bad=$$(gofmt -l .); if [ -n "$$bad" ]; then echo "not formatted:"; echo "$$bad"; exit 1; fi
	@echo "== wordings"; cd test/tools && go run ./words ../..
	@bin=$$(mktemp -d) && trap 'rm -rf "$$bin"' EXIT && rc=0 && cd test/tools && go build -o "$$bin/lint" ./lint && cd ../.. || exit 1; \
	  for m in $(MODULES); do echo "== $$m: lint ./..."; (cd "$$m" && "$$bin/lint" ./...) || rc=1; done; exit $$rc

.PHONY: race
race: ## run the concurrent packages with the race detector
	@cd test/tools && go run ./race ../..

.PHONY: kill
kill: ## kill a server KILL_ROUNDS times under load, and check that no data is lost, no CRD is stuck, and the right objects are collected
	ESPALIER_CRASH_ROUNDS='$(KILL_ROUNDS)' ESPALIER_GARBAGE_KILLS='$(KILL_ROUNDS)' go test -count=1 -timeout=0 -v -run '^Test(Crash|GarbageKilled)$$' ./server

.PHONY: cycles
cycles: ## create, use and delete CRDs CYCLES times, and look for leaked goroutines, files and connections
	ESPALIER_CYCLES='$(CYCLES)' go test -count=1 -timeout=0 -v -run '^TestCycles$$' ./server

.PHONY: race-server
race-server: ## test the whole server with the race detector; takes minutes
	CGO_ENABLED=1 go test -race -short -timeout 30m -skip Corpus ./server/...

.PHONY: vuln
vuln: ## check the product and its dependencies for known vulnerabilities
	@scripts/vuln.sh $(TOOL) govulncheck ./...

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME, then the oracle on ORACLE_CASES generated cases, CRD_UPDATES writes of CRDs and FIELD_STEPS writes of objects
	@FUZZTIME='$(FUZZTIME)' scripts/fuzz.sh $(MODULES)
	cd test/oracle && ORACLE_CASES='$(ORACLE_CASES)' ORACLE_CRD_UPDATES='$(CRD_UPDATES)' go test -count=1 -timeout=0 -v -run '^(TestGenerated|TestWholeCRDUpdate)' .
	cd test/oracle && ORACLE_SEED=$${ORACLE_SEED:-$$(date +%s)} ORACLE_FIELD_STEPS='$(FIELD_STEPS)' go test -count=1 -timeout=0 -v -run '^TestFields$$' .

.PHONY: generate-corpus
generate-corpus: ## generate types for all CRDs of the corpus, compile them, and derive the schemas again from the Go types
	ESPALIER_WHOLE_CORPUS=1 go test -count=1 -timeout 0 -v -run Corpus ./analysis/generate/...
	cd test/generate && ESPALIER_WHOLE_CORPUS=1 go test -count=1 -timeout 0 -v ./...

.PHONY: bench-engine
bench-engine: ## benchmark the engine against the reference; BENCH_JSON=file saves the numbers
	cd test/bench && BENCH_JSON='$(if $(BENCH_JSON),$(abspath $(BENCH_JSON)))' go run ./engine

.PHONY: bench-rules
bench-rules: ## benchmark the CEL rules of the corpus against the reference
	cd test/oracle && go test -run '^$$' -bench Rules -benchmem .

.PHONY: bench-admission
bench-admission: ## measure the CPU time of a CREATE without admission policies, and with 20 that match, and of a start
	go test -run '^$$' -bench Create -benchtime 3000x ./server/admission 2>&1 | grep -E '^(Benchmark|ok|FAIL|---)'
	go test -run '^$$' -bench Start -benchtime 20x ./server/admission 2>&1 | grep -E '^(Benchmark|ok|FAIL|---)'

.PHONY: bench-start
bench-start: ## measure the server's time to ready, memory and time to stop, as a process and in a test
	@bin=$$(mktemp -d) && trap 'rm -rf "$$bin"' EXIT && \
	  go build -o "$$bin/espalier" ./cmd/espalier && (cd test/bench && go run ./start "$$bin/espalier")
	go test -run '^$$' -bench Start -benchtime 11x ./espaliertest ./server 2>&1 | grep -E '^(Benchmark|ok|FAIL|---)'

.PHONY: bench-start-crds
bench-start-crds: ## measure a start with CRDS large CRDs: CPU time until ready, and heap relative to their size
	go test -run '^$$' -bench StartLoaded -benchtime 1x -timeout 30m ./server -crds '$(or $(CRDS),4000)' 2>&1 | grep -E '^(Benchmark|ok|FAIL|---)'

.PHONY: bench-authz
bench-authz: ## measure the cost of RBAC with 1,000 roles and 5,000 bindings beside AlwaysAllow: one decision, GET and CREATE
	go test -run '^$$' -bench . -benchmem ./server/rbac 2>&1 | grep -E '^(Benchmark|ok|FAIL|---)'
	go test -run '^$$' -bench BenchmarkAuthorization -benchtime 40x -timeout 30m ./server 2>&1 | grep -E '^(Benchmark|ok|FAIL|---)'

.PHONY: bench-server
bench-server: ## benchmark the server against the reference, all rows; takes up to 20 minutes; ROWS=get,list selects rows, BENCH_JSON=file saves the numbers
	cd test/bench && go run ./server -rows '$(ROWS)' -json '$(abspath $(or $(BENCH_JSON),bench-server.json))'

.PHONY: bench-server-quick
bench-server-quick: ## the same with fewer and shorter turns, 100 CRDs, and no large rows; takes 3 minutes
	cd test/bench && go run ./server -quick -rows '$(ROWS)' -json '$(abspath $(or $(BENCH_JSON),bench-server.json))'

.PHONY: bench-cli
bench-cli: ## benchmark espalier validate against kubeconform and kubectl-validate on the corpus
	cd test/bench && go run ./cli

.PHONY: bench-audit
bench-audit: ## benchmark espalier audit on a snapshot with 1,000,000 objects: objects per second, largest heap
	ESPALIER_AUDIT_OBJECTS=1000000 go test -run '^$$' -bench BenchmarkAudit -benchtime 1x -timeout=60m ./cmd/espalier

.PHONY: corpus
corpus: ## run the tests of the corpus with all of it (make test uses a part of it where that takes long)
	ESPALIER_WHOLE_CORPUS=1 go test -count=1 -timeout=60m ./schema ./analysis/fix ./analysis/explain/sample
	ESPALIER_WHOLE_CORPUS=1 go test -count=1 -timeout=60m -v -run '^TestCorpus$$' ./server

.PHONY: conformance
conformance: ## run the reference's integration suite against the server; takes minutes
	cd test/conformance && CONFORMANCE=1 go test ./reference -count=1 -timeout 60m

.PHONY: envtest
envtest: ## run the suites of projects that use envtest, or those of SUITES, with espalier, and expect all tests of test/envtest/testdata to pass; takes many minutes
	@bin=$$(mktemp -d) && trap 'rm -rf "$$bin"' EXIT && go build -o "$$bin/espalier" ./cmd/espalier && \
	  cd test/envtest && go run ./suites -assets "$$("$$bin/espalier" envtest "$$bin/assets")" $(SUITES)

.PHONY: bench-envtest
bench-envtest: ## the same with the real kube-apiserver and etcd, too, which are built first, and the times of both, medians of ENVTEST_TURNS; ENVTEST_REAL names a directory that has them
	@bin=$$(mktemp -d) && trap 'rm -rf "$$bin"' EXIT && go build -o "$$bin/espalier" ./cmd/espalier && \
	  real=$${ENVTEST_REAL:-$$(scripts/envtest-real.sh "$$bin/real" | tail -1)} && assets=$$("$$bin/espalier" envtest "$$bin/assets") && \
	  cd test/envtest && go run ./start "$$assets" "$$real" && echo && go run ./suites -assets "$$assets" -real "$$real" -turns $(ENVTEST_TURNS) $(SUITES)

.PHONY: robustness
robustness: ## check requests and watches while etcd and servers fail, for ROBUSTNESS_TIME, and memory with 1 GB of objects
	cd test/robustness && ROBUSTNESS_TIME='$(ROBUSTNESS_TIME)' go test -count=1 -timeout=0 -v .

.PHONY: kine
kine: ## build kine with SQLite, which takes minutes the first time, and test the server on it, and on Postgres if it is installed
	@set -o pipefail; bin=$$(mktemp -d) && trap 'rm -rf "$$bin"' EXIT && \
	  (cd test/kine && CGO_ENABLED=1 CGO_CFLAGS=-DSQLITE_ENABLE_DBSTAT_VTAB=1 go build -o "$$bin/kine" github.com/k3s-io/kine) && \
	  ESPALIER_KINE="$$bin/kine" go test -count=1 -v -run '^TestKine' ./server 2>&1 | grep -vE '^[IWE][0-9]{4}'

.PHONY: load
load: ## send the requests of LOAD_CLIENTS concurrent clients to a server with default limits
	ESPALIER_LOAD='$(LOAD_CLIENTS)' go test -count=1 -timeout=20m -v -run '^TestLoad$$' ./server 2>&1 | grep -vE '^[IWE][0-9]{4}'

.PHONY: golden
golden: ## update all golden files
	go test ./schema -run '^TestDocuments$$' -update
	go test ./openapi -run '^(TestDocs|TestMarkers)$$' -update
	go test ./analysis/lint -run '^TestCorpus$$' -update
	go test ./analysis/fix -run '^(TestCases|TestCorpus)$$' -update
	go test ./cmd/espalier -run '^(TestScripts|TestConfigSchema)$$' -update

.PHONY: golden-conformance
golden-conformance: ## update the list of passing tests of the reference's suite; takes minutes
	cd test/conformance && go test ./reference -count=1 -timeout 60m -update

.PHONY: ci
ci: ## run everything that must pass before a change is merged
	@.ci/run

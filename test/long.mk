# Runs that take long. The Makefile includes them, so paths are those of the root.

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
POLICIES        ?= 500
CEL_COST_TIME   ?= 5m
KILL_ROUNDS     ?= 100
CYCLES          ?= 1000
LOAD_CLIENTS    ?= 1000
MUTANT_JOBS     ?= 2
MUTANTS         ?= 60
MECHANICAL      ?= 300
MECHANICAL_SEED ?= 1
ROBUSTNESS_TIME ?= 5m
CHAOS_RUNS      ?= 1000
E2E_PROCS       ?= 4
MODEL_STEPS     ?= 1000000

.PHONY: chaos
chaos: ## find the bug of a controller with random faults, and find it again CHAOS_RUNS times with the same seed
	cd examples/controller && go test -count=1 -timeout=0 -parallel=12 -v -run '^TestChaosFindsBug$$' . -chaos-runs=$(CHAOS_RUNS) | grep -E '^(---| *chaos_test|FAIL|ok)'

.PHONY: oracle-builtin
oracle-builtin: ## compare BUILTIN_CASES objects of each of Kubernetes' own kinds, more than 100,000 in all, and the manifests of BUILTIN_MODULES (path@version …)
	cd test/oracle36 && go vet ./... && go test ./...
	cd test/oracle && ORACLE36=$${ORACLE36:-build} BUILTIN_SEED=$${BUILTIN_SEED:-$$(date +%s)} BUILTIN_CASES='$(BUILTIN_CASES)' BUILTIN_MODULES='$(BUILTIN_MODULES)' go test -count=1 -timeout=0 -v -run '^Test(Builtin|Tables)' . ./answers

.PHONY: replay-builtin
replay-builtin: ## send REPLAY_OBJECTS objects of Kubernetes' own kinds below REPLAY_DIR, the module cache by default, to validate and to a server, and expect the same verdicts
	ESPALIER_REPLAY="$${REPLAY_DIR:-$$(go env GOMODCACHE)}" ESPALIER_REPLAY_OBJECTS='$(REPLAY_OBJECTS)' go test -count=1 -v -timeout 30m -run '^TestBuiltinReplay$$' ./cmd/espalier

.PHONY: upgrade-replay
upgrade-replay: ## upgrade the CRDs of UPGRADE_OLD to those of UPGRADE_NEW (files or directories) in a server, with the objects below UPGRADE_OBJECTS and samples, and expect that what upgrade predicts is what happens
	ESPALIER_UPGRADE_OLD='$(abspath $(UPGRADE_OLD))' ESPALIER_UPGRADE_NEW='$(abspath $(UPGRADE_NEW))' ESPALIER_UPGRADE_OBJECTS='$(abspath $(UPGRADE_OBJECTS))' go test -count=1 -v -timeout 30m -run '^TestUpgradeReplay$$' ./cmd/espalier

.PHONY: golden-builtin
golden-builtin: ## record the reference's answers for the tests of Kubernetes' own kinds
	cd test/oracle && ORACLE36=$${ORACLE36:-build} ORACLE36_RECORD=all go test -count=1 -timeout=0 -run '$(RECORDED)' ./answers
	cd test/oracle && ORACLE36= go test -count=1 -run '$(RECORDED)' ./answers

.PHONY: oracle-manifests
oracle-manifests: ## compare the manifests and Helm charts of MANIFEST_MODULES (path@version …), by default those of test/oracle/manifests.txt
	dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && GOBIN="$$dir" GOFLAGS= go install helm.sh/helm/v3/cmd/helm@$(HELM_VERSION) && \
	cd test/oracle && BUILTIN_HELM="$$dir/helm" BUILTIN_MODULES='$(or $(MANIFEST_MODULES),$(shell cat test/oracle/manifests.txt),$(error test/oracle/manifests.txt is missing))' go test -count=1 -timeout=0 -v -run '^TestBuiltin$$/^manifests$$' ./answers

.PHONY: oracle-rbac
oracle-rbac: ## compare RBAC_CASES decisions of the RBAC authorizer with Kubernetes' own evaluation
	cd test/oracle && ORACLE36=$${ORACLE36:-build} RBAC_SEED=$${RBAC_SEED:-$$(date +%s)} RBAC_CASES='$(RBAC_CASES)' go test -count=1 -timeout=0 -v -run '^TestRBAC$$' ./answers

.PHONY: memory-model
memory-model: ## send MODEL_STEPS random requests, from MODEL_SEED, to the etcd in memory and to a real one, and compare all answers and events
	go test -count=1 -timeout=0 -v -run '^Test(Cases|Model)$$' ./server/etcd/memory -model-steps '$(MODEL_STEPS)' -model-seed "$${MODEL_SEED:-$$(date +%s)}"

.PHONY: policies
policies: ## compare POLICIES generated admission policies, evaluated by a server and without one
	ESPALIER_POLICIES='$(POLICIES)' ESPALIER_POLICY_SEED=$${POLICY_SEED:-$$(date +%s)} go test -count=1 -timeout=30m -v -run '^TestGenerated$$' ./policies

.PHONY: cel-cost
cel-cost: ## search for CEL expressions that take long for their cost, for CEL_COST_TIME, compare them with a plain loop, and print the worst; UPDATE=1 writes the table
	go test -count=1 -timeout=0 -v -run '^TestCost$$' ./schema/rules/bounds -cost-time '$(CEL_COST_TIME)' $(if $(UPDATE),-update-cost)

.PHONY: releases-check
releases-check: ## compare the tables of kinds/releases with the source of all releases of Kubernetes, which it downloads (2 GB)
	cd test/tools && ESPALIER_RELEASES=1 go test -count=1 -v -run '^TestTables$$' ./releases

.PHONY: mutants
mutants: ## break behaviours one at a time and expect their tests to fail: MUTANTS of them, chosen at random, all with MUTANTS=0, or those of a row: make mutants ROW=P-07 MUTANT_JOBS=4; without ROW, then mutants-mechanical
	@cd test/tools && go run ./mutants -j '$(MUTANT_JOBS)' -sample '$(MUTANTS)' ../.. $(ROW)
	@$(if $(ROW),,$(MAKE) --no-print-directory mutants-mechanical)

.PHONY: mutants-mechanical
mutants-mechanical: ## negate conditions, remove branches, change results and move boundaries in MECHANICAL places, the same ones for a MECHANICAL_SEED, and list the changes that no test notices: in all packages that rows are about, or MECHANICAL_IN
	@cd test/tools && go run ./mutants -j '$(MUTANT_JOBS)' -mechanical '$(MECHANICAL)' -seed '$(MECHANICAL_SEED)' ../.. $(MECHANICAL_IN)

.PHONY: kill
kill: ## kill a server KILL_ROUNDS times under load, and check that no data is lost, no CRD is stuck, and the right objects are collected
	ESPALIER_CRASH_ROUNDS='$(KILL_ROUNDS)' ESPALIER_GARBAGE_KILLS='$(KILL_ROUNDS)' go test -p=1 -count=1 -timeout=0 -v -run '^Test(Crash|GarbageKilled)$$' ./server ./server/builtin

.PHONY: cycles
cycles: ## create, use and delete CRDs CYCLES times, and look for leaked goroutines, files and connections
	ESPALIER_CYCLES='$(CYCLES)' go test -count=1 -timeout=0 -v -run '^TestCycles$$' ./server/definitions

.PHONY: nightly
nightly: ## run all long targets, or those of TARGETS, and write a table to dist/nightly.md; takes hours, and goes on where it was stopped. `scripts/nightly.sh --list` says what it runs
	@scripts/nightly.sh $(TARGETS)

.PHONY: race-server
race-server: ## test the whole server with the race detector; takes minutes
	CGO_ENABLED=1 go test -race -short -timeout 30m ./server/... ./espaliertest ./policies

.PHONY: store-etcd
store-etcd: ## run all tests of the server with a real etcd
	ESPALIER_TEST_STORE=etcd go test -count=1 -timeout 60m ./server/... ./policies ./cmd/espalier

.PHONY: modules
modules: ## run the tests of the modules that build other projects, of which make check takes a sample
	@rc=0; for m in conformance/data envtest generate oracle21 oracle21/compare; do echo "== test/$$m"; (cd test/$$m && go test -count=1 -timeout 30m .) || rc=1; done; exit $$rc

.PHONY: docs-check
docs-check: docs ## open each page of the documentation in a browser
	cd test/web && ESPALIER_SITE=required go test -count=1 -v -run '^TestSite' .

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME, then the oracle on ORACLE_CASES generated cases, CRD_UPDATES writes of CRDs and FIELD_STEPS writes of objects
	@FUZZTIME='$(FUZZTIME)' scripts/fuzz.sh $(MODULES)
	cd test/oracle && ORACLE_CASES='$(ORACLE_CASES)' ORACLE_CRD_UPDATES='$(CRD_UPDATES)' go test -count=1 -timeout=0 -v -run '^(TestGenerated|TestWholeCRDUpdate)' .
	cd test/oracle && ORACLE_SEED=$${ORACLE_SEED:-$$(date +%s)} ORACLE_FIELD_STEPS='$(FIELD_STEPS)' go test -count=1 -timeout=0 -v -run '^TestFields$$' .

.PHONY: install-check
install-check: ## install the program with go install from a zip file of the module, and check its version
	cd test/tools && go run ./module ../..

.PHONY: generate-corpus
generate-corpus: ## generate types for all CRDs of the corpus, compile them, and derive the schemas again from the Go types
	ESPALIER_WHOLE_CORPUS=1 go test -count=1 -timeout 0 -v -run Corpus ./analysis/generate/...
	cd test/generate && ESPALIER_WHOLE_CORPUS=1 go test -count=1 -timeout 0 -v ./...

.PHONY: corpus
corpus: ## run the tests of the corpus with all of it (make test uses a part of it)
	ESPALIER_WHOLE_CORPUS=1 go test -count=1 -timeout=60m ./api ./schema ./crd/... ./analysis/... ./internal/yamlx ./internal/yamledit ./server/fields
	ESPALIER_WHOLE_CORPUS=1 go test -count=1 -timeout=60m -run Corpus ./cmd/espalier
	ESPALIER_WHOLE_CORPUS=1 go test -count=1 -timeout=60m -v -run '^TestCorpus$$' ./server
	cd test/oracle && ESPALIER_WHOLE_CORPUS=1 go test -count=1 -timeout=60m -run '^Test(Corpus|WholeCRD|Lint|OpenAPI|Protobuf|ValidateCommand)' .
	cd test/oracle21/compare && ESPALIER_WHOLE_CORPUS=1 go test -count=1 -timeout=60m .

.PHONY: web-corpus
web-corpus: ## compare the engine of the web page as WebAssembly, in Node, with the native one for all objects of the corpus
	ESPALIER_WHOLE_CORPUS=1 go test -count=1 -timeout=90m -v -run '^TestCorpus$$' ./web/wasm

.PHONY: lsp-edits
lsp-edits: ## open the files of the corpus, or of FOLDER, in a language server, edit files LSP_EDITS times at random, and compare its diagnostics with validate and lint
	@bin=$$(mktemp -d) && trap 'rm -rf "$$bin"' EXIT && go build -o "$$bin/espalier" ./cmd/espalier && \
	  ESPALIER_LSP_PROGRAM="$$bin/espalier" ESPALIER_LSP_EDITS=$(or $(LSP_EDITS),10000) ESPALIER_WHOLE_CORPUS=1 ESPALIER_LSP_FOLDER='$(and $(FOLDER),$(abspath $(FOLDER)))' \
	  go test -count=1 -timeout=60m -v -run '^TestLSP(Edits|Corpus)$$' ./cmd/espalier

.PHONY: conformance
conformance: ## run the reference's integration suite against the server; takes minutes
	cd test/conformance && CONFORMANCE=1 go test ./reference -count=1 -timeout 60m

.PHONY: kubectl-cmd
kubectl-cmd: ## run Kubernetes' shell tests of kubectl (test/cmd) with espalier, or with the real kube-apiserver and etcd if REAL=1, and expect the functions of test/cmd/testdata to pass; FOCUS (a regexp), SEMANTICS, RACE=1, KILL=30s, PROGRAMS (a directory that keeps the real programs)
	cd test/cmd && go run . -focus '$(FOCUS)' -semantics '$(or $(SEMANTICS),kubernetes)' $(if $(REAL),-real) $(if $(RACE),-race) \
	  $(if $(KILL),-kill '$(KILL)') $(if $(PROGRAMS),-programs '$(abspath $(PROGRAMS))') $(if $(OUTPUT),-output '$(abspath $(OUTPUT))')

.PHONY: envtest
envtest: ## run the suites of projects that use envtest, or those of SUITES, with espalier, and expect all tests of test/envtest/testdata to pass; takes many minutes
	@bin=$$(mktemp -d) && trap 'rm -rf "$$bin"' EXIT && go build -o "$$bin/espalier" ./cmd/espalier && \
	  cd test/envtest && go run ./suites -assets "$$("$$bin/espalier" envtest "$$bin/assets")" $(SUITES)

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

.PHONY: golden-conformance
golden-conformance: ## update the list of passing tests of the reference's suite; takes minutes
	cd test/conformance && go test ./reference -count=1 -timeout 60m -update

.PHONY: cluster-check
cluster-check: ## build the components of the simulated cluster, which takes minutes the first time, and run the tests that need them
	@bin=$$(mktemp -d) && trap 'rm -rf "$$bin"' EXIT && (cd cluster/components && go vet . && go build -o "$$bin/components" .) && \
	  export ESPALIER_CLUSTER_COMPONENTS="$$bin/components" && (cd cluster && go test -count=1 -timeout=20m ./...) && \
	  (cd examples/controller && go test -count=1 -run '^TestCluster$$' .)

.PHONY: e2e
e2e: ## run Kubernetes' conformance specs with its controllers, scheduler and simulated nodes, and expect those of test/e2e/testdata/specs.txt to pass; the first build takes many minutes. REAL=1 runs kube-apiserver and etcd, RACE=1 the race detector, KILL=30s kills the server again and again, FOCUS=REGEXP and SKIP=REGEXP select specs, E2E_BIN and E2E_ARTIFACTS name directories to keep
	cd test/e2e && go run . -procs '$(E2E_PROCS)' -focus '$(FOCUS)' -skip '$(SKIP)' $(if $(REAL),-real) $(if $(RACE),-race) $(if $(KILL),-kill '$(KILL)') \
	  $(if $(E2E_BIN),-bin '$(abspath $(E2E_BIN))') $(if $(E2E_ARTIFACTS),-artifacts '$(abspath $(E2E_ARTIFACTS))')

.PHONY: cluster-faults
cluster-faults: ## inject faults into a cluster (wrong clocks, a scheduler that is killed, nodes that vanish, 10,000 pods that are deleted at once), and print what happens; REAL=1 runs kube-apiserver and etcd, FOCUS=REGEXP and SKIP=REGEXP select faults, ESPALIER_CLUSTER_COMPONENTS, E2E_BIN and E2E_ARTIFACTS as for e2e
	cd test/e2e && go run . -faults -focus '$(FOCUS)' -skip '$(SKIP)' $(if $(REAL),-real) \
	  $(if $(E2E_BIN),-bin '$(abspath $(E2E_BIN))') $(if $(E2E_ARTIFACTS),-artifacts '$(abspath $(E2E_ARTIFACTS))')

.PHONY: answers
answers: ## record the answers of the real kube-apiserver, which is built first unless REAL names a directory that has it and etcd, and write the list of those that differ
	@bin=$$(mktemp -d) && trap 'rm -rf "$$bin"' EXIT && real='$(and $(REAL),$(abspath $(REAL)))' && \
	  if [ -z "$$real" ]; then real=$$(scripts/envtest-real.sh "$$bin" | tail -1); fi && \
	  cd test/oracle && ANSWERS_REAL="$$real" go test -count=1 -timeout=60m -v -run '^TestAnswers$$' ./answers -update

# Benchmarks. The Makefile includes them, so paths are those of the root.

ENVTEST_TURNS ?= 1
# The tags of espalier-cli: without grpcnotrace, gRPC keeps the linker from leaving out unused methods.
SMALL_TAGS    := noserver,grpcnotrace

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

.PHONY: bench-small
bench-small: ## compare the program without the server with the complete one, both as released: size, and time to start
	@bin=$$(mktemp -d) && trap 'rm -rf "$$bin"' EXIT && export CGO_ENABLED=0 && \
	  go build -trimpath -ldflags='-s -w' -o "$$bin/espalier" ./cmd/espalier && \
	  go build -trimpath -ldflags='-s -w' -tags $(SMALL_TAGS) -o "$$bin/espalier-cli" ./cmd/espalier && \
	  (cd test/bench && go run ./small "$$bin/espalier" "$$bin/espalier-cli")

.PHONY: bench-start-crds
bench-start-crds: ## measure a start with CRDS large CRDs: CPU time until ready, and heap relative to their size
	go test -run '^$$' -bench StartLoaded -benchtime 1x -timeout 30m ./server -crds '$(or $(CRDS),4000)' 2>&1 | grep -E '^(Benchmark|ok|FAIL|---)'

.PHONY: bench-authz
bench-authz: ## measure the cost of RBAC with 1,000 roles and 5,000 bindings beside AlwaysAllow: one decision, GET and CREATE
	go test -run '^$$' -bench . -benchmem ./server/roles 2>&1 | grep -E '^(Benchmark|ok|FAIL|---)'
	go test -run '^$$' -bench BenchmarkAuthorization -benchtime 40x -timeout 30m ./server 2>&1 | grep -E '^(Benchmark|ok|FAIL|---)'

.PHONY: bench-pruning
bench-pruning: ## measure the CPU time of a CREATE with and without pruning
	go test -run '^$$' -bench BenchmarkPruning -benchtime 2000x ./server/custom 2>&1 | grep -E '^(Benchmark|ok|FAIL|---)'

.PHONY: bench-review
bench-review: ## measure the CPU time and the memory of a review of 20 changes in a Git repository of 10,000 manifests
	go test -run '^$$' -bench BenchmarkReview -benchtime 5x ./cmd/espalier 2>&1 | grep -E '^(Benchmark|ok|FAIL|---)'

.PHONY: bench-server
bench-server: ## benchmark the server against the reference; takes up to 20 minutes; ROWS=get,list selects rows; BENCH_JSON=file saves the numbers
	cd test/bench && go run ./server -rows '$(ROWS)' -json '$(abspath $(or $(BENCH_JSON),bench-server.json))'

.PHONY: bench-server-quick
bench-server-quick: ## the same with fewer and shorter turns, 100 CRDs, and no large rows; takes 3 minutes
	cd test/bench && go run ./server -quick -rows '$(ROWS)' -json '$(abspath $(or $(BENCH_JSON),bench-server.json))'

.PHONY: bench-fairness
bench-fairness: ## measure what priority and fairness costs GET, CREATE and a start: for an administrator, who is exempt, and for another user
	cd test/bench && for user in '' jane; do go run ./server -rows create,get,restart -with=--enable-priority-and-fairness -user "$$user" || exit 1; done

.PHONY: bench-million
bench-million: ## measure the server with OBJECTS objects of 1 KB, by default 1,000,000: heap, RSS, restart, LIST in pages; needs 8 GB of disk and 6 GB of memory
	cd test/bench && go run ./server -alone -rows million-heap,million-rss,million-restart,million-pages -small-objects '$(or $(OBJECTS),1000000)'

.PHONY: bench-scale
bench-scale: ## measure SERVERS servers, by default 1, 2 and 4, on one etcd with three members: requests per second, CPU time and messages of each, and when other servers have a write
	cd test/bench && go run ./server -scale '$(or $(SERVERS),1,2,4)' -json '$(abspath $(or $(BENCH_JSON),bench-scale.json))'

.PHONY: bench-cluster
bench-cluster: ## measure the simulated cluster: time to ready and memory with 3 nodes, and 10,000 pods on 1,000 nodes; with KWOKCTL (a binary) also kwokctl's binary runtime, with the kube-apiserver and etcd that are built, or in ENVTEST_REAL; COMPONENTS (a binary) skips a build
	@bin=$$(mktemp -d) && trap 'rm -rf "$$bin"' EXIT && go build -o "$$bin/espalier" ./cmd/espalier && go build -C cluster -o "$$bin/cluster" . && \
	  components='$(and $(COMPONENTS),$(abspath $(COMPONENTS)))' && if [ -z "$$components" ]; then components="$$bin/components"; go build -C cluster/components -o "$$components" .; fi && \
	  real=$${ENVTEST_REAL:-$(if $(KWOKCTL),$$(scripts/envtest-real.sh "$$bin/real" | tail -1))} && \
	  cd test/bench && go run ./cluster -launcher "$$bin/cluster" -espalier "$$bin/espalier" -components "$$components" -kwokctl '$(and $(KWOKCTL),$(abspath $(KWOKCTL)))' -real "$$real"

.PHONY: bench-cli
bench-cli: ## benchmark espalier validate against kubeconform and kubectl-validate on the corpus; CLI_FLAGS selects programs, parts and rounds, such as -others kubeconform -parts json,yaml -rounds 5
	cd test/bench && go run ./cli $(CLI_FLAGS)

.PHONY: bench-audit
bench-audit: ## benchmark espalier audit on a snapshot with 1,000,000 objects: objects per second, largest heap
	ESPALIER_AUDIT_OBJECTS=1000000 go test -run '^$$' -bench BenchmarkAudit -benchtime 1x -timeout=60m ./cmd/espalier

.PHONY: bench-lsp
bench-lsp: ## measure the language server: completion with the largest CRD of the corpus, diagnostics of 1 MB, memory with the corpus as a workspace
	@bin=$$(mktemp -d) && trap 'rm -rf "$$bin"' EXIT && go build -trimpath -ldflags='-s -w' -o "$$bin/espalier" ./cmd/espalier && \
	  ESPALIER_LSP_PROGRAM="$$bin/espalier" go test -run '^$$' -bench BenchmarkLSP -benchtime 1x -timeout 30m ./cmd/espalier 2>&1 | grep -E '^(Benchmark|ok|FAIL|---)'

.PHONY: bench-envtest
bench-envtest: ## run the suites of envtest with the real kube-apiserver and etcd, too, which are built first, and the times of both, medians of ENVTEST_TURNS; ENVTEST_REAL names a directory that has them
	@bin=$$(mktemp -d) && trap 'rm -rf "$$bin"' EXIT && go build -o "$$bin/espalier" ./cmd/espalier && \
	  real=$${ENVTEST_REAL:-$$(scripts/envtest-real.sh "$$bin/real" | tail -1)} && assets=$$("$$bin/espalier" envtest "$$bin/assets") && \
	  cd test/envtest && go run ./start "$$assets" "$$real" && echo && go run ./suites -assets "$$assets" -real "$$real" -turns $(ENVTEST_TURNS) $(SUITES)

.PHONY: bench-web
bench-web: ## the web page: keystrokes beside a CRD with 14,000 nodes, in Chromium
	cd test/web && ESPALIER_BENCH_WEB=1 go test -count=1 -v -run '^TestKeystroke$$' .

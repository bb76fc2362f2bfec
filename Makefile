# Holdfast. `make` alone lists what there is to make.
#
# The two that a newcomer needs: `make dev` runs everything on this machine, `make test` proves that it works.

SHELL       := bash
.SHELLFLAGS := -euc
MAKEFLAGS   += --no-print-directory
.DEFAULT_GOAL := help

# No workspace file may be in force: one that unifies the root's and devserver's
# build lists selects an API version that Temporal's server does not compile with.
export GOWORK := off

# Tests run in their packages' folders, where a relative path would mean something else.
ifdef HOLDFAST_CONFORMANCE
export HOLDFAST_CONFORMANCE := $(abspath $(HOLDFAST_CONFORMANCE))
endif

tool  := go tool -modfile=tools.mod
# Extra arguments: make dev ARGS='-http-port 9090', make test ARGS='-run TestResume'.
ARGS  ?=
# How long each fuzz target runs.
FUZZTIME ?= 1m
# How often each benchmark runs; benchstat wants ten.
COUNT ?= 10
# The wall time one test package may take, a cold Temporal start and kill tests included.
TEST_TIMEOUT ?= 20m

# `go build -v` prints a line for each package that it compiles. A newcomer's first build compiles
# more than a thousand of them in several minutes: show that it moves, without a thousand lines.
progress = awk '/^[^ \#]+$$/ { if (++n % 50 == 0) { print "  " n " packages compiled"; fflush() } next } \
	/^go: downloading / { if (++d % 25 == 0) { print "  " d " modules downloaded"; fflush() } next } \
	{ print; fflush() }'

##@ Run

.PHONY: dev
dev: .holdfast/bin/dev ## run Temporal, NATS, a worker and the gateway on this machine (ARGS='-h' explains)
	@exec .holdfast/bin/dev -exit-with-parent $(ARGS)

.PHONY: .holdfast/bin/dev
.holdfast/bin/dev:
	@[ -x $@ ] || echo "building cmd/dev (the first time takes a minute or two)"
	@set -o pipefail; go build -v -o $@ ./cmd/dev 2>&1 | $(progress)

.PHONY: clean
clean: ## forget the data and logs of `make dev` (refused while it runs)
	@if [ -x .holdfast/bin/dev ]; then .holdfast/bin/dev clean; else rm -rf .holdfast/data .holdfast/logs; fi

##@ Build

.PHONY: build
build: ## compile every package and command of both modules
	@set -o pipefail; go build -v ./... 2>&1 | $(progress)
	@set -o pipefail; go build -C devserver -v -o /dev/null . 2>&1 | $(progress)

##@ Test

# -count=1: the test cache does not see the programs that end-to-end tests build and start, so it would tell of old ones.
# Those that start and kill whole stacks run last and by themselves: they have a machine's cores to share as it is.
.PHONY: test
test: devserver node-modules conformance ## all tests: units, integration with real servers, end to end
	HOLDFAST_DEVSERVER="$$(go run ./cmd/dev build-devserver)" go test -count=1 -timeout $(TEST_TIMEOUT) $(ARGS) $$(go list ./... | grep -v '/e2e')
	HOLDFAST_DEVSERVER="$$(go run ./cmd/dev build-devserver)" go test -count=1 -p 1 -timeout $(TEST_TIMEOUT) $(ARGS) ./e2e/...
	go -C devserver test -count=1 -timeout $(TEST_TIMEOUT) ./...

.PHONY: race
race: devserver ## unit and integration tests under the race detector, in random order (not e2e)
	HOLDFAST_DEVSERVER="$$(go run ./cmd/dev build-devserver)" go test -race -shuffle=on -timeout $(TEST_TIMEOUT) $(ARGS) $$(go list ./... | grep -v '/e2e')

.PHONY: e2e
e2e: devserver node-modules conformance ## only the tests against real processes
	HOLDFAST_DEVSERVER="$$(go run ./cmd/dev build-devserver)" go test -count=1 -v -timeout $(TEST_TIMEOUT) $(ARGS) ./e2e/...

# What a run of the whole matrix has found is kept by ARGS='-write docs/guarantees.md'.
.PHONY: chaos
chaos: devserver node-modules conformance ## every fault at every point of a run (N=50 SEED=1: random ones; CELLS=nats/kill: some)
	set -o pipefail; HOLDFAST_DEVSERVER="$$(go run ./cmd/dev build-devserver)" go test -count=1 -v -timeout 90m ./e2e/chaos \
		-args $(if $(N),-n $(N) -seed $(or $(SEED),1),$(if $(CELLS),-cells '$(CELLS)',-all)) $(ARGS) | grep --line-buffered -v '^=== '

.PHONY: bounds
bounds: devserver node-modules ## what a run of 1,000 tool calls and 200,000 tokens leaves in Temporal, and how fast a cold worker has it
	HOLDFAST_E2E_LONG=1 HOLDFAST_DEVSERVER="$$(go run ./cmd/dev build-devserver)" go test -count=1 -v -run TestLongRunLeavesSmallHistories $(ARGS) ./e2e

.PHONY: replay
replay: ## replay recorded workflow histories against this code
	go test -count=1 -run 'Replay|History' $(ARGS) ./workflows/...

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (1m)
	@for pkg in $$(git grep -l '^func Fuzz' -- '*_test.go' | xargs -r -n1 dirname | sort -u); do \
		for target in $$(grep -ho '^func Fuzz[A-Za-z0-9_]*' $$pkg/*_test.go | cut -d' ' -f2); do \
			echo "go test -fuzz ^$$target\$$ ./$$pkg"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) ./$$pkg; \
		done; \
	done

.PHONY: bench
bench: ## Holdfast against bare Temporal and NATS in the same run (ARGS='-write docs/benchmarks.md' keeps it)
	HOLDFAST_DEVSERVER="$$(go run ./cmd/dev build-devserver)" go run ./e2e/bench $(ARGS)

.PHONY: microbench
microbench: ## Go benchmarks; benchstat compares them with an earlier bench/base.txt
	@mkdir -p bench
	set -o pipefail; go test -run '^$$' -bench . -benchmem -count=$(COUNT) -timeout 60m $(ARGS) ./agui/... ./agent/... | tee bench/new.txt
	@if [ -f bench/base.txt ]; then $(tool) benchstat bench/base.txt bench/new.txt; \
		else echo "copy bench/new.txt to bench/base.txt to compare the next run with this one"; fi

# What the tests stand on. Each says what it does; none is silent about what it lacks.

.PHONY: devserver
devserver:
	@go run ./cmd/dev build-devserver >/dev/null

.PHONY: node-modules
node-modules:
	@[ -f e2e/agui-client/package.json ] || exit 0; \
	if command -v npm >/dev/null; then \
		[ e2e/agui-client/node_modules/.package-lock.json -nt e2e/agui-client/package-lock.json ] || { \
			echo "npm ci in e2e/agui-client"; npm ci --prefix e2e/agui-client --no-audit --no-fund; }; \
	else \
		echo "Node.js is missing: the tests that drive the gateway with the protocol's own client (e2e) cannot run." >&2; \
		[ "$${CI:-}" != true ] || { echo "CI=true: that is a failure." >&2; exit 1; }; \
	fi

.PHONY: conformance
conformance:
	@if [ -z "$${HOLDFAST_CONFORMANCE:-}" ]; then \
		echo "HOLDFAST_CONFORMANCE is not set: recorded streams are not judged by the AG-UI conformance kit." >&2; \
	elif [ ! -f "$$HOLDFAST_CONFORMANCE/check-stream.mjs" ]; then \
		echo "HOLDFAST_CONFORMANCE=$$HOLDFAST_CONFORMANCE holds no check-stream.mjs." >&2; exit 1; \
	fi

##@ Check

# workflowcheck looks for what a workflow must not do: read the clock, start goroutines, range over maps.
deterministic := $(addsuffix /...,$(addprefix ./,$(wildcard workflows agent)))

.PHONY: check
check: ## what must pass before a commit: format, vet, staticcheck, workflowcheck, tidy
	@echo "gofumpt"; out="$$($(tool) gofumpt -l .)"; [ -z "$$out" ] || { echo "not formatted (make fmt):"; echo "$$out"; exit 1; }
	@echo "go mod tidy -diff"; go mod tidy -diff
	@go -C devserver mod tidy -diff
	@echo "go vet"; go vet ./...
	@go -C devserver vet ./...
	@echo "go fix -diff"; go fix -diff ./...
	@echo "staticcheck"; $(tool) staticcheck ./...
	@$(if $(deterministic),echo "workflowcheck $(deterministic)"; $(tool) workflowcheck -config workflowcheck.yaml $(deterministic),:)

.PHONY: fmt
fmt: ## format everything
	$(tool) gofumpt -w .

.PHONY: lint
lint: ## golangci-lint with .golangci.yml (its first build takes about five minutes)
	go tool -modfile=golangci-lint.mod golangci-lint run ./...

##@ Help

.PHONY: help
help: ## this list
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z0-9-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

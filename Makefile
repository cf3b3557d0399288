# Everything that this repository needs is built from source into bin/. Go, git and
# make are enough: no program uses cgo, and all are static.

MAKEFLAGS += --no-print-directory
GO ?= go
export CGO_ENABLED := 0
# Without it programs and their tests would be compiled from two sets of packages.
export GOFLAGS := $(filter-out -trimpath,$(shell $(GO) env GOFLAGS)) -trimpath
GOBUILD := $(GO) build -buildvcs=auto -ldflags='-s -w'
MODULES := . server deploy/validation .ci/bench .ci/size .ci/release .ci/s3
# deploy/validation needs the packages of Kubernetes, Compose and BuildKit to compile, and
# .ci/release those of packages and images, so make test-system tests them. .ci/s3 has no code: it names the S3 servers that the
# system tests build into bin/s3.
TESTED := . server .ci/bench .ci/size

GOLANGCI_LINT := v2.15.0
WORKFLOWCHECK := v0.6.0
GOTESTSUM := v1.13.0

# RERUN=1 repeats up to five failed tests once, for CI: a good change is not refused for one timing. What passed then is
# listed in bin/flaky, to be mended or deleted. By hand nothing is repeated.
RERUN ?=

# $(call gotest,ARGUMENTS,PACKAGES) runs tests in the current directory.
gotest = $(if $(RERUN),mkdir -p $(CURDIR)/bin/flaky && $(CURDIR)/bin/gotestsum --format pkgname --format-hide-empty-pkg --rerun-fails=1 --rerun-fails-max-failures=5 \
	--rerun-fails-run-root-test --rerun-fails-report=$$(mktemp -p $(CURDIR)/bin/flaky) --packages="$(2)" -- $(1),$(GO) test $(1) $(2))

SERVER_SOURCES := $(shell find server -name '*.go' -not -name '*_test.go') server/go.mod server/go.sum

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# $(call compile,WHAT,DIRECTORY,ARGUMENTS) says what it builds, and counts the packages
# that go build compiles for it. A line with a space is a message of go build.
define compile
	@echo "$(1)"
	@{ cd $(2) && $(GOBUILD) -v $(3) 2>&1; echo "exit $$?"; } | { n=0; while read -r line; do case "$$line" in \
		"exit "*) exit "$${line#exit }" ;; \
		*" "*) printf '%s\n' "$$line" ;; \
		*) n=$$((n + 1)); if [ $$((n % 100)) -eq 0 ]; then echo "  $$n packages compiled"; fi ;; \
	esac; done; }
endef

.PHONY: build
build: bin/maestro-server ## build what bin/ has: maestro, maestro-worker, maestro-shim, maestro-namespace, maestro-server
	$(call compile,building 2 of 5: bin/maestro (a minute or two the first time),.,-o bin/maestro ./starter)
	$(call compile,building 3 of 5: bin/maestro-shim (now maestro run and demo work),.,-o bin/maestro-shim ./internal/sandbox/room/maestro-shim)
	$(call compile,building 4 of 5: bin/maestro-worker,.,-o bin/maestro-worker ./worker)
	$(call compile,building 5 of 5: bin/maestro-namespace,.,-o bin/maestro-namespace ./deploy/namespace)

bin/maestro-server: $(SERVER_SOURCES)
	$(call compile,building 1 of 5: bin/maestro-server: the Temporal server (1800 packages; 3 to 6 minutes the first time),server,-o ../$@ .)

bin/temporal-server bin/temporal-sql-tool: server/go.mod server/go.sum
	$(call compile,building $@: Temporal's own for PostgreSQL,server,-o ../$@ go.temporal.io/server/cmd/$(if $(findstring sql,$@),tools/sql,server))

.PHONY: cluster
cluster: build bin/temporal-server bin/temporal-sql-tool ## PostgreSQL, Temporal and two workers, until Ctrl-C
	@deploy/cluster/run.sh

.PHONY: demo
demo: build ## run the example team on a real server; KEEP=1 stays up
	@bin/maestro demo $(if $(KEEP),--keep)

# Most tests wait for servers and processes, so more run side by side than there are
# processors.
SIDE_BY_SIDE := -parallel 4

.PHONY: test
test: build $(if $(RERUN),bin/gotestsum) ## run every test that needs nothing but Go, git and make
	@for m in $(TESTED); do (cd $$m && $(call gotest,$(SIDE_BY_SIDE) -timeout 20m,./...)) || exit 1; done

# What starts agents and checks, and what reads their files.
UNPRIVILEGED := sandbox/room sandbox/procgroup sandbox/layers sandbox/workdir models/agent store/cas

.PHONY: test-user
test-user: ## run the tests of rooms as an ordinary user without a capability, if this is root
	@if [ "$$(id -u)" -ne 0 ]; then echo "test-user: make test has run these tests as an ordinary user"; exit; fi; \
		dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && chmod 755 "$$dir" && install -d -o 10001 -g 10001 "$$dir/home" && \
		for p in $(UNPRIVILEGED); do \
			$(GO) test -c -o "$$dir/$${p##*/}.test" ./internal/$$p && echo "internal/$$p" && (cd internal/$$p && setpriv --reuid 10001 --regid 10001 --clear-groups \
				--no-new-privs --bounding-set=-all env -i PATH="$$($(GO) env GOROOT)/bin:/usr/local/bin:/usr/bin:/bin" HOME="$$dir/home" TMPDIR="$$dir/home" \
				"$$dir/$${p##*/}.test" $(subst -,-test.,$(SIDE_BY_SIDE)) -test.timeout 2m) || exit 1; \
		done

# The test files that need more than Go, git and make, by their build tag.
SYSTEM_TESTS := $(shell grep -rlE '^//go:build system$$' --include='*_test.go' --exclude-dir=node_modules .)

.PHONY: test-system
test-system: build $(if $(RERUN),bin/gotestsum) ## run the tests that need programs of Debian and npm; .ci/run installs them
	@names=$$(grep -hoE '^func Test[A-Za-z0-9_]+' $(SYSTEM_TESTS) | sed 's/func //' | paste -sd '|'); \
		$(call gotest,-count=1 -tags system -timeout 20m -run "^($$names)\$$",$(sort $(dir $(SYSTEM_TESTS))))
	@cd deploy/validation && $(GO) test -count=1 ./... # files above the module are no part of the cache's key

.PHONY: test-compose
test-compose: ## start docker-compose.yml on this machine's engine, with sessions, a kill and five restarts; KEEP=1 keeps the images
	@$(GO) test -count=1 -v -tags compose -timeout 60m -run '^TestCompose' ./deploy

.PHONY: race
race: build ## run the tests with the race detector, which needs a C compiler
	@for m in $(TESTED); do (cd $$m && CGO_ENABLED=1 $(GO) test $(SIDE_BY_SIDE) -race -timeout 30m ./...) || exit 1; done

AT ?= 1,16,64
ROUNDS ?= 3
LARGEST ?= 1000000

.PHONY: bench
bench: build ## compare a session with bare Temporal (AT, ROUNDS), on PostgreSQL, too, if it is installed
	@cd .ci/bench && $(GOBUILD) -o ../../bin/bench . # beside the shim that it starts, and with the same flags
	@bin/bench -at $(AT) -rounds $(ROUNDS)

.PHONY: bench-growth
bench-growth: build ## how a session's cost grows: sessions, files, phases, waiting; up to LARGEST of each
	@cd .ci/bench && $(GOBUILD) -o ../../bin/bench .
	@bin/bench -growth all -largest $(LARGEST)

WAITING ?= 10000
ROOMS ?= 100
FILES ?= 20000
REST ?= 1m

.PHONY: bench-fleet
bench-fleet: build bin/temporal-server bin/temporal-sql-tool ## several hosts on one PostgreSQL: WAITING sessions, ROOMS at once, FILES in a tree
	@cd .ci/bench && $(GOBUILD) -o ../../bin/bench .
	@bin/bench -fleet-waiting $(WAITING) -fleet-rooms $(ROOMS) -fleet-files $(FILES) -fleet-rest $(REST)

.PHONY: lint
lint: bin/golangci-lint ## hold the code against .golangci.yml
	@for m in $(TESTED); do (cd $$m && $(CURDIR)/bin/golangci-lint run --allow-parallel-runners ./...) || exit 1; done
	@long=$$(git ls-files '*.go' | xargs wc -l | awk '$$2 != "total" && $$1 > 500 {print "  " $$2 ": " $$1 " lines"}'); \
		if [ -n "$$long" ]; then echo "files over 500 lines:"; echo "$$long"; exit 1; fi
	@$(GO) -C .ci/size run . -check -root ../..

.PHONY: size
size: ## print the lines of product code by folder; make lint fails above the figure in SIZE
	@$(GO) -C .ci/size run . -root ../..

.PHONY: darwin
darwin: ## compile the programs for macOS; nothing here can run them. make release compiles the server, too
	@GOOS=darwin GOARCH=arm64 $(GO) build ./starter ./worker ./internal/sandbox/room/maestro-shim ./deploy/namespace

.PHONY: workflowcheck
workflowcheck: bin/workflowcheck ## look for what would break a workflow's replay
	@bin/workflowcheck $(addsuffix /...,$(wildcard ./workflows ./breaker))

.PHONY: tidy-check
tidy-check: ## tell whether go.mod and go.sum of every module are tidy
	@for m in $(MODULES); do (cd $$m && $(GO) mod tidy -diff) || exit 1; done

FUZZTIME ?= 10s

.PHONY: fuzz
fuzz: ## run every fuzz test for FUZZTIME
	@for p in $$(grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u); do \
		for f in $$(grep -hoE '^func Fuzz[A-Za-z0-9_]+' $$p/*_test.go | sed 's/func //'); do \
			echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) $$p || exit 1; \
		done; done

SEED ?= $(shell date +%s)
SESSIONS ?= 300
KILLS ?= 200
WITHIN ?= 9m

.PHONY: chaos
chaos: build ## kill workers and the server KILLS times under SESSIONS sessions, chosen by SEED, WITHIN 9m
	@$(GO) test -count=1 -timeout 15m -v -run '^TestChaos$$' ./internal/testkit/system -args \
		-chaos.seed $(SEED) -chaos.sessions $(SESSIONS) -chaos.kills $(KILLS) -chaos.workers 3 -chaos.within $(WITHIN)

SEEDS ?= 60s
FROM ?= 1

.PHONY: simulate
simulate: ## run sessions in virtual time with faults chosen by a seed: SEEDS=1000 or SEEDS=10m, FROM the first seed
	@$(GO) test -count=1 -timeout 0 -v -run '^TestSimulate$$' ./internal/testkit/simulator -args -simulate.seeds $(SEEDS) -simulate.from $(FROM)

.PHONY: simulate-faults
simulate-faults: ## put mended faults back one at a time, and tell how many seeds find each
	@$(GO) test -count=1 -timeout 0 -v -run '^TestFaultsAreFound$$' ./internal/testkit/simulator -args -simulate.faults -simulate.seeds 1000

.PHONY: histories
histories: build ## record the histories that the replay test of workflows replays
	@$(GO) test -count=1 ./worker/service -args -histories $(CURDIR)/workflows/testdata/histories

PLATFORMS ?= linux/amd64,linux/arm64,darwin/amd64,darwin/arm64
VERSION ?=

.PHONY: release
release: ## build into dist/ what is handed out: archives, .deb, .rpm, images, bill of materials, checksums, notes
	@cd .ci/release && $(GO) run . -root ../.. -out ../../dist -targets $(PLATFORMS) $(if $(VERSION),-version $(VERSION))

.PHONY: clean
clean: ## remove what was built
	@rm -rf bin dist

bin/golangci-lint:
	@echo "building bin/golangci-lint $(GOLANGCI_LINT) (a minute or two the first time)"
	@GOBIN=$(CURDIR)/bin $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT)

bin/gotestsum:
	@echo "building bin/gotestsum $(GOTESTSUM)"
	@GOBIN=$(CURDIR)/bin $(GO) install gotest.tools/gotestsum@$(GOTESTSUM)

bin/workflowcheck:
	@echo "building bin/workflowcheck $(WORKFLOWCHECK)"
	@GOBIN=$(CURDIR)/bin $(GO) install go.temporal.io/sdk/contrib/tools/workflowcheck@$(WORKFLOWCHECK)

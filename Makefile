# Everything that this repository needs is built from source into bin/. Go, gcc, git and make are enough.

MAKEFLAGS += --no-print-directory
export GOBIN := $(CURDIR)/bin
GO ?= go
GOBUILD := $(GO) build -trimpath -buildvcs=auto

SERVER_SOURCES := $(shell find server -name '*.go' -not -name '*_test.go') server/go.mod server/go.sum

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: bin/maestro-server ## build bin/maestro, bin/maestro-worker and bin/maestro-server

bin/maestro-server: $(SERVER_SOURCES)
	@echo "building bin/maestro-server (the Temporal server; 2 to 5 minutes the first time)"
	@cd server && $(GOBUILD) -ldflags='-s -w' -o ../$@ .

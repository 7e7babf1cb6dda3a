# `make` lists the targets. Each one installs what it needs under .tools/ and bin/; nothing else on the machine changes.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

GO ?= go
BINARY := bin/mcp-via-llm
# CI may run with an empty HOME, where Go finds no folder for its caches.
ifeq ($(strip $(HOME)),)
export HOME := $(CURDIR)/.tools/home
endif
E2E := ./e2e ./e2e/sessions ./e2e/servers ./e2e/telemetry ./e2e/monitoring
UNIT = $(shell $(GO) list ./... | grep -v -e '/e2e$$' -e '/e2e/sessions$$' -e '/e2e/servers$$' -e '/e2e/telemetry$$' -e '/e2e/monitoring$$' -e '/e2e/kind$$')

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/mcp-via-llm
	$(GO) build -o $(BINARY) ./cmd/mcp-via-llm

.PHONY: tools tools-demo
tools: ## install what the tests run: four Envoys, MCP servers, OpenAI SDKs, Redis, a collector, Jaeger, Prometheus, a browser
	@e2e/tools.sh test
tools-demo: ## install what the demo runs: one Envoy
	@e2e/tools.sh demo

.PHONY: test
test: tools build race e2e ## everything: set-up, unit tests with the race detector, tests with a real Envoy

.PHONY: unit
unit: ## unit tests, quick
	$(GO) test $(UNIT)

.PHONY: race
race: ## unit tests with the race detector
	$(GO) test -race $(UNIT)

.PHONY: e2e
e2e: tools ## tests with a real Envoy, real MCP servers and a scripted LLM; RUN=Regexp chooses
	$(GO) test -count=1 -timeout 15m $(if $(RUN),-v -run '$(RUN)') $(E2E)

.PHONY: conformance
conformance: tools ## the MCP conformance suite's client scenarios: what passes, and why the rest does not
	$(GO) test -count=1 -timeout 15m -v -run '^TestConformance$$' ./e2e

.PHONY: bench bench-check bench-peers bench-micro
bench: tools build ## what a turn costs beside Envoy alone and a filter that copies, into docs/performance.md; ARGS=--help says more
	$(GO) build -o bin/bench ./bench
	bin/bench run $(ARGS)
bench-check: tools build ## the same, compared with the committed figures: fails where a ratio is worse
	$(GO) build -o bin/bench ./bench
	bin/bench run --against bench/report.json $(ARGS)
bench-peers: tools build ## other gateways on the same LLM and MCP server
	$(GO) build -o bin/bench ./bench
	@. e2e/versions.env && [ -x .tools/peers/bin/litellm ] || { python3 -m venv .tools/peers && .tools/peers/bin/pip install -q "litellm[proxy]==$$LITELLM_VERSION"; }
	bin/bench peers $(ARGS)
bench-micro: ## Go benchmarks of the parts, into docs/performance.md
	$(GO) run ./bench micro $(ARGS)

.PHONY: fuzz
fuzz: ## each fuzz target for FUZZTIME (default 10s)
	@for package in $(UNIT); do \
		for target in $$($(GO) test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			echo "$$package $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(or $(FUZZTIME),10s) $$package; \
		done; \
	done

.PHONY: lint
lint: ## gofmt, go vet, tidy modules, and the stored records: buf lint and buf breaking
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
		if [ -n "$$unformatted" ]; then echo "gofmt these files:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) mod tidy -diff
	sessions/buf.sh lint
	sessions/buf.sh breaking

.PHONY: fmt
fmt: ## format the Go files
	gofmt -w $$(git ls-files '*.go')

.PHONY: check
check: lint ## lint, and fail if formatting or generation leaves the work tree changed
	$(GO) generate ./...
	gofmt -w $$(git ls-files '*.go')
	$(GO) mod verify >/dev/null
	@if [ -n "$$(git status --porcelain)" ]; then echo "the work tree is dirty:"; git status --short; exit 1; fi

.PHONY: chart
chart: tools-demo ## the Helm chart in every shape of its ci/: lint, render, schemas, unit tests; no cluster
	charts/check.sh

.PHONY: kind
kind: ## the chart in a real cluster (KUBECONFIG, or kind with Docker): RUN=Regexp chooses, KEEP=1 leaves it running
	e2e/kind/run.sh $(if $(RUN),-test.run '$(RUN)')

.PHONY: gen
gen: ## make again what is made from other files: the reference of the configuration, the chart's schema
	$(GO) generate ./...

.PHONY: image
image: ## the container image as bin/image.tar, without Docker or a registry; VERSION, REF and ARCH may be given
	cd image && $(GO) vet ./... && $(GO) test ./...
	image/build.sh

.PHONY: image-stdio
image-stdio: ## the same with Node.js and Python for stdio servers, as bin/image-stdio.tar: needs root and debootstrap
	VARIANT=stdio image/build.sh

# The question reaches the demo as it was typed, by the environment: here, make would expand a $ in it and the shell
# would read its quotes.
override ASK := $(value ASK)
export ASK

.PHONY: demo
demo: tools-demo build ## see it work: LLM=http://host/v1 [MODEL=] [KEY_ENV=] [CONFIG=] [ASK=] for a real model, KEEP=1 to leave it running
	@$(GO) build -o bin/addserver ./e2e/addserver
	@$(GO) build -o bin/demo ./e2e/demo
	@exec bin/demo $(if $(LLM),-llm '$(LLM)') $(if $(MODEL),-model '$(MODEL)') $(if $(KEY_ENV),-key-env '$(KEY_ENV)') \
		$(if $(CONFIG),-config '$(CONFIG)') $(if $(KEEP),-keep)

.PHONY: clean
clean: ## remove bin/ and .tools/
	@if [ -d .tools ]; then chmod -R u+w .tools; fi # Go writes its module cache read-only
	rm -rf bin .tools

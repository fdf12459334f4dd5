# What a developer runs. `make` alone lists it. Everything but peers needs only Go, make and the module proxy, and pip once, for models.

GO      ?= go
TIMEOUT ?= 15m
FUZZTIME ?= 20s

# Packages with a second implementation behind a tag, and packages whose own checks a tag turns on.
PUREGO     := ./tensor/kernel ./device/cpu
INVARIANTS := ./device/cpu ./train/... ./e2e
# e2e compares whole runs of both builds in the untagged step; under the tag its short mode is enough.
PLATFORMS  := linux/arm64 darwin/arm64

# $(call step,name,command) runs a command and says how long it took; it stops make where the command fails.
step = @echo "== $(1)"; start=$$(date +%s); { $(2); } || { echo "== $(1): FAILED after $$(($$(date +%s) - start)) s"; exit 1; }; \
	echo "== $(1): $$(($$(date +%s) - start)) s"

export CGO_ENABLED := 0

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/\1	\2/p' $(MAKEFILE_LIST) | expand -t 12

.PHONY: build
build: ## bin/loadline, static
	$(GO) build -o bin/ ./cmd/loadline

.PHONY: test
test: ## every check of a change, some 12 minutes on 2 cores
	$(call step,models,scripts/models.sh || [ -z "$$CI" ])
	$(call step,gofmt,bad=$$(find . -name '*.go' -not -path './.*' -exec "$$($(GO) env GOROOT)/bin/gofmt" -l {} +) && { [ -z "$$bad" ] || { echo "$$bad"; false; }; })
	$(call step,build,$(GO) build ./... && $(GO) build -tags purego ./... && $(GO) build -tags invariants ./...)
	$(call step,vet,$(GO) vet ./... && $(GO) vet -tags purego $(PUREGO) && $(GO) vet -tags invariants $(INVARIANTS))
	@for platform in $(PLATFORMS); do $(MAKE) --no-print-directory cross PLATFORM=$$platform || exit 1; done
	$(call step,test,$(GO) test -timeout $(TIMEOUT) ./...)
	$(call step,test -tags purego,$(GO) test -timeout $(TIMEOUT) -tags purego $(PUREGO))
	$(call step,test -tags invariants,$(GO) test -timeout $(TIMEOUT) -short -tags invariants $(INVARIANTS))

# Vet also compiles the tests of a platform, which build leaves out.
.PHONY: cross
cross:
	$(call step,build and vet $(PLATFORM),export GOOS=$(word 1,$(subst /, ,$(PLATFORM))) GOARCH=$(word 2,$(subst /, ,$(PLATFORM))); $(GO) build ./... && $(GO) vet ./...)

# Tests that read these weights fail under CI where they are missing, and are skipped elsewhere.
.PHONY: models
models: ## fetch the weights that tests read, 93 MB, once
	@scripts/models.sh

.PHONY: race
race: ## the tests under the race detector; needs a C compiler
	CGO_ENABLED=1 $(GO) test -timeout 30m -race -short ./...

.PHONY: fuzz
fuzz: ## each fuzz target for FUZZTIME (20s)
	@grep -rHo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sed 's|/[^/]*:func | |' | sort | while read -r dir target; do \
		echo "== $$dir $$target"; $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$dir" || exit 1; done

.PHONY: peers
peers: ## regenerate the goldens with the peers that made them, and compare; installs Python packages under .cache
	model/testdata/golden/regenerate.sh --check
	@for script in scripts/peers/*.sh; do echo "== $$script"; "$$script" || exit 1; done

.PHONY: generate
generate: ## rewrite the generated kernels
	$(GO) generate ./...

.PHONY: demo
demo: ## train, plan and generate on an embedded text, one table
	$(GO) run ./cmd/loadline demo

.PHONY: clean
clean: ## remove what make made here: bin and .cache
	rm -rf bin .cache

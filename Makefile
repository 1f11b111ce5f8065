# All tasks, for people and for .ci/run. `make help` lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

CARGO ?= cargo
GO ?= go
# rustup installs the compiler of rust-toolchain.toml by itself, unless RUSTUP_AUTO_INSTALL is 0.
$(shell $(CARGO) --version >/dev/null 2>&1 || rustup toolchain install >&2)
PREFIX ?= /usr/local
SECONDS ?= 60
# With -trimpath Go shares compiled packages between all programs, tests and checks; with netgo and osusergo also
# between those with and without cgo: Kubernetes is compiled once, and without the C library's resolver, as in its own
# builds.
# These have grpcnotrace, too. Without it gRPC links text/template, and with that all exported methods of everything
# that is linked.
TAGS := grpcnotrace,netgo,osusergo
export GOFLAGS := -trimpath -tags=$(TAGS) $(GOFLAGS)
NATIVE := -tags=$(TAGS),rangekeeper_native
# The library in C that is built and linked: `release` is the one that users get. `test` is built of the same parts as
# the tests in Rust, in seconds, and has debug assertions: `make check`, `make test` and .ci/run link that one.
export PROFILE ?= release
ifeq ($(PROFILE),test)
export BUILT := $(CURDIR)/target/library/test
else
export BUILT := $(CURDIR)/target/release
endif
# Where C compilers find the library. A path in a Go file would be a part of what Go compiles.
export LIBRARY_PATH := $(BUILT)
# Clippy's compiler lints our crates as it compiles them, so that no second build is needed for that.
LINTED := $(if $(shell command -v clippy-driver),RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-Dwarnings)
# The crates with tests, and the larger examples, which need protoc. bootstrap-rs is left out: a third of all crates
# are there for its client of Kubernetes. For another choice of crates cargo compiles their dependencies again, as these
# get other features: with STEPS=apart it is the same one everywhere.
CRATES := rangekeeper rangekeeper-bootstrap rangekeeper-ffi rangekeeper-simulation
EXAMPLES := axum-rs etcd-rs ledger-rs rangekeeper-ledger-stores sqlite-rs
RUST_FLAGS := --locked --features rangekeeper/bitvec,rangekeeper/ledger
RUST_EXAMPLES := $(RUST_FLAGS) $(addprefix -p ,$(CRATES) $(EXAMPLES))
RUST_TESTS := $(RUST_FLAGS) $(addprefix -p ,$(CRATES) $(if $(STEPS),$(EXAMPLES)))
# Flags of go test. `make check` and `make lint` run go vet, which has to analyse all that a package imports. They do
# so for the back end in C, as the core in Go is large.
# On a busy machine what takes a minute or two elsewhere takes long.
UNVETTED := -count=1 -vet=off -timeout 40m
# The packages of controlplane whose tests run kube-apiservers, and the tests in the files that do. `make test` runs all
# other tests. What runs servers for all these tests has its own tests, of stock servers, which run at night.
# With STEPS=apart `make test` leaves out what other steps of .ci/run do: these packages are linked once, by
# test-cluster, and the binding's tests with the back end in C are those of test-race.
CLUSTER_FILES = $(shell grep -rl apiservertest --include=*_test.go $(if $(RANGEKEEPER_NIGHTLY),,--exclude-dir=apiservertest) controlplane)
CLUSTER_PACKAGES = $(sort $(patsubst controlplane/%/,%,$(dir $(CLUSTER_FILES))))
CLUSTER_TESTS = ^($(subst $() ,|,$(strip $(shell grep -ho '^func Test[A-Za-z0-9]*' $(CLUSTER_FILES) | sed 's/^func //' | grep -vx TestMain))))$$
GOFILES = $$(git ls-files -co --exclude-standard '*.go')
# The releases of Kubernetes for which servers are built and tested: by default the newest and the oldest supported one.
RELEASES ?= $(shell sed -n '1p;$$p' controlplane/releases/releases.txt)
ALL_RELEASES = $(shell cat controlplane/releases/releases.txt)
NIGHTLY = $(shell sed -n 's/^channel = "\(.*\)"/\1/p' testing/fuzz/rust-toolchain.toml)
# The platform of this machine, which ThreadSanitizer needs by name.
HOST = $(shell rustc -vV | sed -n 's/^host: //p')
# Other platforms that the library must compile for: one with an unsigned char in C, and a big-endian one.
TARGETS := aarch64-unknown-linux-gnu s390x-unknown-linux-gnu
# Other architectures for which the binding's tests run, each with its emulator; one is big-endian, and one of 32 bits,
# which runs as it is (qemu's emulator of it cannot run Go).
GO_EMULATED := s390x/qemu-s390x-static 386/env arm64/qemu-aarch64-static
# Endpoints are deprecated, and have to be kept.
STATICCHECK = $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2 -checks inherit,-SA1019
DEADCODE = $(GO) run golang.org/x/tools/cmd/deadcode@v0.52.0
PROMTOOL = $(GO) run github.com/prometheus/prometheus/cmd/promtool@v0.316.0
# The packages of Kubernetes with files in kube-apiserver/dropin/overlay/all.
DROPIN_PACKAGES = $(sort $(patsubst kube-apiserver/dropin/overlay/all/%/,k8s.io/kubernetes/%,$(dir $(shell find kube-apiserver/dropin/overlay/all -name '*.go'))))

.PHONY: help library purego libraries restored-etcd build run up check check-binding check-go format clippy test test-rust test-c test-js test-go test-race test-race-purego test-cluster examples examples-rust examples-rust-tests apiservers kine dropin conformance e2e e2e-stock fuzz simulate simulate-short stress faults bench bench-once profile instructions instructions-record compare compare-backends compare-corpora compare-store compare-apiserver compare-growth measure-audit measure-snapshot record compare-model goldens fixtures header install installed dist check-dist outside reproducible fmt lint targets miri tsan crates dependencies manifests chart alerts analyse api-changes doc nightly setup clean

help: ## Lists the tasks.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

setup: ## Installs missing tools that tests need (valgrind, pkg-config, protoc, debootstrap).
	@.ci/setup.sh

library: $(BUILT)/librangekeeper.a ## Builds librangekeeper.a and .so into target/release; PROFILE=test builds them with debug assertions into target/library/test.

# Beside cargo's own check of what has changed, as that would wait for another cargo to end. Copies, as cargo puts its
# library back with each build, which another make may link meanwhile.
$(BUILT)/librangekeeper.a: $(shell find core/src bootstrap/src ffi/src -name '*.rs') Cargo.lock $(wildcard Cargo.toml */Cargo.toml) ffi/build.rs ffi/localise.sh rust-toolchain.toml
ifeq ($(PROFILE),test)
	$(LINTED) $(CARGO) build --profile test --lib $(RUST_TESTS)
	@.ci/whole.sh $(BUILT)/librangekeeper.so cp target/debug/librangekeeper.so '{}'
	@.ci/whole.sh $@ cp target/debug/librangekeeper.a '{}'
else
	$(CARGO) build --release --locked --target-dir target/library -p rangekeeper-ffi
	@.ci/whole.sh $(BUILT)/librangekeeper.so cp target/library/release/librangekeeper.so '{}'
	@ffi/localise.sh target/library/release/librangekeeper.a $@
	@touch $@
endif

purego: ## Translates the library to Go, go-bindings/internal/wasm, which the Go binding is built of.
	@go-bindings/purego.sh

# Makes two lists of targets at once, as few of them keep two processors busy.
at-once = $(MAKE) --no-print-directory $(1) & first=$$! failed=0; $(MAKE) --no-print-directory $(2) || failed=1; wait $$first || failed=1; exit $$failed

libraries:
	@$(call at-once,purego,library)

# An etcd with the content of a snapshot, beside which programs run. It needs no library.
restored-etcd:
	@nice .ci/patiently.sh restored-etcd .ci/whole.sh target/restored-etcd $(GO) -C controlplane build -o '{}' ./internal/tools/restored-etcd

build: purego $(if $(filter native,$(BACKEND)),library) ## Builds bin/rangekeeper and the plugin bin/kubectl-rangekeeper; BACKEND=native calls the core through cgo.
	@controlplane/programs.sh bin

run: $(if $(filter native,$(BACKEND)),library) ## Repairs a damaged cluster's snapshot, restores it into an etcd and audits the result.
	@$(call at-once,purego,restored-etcd)
	@controlplane/run.sh

up: build library ## Builds the kube-apiserver with Rangekeeper inside and runs it on loopback; ARGS='--servers 3' passes flags.
	@kube-apiserver/dropin.sh $(firstword $(RELEASES))
	bin/rangekeeper up $(ARGS)

# Nothing else depends on these folders.
GO_ONLY := controlplane compat kube-apiserver

check: format ## Checks a commit: format, links of the documentation, the tests in Rust, which are linted, and of the binding, and those of the packages of controlplane and compat that have changed; only the latter if nothing else has.
	@$(MAKE) --no-print-directory library PROFILE=test
	@if .ci/changed.sh --beside $(GO_ONLY); then $(call at-once,doc test-rust check-binding PROFILE=test,check-go PROFILE=test); else $(MAKE) --no-print-directory check-go PROFILE=test; fi

# With the library in C, which is built in seconds. `make test` tests the core as Go.
check-binding:
	cd go-bindings && $(GO) vet $(NATIVE) $$($(GO) list $(NATIVE) ./... | grep -v internal/wasm) && $(GO) test $(UNVETTED) -short $(NATIVE) . ./internal/rk ./ledgerstore/...

check-go:
	for module in controlplane compat; do .ci/changed.sh $$module | (cd $$module && \
		xargs -r sh -c '$(GO) vet $(NATIVE) "$$@" & vet=$$!; $(GO) test $(UNVETTED) -short $(NATIVE) "$$@"; code=$$?; wait $$vet && exit $$code' -); done

# Seconds, so it comes before what takes minutes.
format:
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path testing/fuzz/Cargo.toml --check
	@test -z "$$(gofmt -l $(GOFILES))" || { gofmt -l $(GOFILES); exit 1; }
	@.ci/columns.sh
	@.ci/links.sh

test: setup ## Runs all tests that need no kube-apiserver.
	@$(call at-once,library test-rust test-c PROFILE=test,purego test-js test-go PROFILE=test)

# GNU's linker takes a second for each program with this library, the one of rustc a tenth. Compilers of C look for `ld`
# here first. What users get is linked as they do.
ifeq ($(PROFILE),test)
test-c test-go test-race: export COMPILER_PATH = $(CURDIR)/target/linker
test-c test-go test-race: target/linker/ld
endif

target/linker/ld: rust-toolchain.toml
	@mkdir -p $(@D)
	@ln -sf "$$(rustc --print sysroot)/lib/rustlib/$(HOST)/bin/gcc-ld/ld.lld" $@

test-rust: ## Runs the Rust tests, whose build lints the crates.
	$(LINTED) $(CARGO) test $(RUST_TESTS)

test-c: library ## Runs the C programs plain, under sanitizers and under valgrind.
	ffi/tests/run.sh

test-js: purego ## Runs the tests of the npm package.
	node --test ffi/js/rangekeeper.test.js

test-go: libraries restored-etcd ## Runs the Go tests, the binding's with both back ends and with a stressed collector.
	cd go-bindings && $(GO) test $(UNVETTED) ./internal/... ./ledgerstore/...
	cd go-bindings && GOGC=1 $(GO) test $(UNVETTED) .
	$(if $(STEPS),,cd go-bindings && GOGC=1 GODEBUG=cgocheck=1 $(GO) test $(UNVETTED) $(NATIVE) .)
	cd go-bindings/etcdstore && ../../target/restored-etcd ../../testing/testdata/kube-1.32-dual-stack/clean.db.gz $(GO) test $(UNVETTED) ./...
	cd controlplane && $(GO) test $(UNVETTED) $(if $(RANGEKEEPER_NIGHTLY),,-short) $(if $(STEPS),$$($(GO) list ./... | grep -vE '/controlplane/($(subst $() ,|,$(CLUSTER_PACKAGES)))$$'),./...)
	cd compat && $(GO) test $(UNVETTED) ./...

test-race: library ## Runs the binding's tests with the back end in C under the race detector, and counts the command's calls into it.
	cd go-bindings && GOGC=1 GODEBUG=cgocheck=1 $(GO) test $(UNVETTED) -race $(NATIVE) .
	cd controlplane && $(GO) test $(UNVETTED) $(NATIVE) -run '^TestCallsIntoTheLibrary$$' ./internal/cli

test-race-purego: purego ## Runs the binding's tests with the core as Go under the race detector.
	cd go-bindings && $(GO) test $(UNVETTED) -race . ./ledgerstore/...

test-cluster: apiservers kine dropin ## Builds kube-apiservers and kine, and runs the tests that need them.
	cd controlplane && RANGEKEEPER_REQUIRE_APISERVER="$(RELEASES)" $(GO) test $(UNVETTED) -p 3 $(if $(STEPS),,-run '$(CLUSTER_TESTS)') $(addprefix ./,$(CLUSTER_PACKAGES)) # they wait more than they work
	cd kube-apiserver/dropin && $(GO) test $(UNVETTED) ./...

apiservers: ## Builds the kube-apiservers of RELEASES that tests run, bin/kube-apiserver-VERSION; minutes the first time.
	@for release in $(RELEASES); do kube-apiserver/build.sh $$release kube-apiserver/stock . bin/kube-apiserver-$$release; done

kine: ## Builds kine, the store of k3s, that tests run, bin/kine; minutes the first time.
	@testing/kine.sh

dropin: libraries ## Builds the kube-apiservers of RELEASES with Rangekeeper inside, bin/kube-apiserver-rangekeeper-VERSION; minutes the first time. BACKEND=purego leaves cgo out.
	@for release in $(RELEASES); do kube-apiserver/dropin.sh $$release; done

conformance: purego ## Runs Kubernetes' own tests of the packages that Rangekeeper replaces, for RELEASES, and those of compat, for the newest.
	@for release in $(RELEASES); do kube-apiserver/dropin.sh $$release --sources; done
	@cd kube-apiserver/conformance && $(GO) run ./cmd/released $(RELEASES)

e2e: apiservers dropin ## Runs clusters of servers with Rangekeeper inside until their repairs have run: two hours.
	cd controlplane && RANGEKEEPER_E2E_LONG=1 RANGEKEEPER_REQUIRE_APISERVER="$(RELEASES)" $(GO) test $(UNVETTED) -v -timeout 3h ./e2e

e2e-stock: apiservers ## Counts the values that stock kube-apiservers allocate twice, for docs/differences.md; an hour.
	cd controlplane && RANGEKEEPER_E2E_STOCK=1 RANGEKEEPER_E2E_LONG=1 RANGEKEEPER_REQUIRE_APISERVER="$(RELEASES)" $(GO) test $(UNVETTED) -v -timeout 2h -run '^TestStock' ./e2e

examples-rust:
	$(LINTED) $(CARGO) build --quiet --profile test --bins --examples $(RUST_EXAMPLES)
	$(LINTED) $(CARGO) test --quiet --no-run $(RUST_EXAMPLES) --test store --test axum --test kv --test etcd

# TESTS of the larger examples, once examples-rust has built them, with what they need in the environment.
examples-rust-tests:
	$(LINTED) $(CARGO) test --quiet $(RUST_EXAMPLES) $(addprefix --test ,$(TESTS)) -- --include-ignored

examples: build ## Runs the example programs and checks that README.md shows them.
	examples/run.sh

fuzz: ## Runs every fuzz target for SECONDS=60 (needs a nightly compiler and cargo-fuzz).
	testing/fuzz/run.sh $(SECONDS)

compare-corpora: libraries ## Plays the inputs that `make fuzz` has found on both back ends of the Go binding.
	cd go-bindings && RANGEKEEPER_CORPUS_FLOOR=1000 $(GO) test $(UNVETTED) -v -run '^TestBackEndsAgreeOnCorpora$$' ./internal/sequences

simulate: ## Plays 10,000,000 schedules of the commit protocol, or as many as fit in 15 minutes, and 3,000,000 of each of the other kinds; SEED=N repeats one.
	$(CARGO) run --release --locked -p rangekeeper-simulation -- $(if $(SEED),--seed $(SEED),--schedules 10000000 --minutes 15)
	$(if $(SEED),,for kind in retraced tokens ledgers; do $(CARGO) run --release --locked -p rangekeeper-simulation -- --$$kind --schedules 3000000 --minutes 10 || exit; done)
	$(if $(SEED),,$(CARGO) test --release --locked -p rangekeeper --features ledger --test shared_ledger -- --ignored --nocapture)

simulate-short: ## Plays 135,000 schedules, always the same, and checks that the simulation notices some of the broken rules of the protocol.
	$(LINTED) $(CARGO) build --profile test --bins $(RUST_TESTS)
	target/debug/simulate --from 1 --schedules 100000 --minutes 10 --at-least 100000
	target/debug/simulate --retraced --from 1 --schedules 10000 --minutes 5 --at-least 10000
	target/debug/simulate --tokens --from 1 --schedules 15000 --minutes 5 --at-least 15000
	target/debug/simulate --ledgers --from 1 --schedules 10000 --minutes 5 --at-least 10000
	@SIMULATE=target/debug/simulate testing/faults.sh changed

bench: ## Measures the crates with criterion.
	$(CARGO) bench --locked -p rangekeeper-bench

profile: ## Draws where a bench spends its time, as target/profile/BENCH.svg; BENCH='commit' or BENCH='commit FILTER' (needs perf).
	@bench/profile.sh $(BENCH)

faults: ## Puts each fault of testing/simulation/faults into the commit protocol, and has the simulation find it; half an hour.
	@testing/faults.sh check

bench-once: ## Runs each of the crates' benches once, without a measurement.
	$(CARGO) test --locked --quiet -p rangekeeper-bench --benches -- --test

instructions: ## Counts the instructions of the hottest operations, compares them with bench/instructions.txt, and checks how they grow (needs valgrind).
	@bench/instructions.sh

instructions-record: ## Rewrites bench/instructions.txt.
	@bench/instructions.sh --record

compare: purego ## Measures the same work on the reference and here, in turn; writes target/compare.json.
	$(CARGO) build --release --locked -p rangekeeper-bench --bin compare-rust
	rm -f target/compare
	cd kube-apiserver/compare && $(GO) build -o ../../target/compare ./cmd/compare && ../../target/compare -rust ../../target/release/compare-rust

compare-backends: libraries ## Measures the Go binding with both back ends in turn.
	bench/compare-backends.sh

compare-store: purego ## Measures allocations through an etcd by the reference and here, in turn; writes target/compare-store.json.
	rm -f target/compare-store
	cd kube-apiserver/compare && $(GO) build -o ../../target/compare-store ./cmd/compare-store && ../../target/compare-store

compare-apiserver: apiservers dropin ## Measures the creation of Services by stock kube-apiservers and with Rangekeeper inside; writes target/compare-apiserver.json.
	rm -f target/compare-apiserver
	cd kube-apiserver/compare && $(GO) build -o ../../target/compare-apiserver ./cmd/compare-apiserver && ../../target/compare-apiserver

compare-growth: apiservers dropin ## Measures kube-apiservers with more and more Services, stock ones and with Rangekeeper inside; writes target/compare-growth.json and docs/growth.svg.
	rm -f target/compare-growth
	cd kube-apiserver/compare && $(GO) build -o ../../target/compare-growth ./cmd/compare-growth && ../../target/compare-growth

measure-audit: build apiservers ## Measures the audit of a cluster with 20,000 Services over the API and in etcd; writes target/measure-audit.json.
	rm -f target/measure-audit
	cd kube-apiserver/compare && $(GO) build -o ../../target/measure-audit ./cmd/measure-audit && ../../target/measure-audit

measure-snapshot: build ## Measures the commands on snapshots with 100,000 and 1,000,000 Services, in turn with BEFORE, another build; writes target/measure-snapshot.json.
	rm -f target/measure-snapshot
	cd kube-apiserver/compare && $(GO) build -o ../../target/measure-snapshot ./cmd/measure-snapshot && ../../target/measure-snapshot -before "$(BEFORE)"

record: ## Runs the measurement WHAT, such as compare, and records it in bench/record with commit, CPU and versions.
	@bench/record.sh $(WHAT)

compare-model: purego ## Plays random operation sequences on the reference's allocators and on ours.
	cd kube-apiserver/conformance && $(GO) test $(UNVETTED) -v -run . ./...

goldens: ## Rewrites testing/testdata/reference with the reference's own packages.
	cd kube-apiserver/conformance && $(GO) run ./cmd/goldens

fixtures: purego apiservers ## Records in testdata how the stock kube-apiservers of RELEASES repair a damaged cluster; 7 minutes.
	cd controlplane && $(GO) run ./internal/tools/fixtures $(RELEASES)

header: ## Rewrites include/rangekeeper.h, and from it the Go side of the C ABI (needs cbindgen 0.29.4).
	ffi/header.sh

install: library ## Installs header, libraries, pkg-config file and CMake package below PREFIX.
	ffi/install.sh $(PREFIX)

installed: setup library ## Builds README's C program in an empty Debian system against the installed library; needs root.
	ffi/tests/installed.sh $(CURDIR)/target/debian

dist: ## Writes a release of this commit into dist/ (docs/release.md; needs cargo-cyclonedx 0.5.9); PLATFORMS='linux/amd64 linux/arm64' for some.
	@release/dist.sh dist $(PLATFORMS)

check-dist: library ## Checks dist/ as users of a release meet it, and its library in an empty Debian system; needs root.
	@release/check.sh dist
	@ffi/tests/installed.sh $(CURDIR)/target/debian dist

outside: ## Uses the Go modules and libraries of dist/ as programs outside of the checkout do; CROSS='darwin/arm64' builds for some platforms.
	@CROSS="$(CROSS)" release/outside.sh dist

reproducible: ## Builds dist/ again, in another folder and with nothing that is built already, and compares all bytes.
	@release/reproducible.sh dist $(PLATFORMS)

fmt: ## Formats the sources.
	$(CARGO) fmt --all
	$(CARGO) fmt --manifest-path testing/fuzz/Cargo.toml
	gofmt -w $(GOFILES)

dependencies: ## Checks licences, sources and known vulnerabilities of what we depend on (needs cargo-deny 0.20.2).
	@.ci/dependencies.sh

manifests: ## Renders the Helm chart as release/deploy/base/controller.yaml.
	@release/manifests.sh

chart: ## Checks the Helm chart, and that release/deploy/base is what it renders.
	@release/manifests.sh --check
	cd release && $(GO) test $(UNVETTED) .

alerts: ## Checks the alert rules, and plays release/alerts.yaml, with Prometheus' promtool, and that the chart's Pods are scraped; minutes the first time.
	cd release && $(PROMTOOL) check rules deploy/chart/alerts.yaml
	cd release && $(PROMTOOL) test rules alerts.yaml
	cd release && $(GO) test $(UNVETTED) ./monitoring

lint: library ## Checks in addition to `make check`: go vet of all modules, the header, the faults of the simulation.
	for module in controlplane compat examples/go examples/go-operator go-bindings/etcdstore kube-apiserver/compare kube-apiserver/conformance kube-apiserver/stock; do \
		(cd $$module && $(GO) vet $(NATIVE) ./...); done
	$(GO) vet ffi/header/main.go
	@kube-apiserver/dropin.sh $(firstword $(RELEASES)) --sources
	cd kube-apiserver/dropin && $(GO) vet $(NATIVE) ./... $(DROPIN_PACKAGES)
	ffi/header.sh --check
	@testing/faults.sh compile

targets: setup libraries ## Checks that the library and the binding compile for other platforms, and tests the binding on some (needs rustup targets; minutes).
	for target in $(TARGETS); do $(CARGO) check --locked --target $$target -p rangekeeper-ffi; done
	cd go-bindings && $(GO) build $(NATIVE) -o ../target/sequences ./internal/sequences
	@# Sequences have indexes beyond 32 bits.
	for platform in $(GO_EMULATED); do \
		cd go-bindings && export CGO_ENABLED=0 GOARCH=$${platform%/*}; \
		$(GO) test $(UNVETTED) -exec $${platform#*/} . ./internal/rk; \
		[[ $$GOARCH != 386 ]] || { cd ..; continue; }; \
		$(GO) build -o ../target/sequences-$$GOARCH ./internal/sequences; cd ..; \
		cmp <(target/sequences 0 2000) <($${platform#*/} target/sequences-$$GOARCH 0 2000); done

miri: ## Runs the C ABI's own tests under Miri (needs the nightly compiler of testing/fuzz/rust-toolchain.toml).
	MIRIFLAGS="-Zmiri-strict-provenance -Zmiri-symbolic-alignment-check" $(CARGO) +$(NIGHTLY) miri test --locked -p rangekeeper-ffi --lib --target-dir target/miri

tsan: ## Runs the C ABI's own tests under ThreadSanitizer (needs the nightly compiler of testing/fuzz/rust-toolchain.toml).
	RUSTFLAGS="-Zsanitizer=thread" $(CARGO) +$(NIGHTLY) test --locked -p rangekeeper-ffi --lib -Zbuild-std --target $(HOST) --target-dir target/tsan

crates: ## Checks that the crates can be published, each built from its package alone.
	$(CARGO) publish --dry-run --locked -p rangekeeper -p rangekeeper-bootstrap

analyse: purego ## Checks the Go modules with staticcheck, and controlplane for functions that nothing calls; minutes.
	cd go-bindings && $(STATICCHECK) $$($(GO) list ./... | grep -v internal/wasm)
	cd go-bindings/etcdstore && $(STATICCHECK) ./...
	cd controlplane && $(STATICCHECK) ./...
	cd compat && $(STATICCHECK) ./...
	cd release && $(GO) vet ./... && $(STATICCHECK) ./...
	cd kube-apiserver/compare && $(STATICCHECK) ./...
	cd kube-apiserver/conformance && $(STATICCHECK) ./...
	@kube-apiserver/dropin.sh $(firstword $(RELEASES)) --sources
	@DEADCODE="$(DEADCODE)" DROPIN_PACKAGES="$(DROPIN_PACKAGES)" .ci/deadcode.sh

api-changes: ## Shows what has changed in the C ABI, the Go modules and the crates since the commit BASE (needs cargo-semver-checks 0.51.0).
	.ci/api-changes.sh $(BASE)

clippy: ## Lints what no test builds, too: benches, bootstrap-rs, fuzz targets.
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	cd testing/fuzz && $(CARGO) clippy --locked --package rangekeeper-fuzz --all-targets -- -D warnings

doc: ## Builds the crates' documentation, warnings denied.
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps

stress: apiservers kine dropin ## Runs the tests that start servers 20 times beside busy loops, to find those that fail without a fault; PACKAGES=controlplane/e2e and TESTS='^TestRead' run some, RUNS=N so often.
	@RANGEKEEPER_REQUIRE_APISERVER='$(RELEASES)' TESTS='$(TESTS)' testing/stress.sh $(or $(RUNS),20) $(PACKAGES)

# With this variable random tests play five times as many cases.
nightly: export RANGEKEEPER_NIGHTLY := 1
nightly: ## Runs what takes too long for .ci/run, or finds less: all platforms, long fuzzing, simulation and clusters; six hours.
	$(MAKE) test compare-model
	$(MAKE) doc clippy targets instructions crates dependencies alerts miri tsan bench-once analyse
	$(MAKE) test-c test-race-purego
	$(MAKE) goldens
	git diff --exit-code -- testing/testdata/reference
	$(MAKE) test-cluster examples
	$(MAKE) dist check-dist outside reproducible
	$(MAKE) fuzz SECONDS=600 compare-corpora
	$(MAKE) simulate faults
	$(MAKE) conformance RELEASES="$(ALL_RELEASES)"
	$(MAKE) e2e

clean: ## Removes what was built.
	$(CARGO) clean
	rm -rf bin dist

# wattio: the project's commands. `make` or `make help` lists them.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

UV_VERSION := 0.13.8
CARGO_NEEDED := 1.88
export UV_PYTHON_DOWNLOADS := never

# The pinned uv: the one on PATH where it is of that version, else one of our own under .tools/.
UV := $(shell command -v uv >/dev/null 2>&1 && [ "$$(uv --version 2>/dev/null | cut -d' ' -f2)" = "$(UV_VERSION)" ] && command -v uv || echo .tools/uv/bin/uv)
RUN := $(UV) run --no-sync
# Tests at a time: more than a small machine has cores, since many wait for what they started.
WORKERS ?= 4
# A test of Python has a limit of its own (pyproject.toml); Rust's have one together, far beyond what they
# take, so that none hangs for ever.
RUST_TESTS := RUST_TEST_THREADS=$(WORKERS) timeout --foreground --verbose 45m cargo test
# What is skipped is told; where all is there, nothing may be, and what took long is told, too.
TELLING := -rsfE $(if $(CI),--no-skips --durations=20)

# uv tells nothing while it builds, and a first build compiles all of the native module.
TELL_BUILD := @[ -x .venv/bin/wattio ] || echo "building wattio, which takes a few minutes the first time" >&2

.PHONY: help
help: ## List the commands.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

.PHONY: run
run: needs $(UV) ## Set everything up, run the quickstart study, print its table and the report's path.
	$(TELL_BUILD)
	@$(UV) sync --locked --quiet --inexact --no-default-groups --extra meters --extra models
	@$(RUN) wattio run quickstart

.PHONY: build
build: needs $(UV) ## Build the native module and the Python environment.
	$(TELL_BUILD)
	@$(UV) sync --locked --quiet

.PHONY: needs needs-of-library
needs:
	@packaging/needs.sh $(CARGO_NEEDED)
needs-of-library:
	@packaging/needs.sh $(CARGO_NEEDED) --library

.tools/uv/bin/uv:
	@echo "getting uv $(UV_VERSION) into .tools/"
	@rm -rf .tools/uv && python3 -m venv .tools/uv && .tools/uv/bin/pip install --quiet --disable-pip-version-check "uv==$(UV_VERSION)"

.PHONY: test
test: build daemon ## Run all tests that need neither root nor servers.
	$(RUST_TESTS) --workspace --locked --quiet
	$(RUN) pytest -m "not system and not slow" -n $(WORKERS) --dist loadscope $(TELLING)

# With the packages and features of `make test`, so that nothing is compiled twice.
.PHONY: daemon
daemon: needs ## Build the daemon, wattiod, and its tests.
	cargo test --workspace --locked --quiet --no-run

.PHONY: test-system
test-system: build daemon ## Run the tests that need root, Debian packages, servers or long.
	$(UV) sync --locked --quiet --inexact --group readers
	$(RUST_TESTS) --workspace --locked --quiet --lib --test 'conformance*' --test 'sources*' -- --ignored --show-output
	$(RUN) pytest -m "(system or slow) and not alone and not installed" -n $(WORKERS) --dist loadscope --no-loadscope-reorder $(TELLING)
	$(RUN) pytest -m "(system or slow) and alone and not installed" $(TELLING)

.PHONY: test-installed
test-installed: build daemon ## Run the tests of OrangeFS and JULEA (WATTIO_ORANGEFS, WATTIO_JULEA name their folders) and Valkey.
	$(RUN) pytest -m "installed" $(TELLING)

.PHONY: guest
guest: build daemon ## Boot the QEMU guest and run the tests in it.
	$(RUN) pytest tests/guest -m "system and not installed" $(TELLING)

.PHONY: fuzz-check
fuzz-check: build ## Build the fuzz targets; run each on its seeds and on damaged ones (in test-system too).
	$(RUN) pytest tests/test_fuzz.py $(TELLING)

.PHONY: lint
lint: build ## Check formats, lints, types, arrows between rooms and the stub of the native module.
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked --quiet -- -D warnings
	cargo metadata --locked --quiet --format-version 1 --manifest-path fuzz/Cargo.toml >/dev/null
	$(RUN) ruff check
	$(RUN) ruff format --check
	$(RUN) mypy
	$(RUN) lint-imports --no-logo --no-cache
	$(RUN) python -m mypy.stubtest wattio._core

.PHONY: install-io
install-io: needs-of-library ## Build libwattio_io and its writer; install them below PREFIX.
	@test -n "$(PREFIX)" || { echo "say where: make install-io PREFIX=/opt/wattio-io" >&2; exit 2; }
	cargo build --release --locked --quiet -p wattio-io -p wattio-io-writer
	@packaging/install-io.sh "$${CARGO_TARGET_DIR:-target}/release" "$(PREFIX)"

.PHONY: bench
bench: needs $(UV) ## Show speed as ratios to peers of the same run; ARGS=--json for one object.
	@$(UV) sync --locked --quiet --reinstall-package wattio --config-setting "build-args=--profile release"
	@$(RUN) python benches/run.py $(ARGS)

DIST ?= target/dist
# Cargo's profile for what the wheel carries; tests build it sooner.
WHEEL_PROFILE ?= release
.PHONY: package
package: needs $(UV) ## Build the wheel, the source package and the Debian packages, into DIST (target/dist).
	@command -v dpkg-deb >/dev/null || { echo "Debian packages are built with dpkg-deb: apt install dpkg" >&2; exit 2; }
	@mkdir -p "$(DIST)" && rm -f "$(DIST)"/wattio{-,_,d_}*
	$(UV) build --quiet --sdist --out-dir "$(DIST)"
	$(UV) build --quiet --wheel --config-setting "build-args=--profile $(WHEEL_PROFILE)" --out-dir "$(DIST)"
	@UV=$(abspath $(UV)) packaging/debian/build.sh "$$(packaging/build/static.sh)" "$(DIST)"/*.whl "$(DIST)"
	@ls -sh "$(DIST)"

.PHONY: docs
docs: needs $(UV) ## Build the documentation as a site, into target/site; nothing is fetched.
	@$(UV) sync --locked --quiet --inexact --group docs
	@NO_MKDOCS_2_WARNING=1 $(RUN) mkdocs build --quiet --strict

.PHONY: clean
clean: ## Remove everything that was built; results stay.
	rm -rf target .venv .tools fuzz/target .mypy_cache .ruff_cache .pytest_cache .hypothesis python/wattio/_core.abi3.so

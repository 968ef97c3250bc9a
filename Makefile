# make run        set up, then check and time GeLU, softmax and square
# make test       set up, then run all tests and linters
# make exhaustive what make test samples, in full: every shipped kernel for every type and architecture, every trial
# make venv       set up only
# make gpu        on a machine with a GPU: the tests that need one, with the packages of $(PYTHON)
# make chromium   install a browser for the tests of pages, if there is none

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: run test exhaustive venv lint bare chromium gpu
.DEFAULT_GOAL := run

venv: $(READY)

# Rebuilt when the pinned versions or pyproject.toml change.
$(READY): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "kernellab needs Python 3.11 or newer; set PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

run: $(READY)
	$(BIN)/klab run gelu softmax square

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint chromium
	OMP_NUM_THREADS=1 $(BIN)/pytest -m "not clocked and not gpu and not exhaustive" -n 2 --dist worksteal
	$(BIN)/pytest -m "clocked and not gpu"
	$(MAKE) --no-print-directory bare

# What `make test` samples.
exhaustive: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/pytest -m "exhaustive and not gpu" -n 2
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m support.shipped_code
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -W ignore -m support.battery_parts

# Pages and pictures are tested in a real browser. Only the system's package installs the libraries it needs.
chromium:
	@for name in chromium chromium-browser google-chrome google-chrome-stable; do \
	  command -v $$name >/dev/null && exit 0; done; \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && apt-get install -y -qq chromium >/dev/null; \
	  else echo "the tests of pages need Chromium: install your system's package of it"; exit 1; fi

# Users may have no CUDA toolkit: the tests marked `bare` run again with every trace of one hidden.
bare: $(READY)
	OMP_NUM_THREADS=1 tests/without_cuda_toolkit.sh $(BIN)/pytest -m "bare and not gpu" -n 2

# Tests that look at clocks run alone; the others share the GPU.
gpu:
	PYTHONPATH=src $(PYTHON) -m pytest tests/gpu -m "gpu and not clocked" -n 12 --dist worksteal --durations=15; beside=$$?; \
	  PYTHONPATH=src $(PYTHON) -m pytest tests/gpu -m "gpu and clocked" --durations=15 && exit $$beside

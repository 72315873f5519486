# make demo   a real model scores examples/ and prints a table
# make check  the quick checks: format, lint, types, layers, docs
# make test   everything CI checks, in about 15 minutes on two cores
# make test-slow  the same in one process with coverage, and the long checks: many kills, every model family
# make audit  random damage to tables, runs, models and servers' answers: make audit SEED=2 SECONDS=60 (for each kind)
# make docs   the documentation as a site, in site/
# make lock   requirements.lock again, after a change of pyproject.toml or constraints.txt
# make bench  what scoring costs here: make bench TEXTS=file, one text a line
# make bench-peers  the same for other packages, each in an environment of its own under .bench (4 GB)
# make bench-gpu  the same on a GPU: make bench-gpu TEXTS=file TOKENIZER=directory (Pythia's)
PYTHON ?= python3
EXTRAS := models study serve dev
# torch has builds for processors and for each version of CUDA; which one is at hand is a matter of the machine, and so
# are the libraries that only its CUDA builds need. Its version is in constraints.txt, their hashes are nowhere.
NOT_LOCKED := torch triton cuda-bindings cuda-pathfinder cuda-toolkit nvidia-cublas nvidia-cuda-cupti nvidia-cuda-nvrtc \
	nvidia-cuda-runtime nvidia-cudnn-cu13 nvidia-cufft nvidia-cufile nvidia-curand nvidia-cusolver nvidia-cusparse \
	nvidia-cusparselt-cu13 nvidia-nccl-cu13 nvidia-nvjitlink nvidia-nvshmem-cu13 nvidia-nvtx
BIN := .venv/bin
READY := .venv/.ready

TEXTS ?= examples/abstract.txt

.PHONY: demo static check test test-slow audit docs bench bench-gpu bench-peers format lock clean

# First everything whose hash is known, then torch and the package itself.
$(READY): pyproject.toml constraints.txt requirements.lock
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade "pip>=24"
	$(BIN)/python -m pip install --quiet --require-hashes --no-deps --requirement requirements.lock
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
	$(BIN)/python -m pytest -q tests/docs/test_docs.py

# Two processes with one thread each: more threads than cores only wait for each other.
test: static
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --durations=15

test-slow: static
	$(BIN)/coverage run -m pytest -m "slow or not slow" --durations=15
	$(BIN)/coverage report --skip-covered --fail-under=90

# What docs/trust.md counts, with another seed each day unless one is given: about 15 minutes, an hour at most.
SEED ?= $(shell date +%Y%m%d)
SECONDS ?= 60
audit: $(READY)
	WORDPROB_AUDIT_SEED=$(SEED) WORDPROB_AUDIT_SECONDS=$(SECONDS) OMP_NUM_THREADS=1 timeout 3600 \
		$(BIN)/python -m pytest tests -q -m audit --hypothesis-seed=$(SEED)

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

lock:
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml $(EXTRAS:%=--extra %) --constraint constraints.txt --universal --python-version 3.11 \
		--generate-hashes --no-annotate --no-header --no-emit-index-url $(NOT_LOCKED:%=--no-emit-package %) \
		--quiet --output-file requirements.lock

clean:
	rm -rf .venv .bench site .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage

# Shortcuts; each target is one or two plain commands. `make check` is what CI does.
PYTHON ?= .venv/bin/python

.PHONY: check test fast format demo wire docs benchmarks clean

.venv/bin/python: pyproject.toml
	python3 -m venv .venv
	.venv/bin/pip install --quiet -e '.[dev]'
	touch .venv/bin/python

check: $(PYTHON)       ## format, lint, types, floors, all tests
	$(PYTHON) -m pytest

fast: $(PYTHON)        ## everything that starts no training
	$(PYTHON) -m pytest -m "not slow"

format: $(PYTHON)      ## bring the code into its format
	$(PYTHON) -m ruff format .
	$(PYTHON) -m ruff check --fix .

demo: $(PYTHON)        ## the main job
	$(PYTHON) -m chaoslab run kill_half

wire:                  ## generate wire_pb2 from wire.proto, readable by every protobuf since 5.29
	python3 -m venv build/wire
	build/wire/bin/pip install --quiet 'grpcio-tools==1.71.2' 'setuptools<81'
	build/wire/bin/python -m grpc_tools.protoc -I . --python_out=. --pyi_out=. chaoslab/diloco/wire.proto

docs: $(PYTHON)        ## rewrite what is made from the code: module map, kinds, catalogues
	$(PYTHON) -m tests.generated_docs

benchmarks: $(PYTHON)  ## all of them, one after the other; minutes
	for file in benchmarks/*.py; do $(PYTHON) $$file || exit 1; done

clean:                 ## what the tools left; runs/ stays
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist

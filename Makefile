# Shortcuts; each target is one or two plain commands. CI runs `make check`, then `make gate`.
PYTHON ?= .venv/bin/python

.PHONY: check style quick gate deep lock coverage format demo plans selftest vm wire docs site benchmarks clean

LOCK = .ci/constraints.txt

.venv/installed: pyproject.toml $(LOCK)
	python3 -m venv .venv
	PIP_CONSTRAINT=$(LOCK) PIP_BUILD_CONSTRAINT=$(LOCK) \
		.venv/bin/pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

lock:                  ## the newest versions that every supported Python has, for the environment above
	python3.11 -m venv build/lock
	build/lock/bin/pip install --quiet --dry-run --report build/lock.json '.[dev]'
	build/lock/bin/python -c 'import json; print(*sorted(("{name}=={version}".format(**one["metadata"]) \
		for one in json.load(open("build/lock.json"))["install"] if not one["is_direct"]), key=str.lower), \
		sep="\n")' >$(LOCK)

check: style quick     ## what every change must pass; needs Python alone

style: .venv/installed ## format, lint, types
	$(PYTHON) -m ruff format --check --quiet .
	$(PYTHON) -m ruff check --quiet .
	$(PYTHON) -m mypy

quick: .venv/installed ## the quick tests: at most four minutes on two idle cores
	$(PYTHON) -m pytest -n 2

gate: .venv/installed  ## a run or kit for each fleet, link and system that this machine has
	$(PYTHON) -m pytest -n 3 --tier gate

deep: .venv/installed  ## the rest, in parts that can be resumed: PART=docker, or all; two hours
	$(PYTHON) -m tests.deep $(PART)

coverage: .venv/installed ## lines that tests run, per package; TESTS='--tier gate' of other tests
	$(PYTHON) -m coverage erase
	$(PYTHON) -m coverage run -m pytest -n 2 $(TESTS)
	$(PYTHON) -m coverage combine --quiet
	$(PYTHON) -m tests.coverage_table

format: .venv/installed ## bring the code into its format
	$(PYTHON) -m ruff format .
	$(PYTHON) -m ruff check --fix .

demo: .venv/installed  ## the main job
	$(PYTHON) -m chaoslab run kill_half

plans: .venv/installed ## every plan of fault_plans/ on every place of this machine, and a table; hours
	$(PYTHON) -m tests.deep plans

selftest: .venv/installed ## every mutant of chaoslab's own: is it caught?; half an hour
	$(PYTHON) -m chaoslab research selftest

VM_TESTS ?= tests/links/test_packet_rules.py tests/fleet/test_cgroups.py tests/virtual_machine

vm: .venv/installed    ## tests under Debian's kernel, in QEMU: netem, nftables, cgroup v2; minutes
	$(PYTHON) -m tests.virtual_machine --seconds 1500 -- $(PYTHON) -m pytest $(VM_TESTS)

wire:                  ## generate wire_pb2 from wire.proto, readable by every protobuf since 5.29
	python3 -m venv build/wire
	build/wire/bin/pip install --quiet 'grpcio-tools==1.71.2' 'setuptools<81'
	build/wire/bin/python -m grpc_tools.protoc -I . --python_out=. --pyi_out=. chaoslab/diloco/wire/wire.proto

docs: .venv/installed  ## rewrite what is made from the code: kinds, catalogues, reference
	$(PYTHON) -m tests.generated_docs

site: .venv/installed  ## the documentation as pages to read offline: build/site/index.html
	$(PYTHON) docs/site/pages.py build/pages
	$(PYTHON) -m zensical build --clean --strict
	@echo "file://$(CURDIR)/build/site/index.html"

benchmarks: .venv/installed ## measure everything and write the results; a quarter of an hour
	$(PYTHON) benchmarks/report.py --measure

clean:                 ## what the tools left; runs/ stays
	rm -rf .venv .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist

# Shortcuts; each target is one or two plain commands. `make check` is what CI does.
PYTHON ?= .venv/bin/python

.PHONY: check fast coverage soak format demo plans selftest vm wire docs site benchmarks clean

.venv/bin/python: pyproject.toml
	python3 -m venv .venv
	.venv/bin/pip install --quiet -e '.[dev]'
	touch .venv/bin/python

check: $(PYTHON)       ## format, lint, types, floors, all tests
	$(PYTHON) -m pytest -n 2

fast: $(PYTHON)        ## starts no training, tries few seeds
	$(PYTHON) -m pytest -n 2 -m "not slow and not thorough"

coverage: $(PYTHON)    ## lines that tests run, per package; TESTS='-m "not slow"' leaves some out
	$(PYTHON) -m coverage erase
	$(PYTHON) -m coverage run -m pytest -n 2 $(TESTS)
	$(PYTHON) -m coverage combine --quiet
	$(PYTHON) -m tests.coverage_table

soak: $(PYTHON)        ## what holds once must hold a hundred times: kills of harness and syncer; half an hour
	$(PYTHON) -m pytest -m soak --timeout 7200

format: $(PYTHON)      ## bring the code into its format
	$(PYTHON) -m ruff format .
	$(PYTHON) -m ruff check --fix .

demo: $(PYTHON)        ## the main job
	$(PYTHON) -m chaoslab run kill_half

plans: $(PYTHON)       ## every plan of fault_plans/, one after the other, and a table of exit codes; minutes
	@for plan in fault_plans/*.yaml; do \
		$(PYTHON) -m chaoslab run $$plan; code=$$?; [ $$code = 0 ] || failed=1; \
		table="$$table$$(printf '%-24s %s' $$(basename $$plan .yaml) $$code)\n"; \
	done; printf "\n%-24s %s\n$$table" plan "exit code"; [ -z "$$failed" ]

selftest: $(PYTHON)    ## every mutant of chaoslab's own: is it caught?; about a quarter of an hour
	$(PYTHON) -m chaoslab selftest

VM_TESTS ?= tests/links/test_packet_rules.py tests/fleet/test_cgroups.py tests/virtual_machine

vm: $(PYTHON)          ## tests under Debian's kernel, in QEMU: netem, nftables, cgroup v2; minutes
	$(PYTHON) -m tests.virtual_machine --seconds 1500 -- $(PYTHON) -m pytest $(VM_TESTS)

wire:                  ## generate wire_pb2 from wire.proto, readable by every protobuf since 5.29
	python3 -m venv build/wire
	build/wire/bin/pip install --quiet 'grpcio-tools==1.71.2' 'setuptools<81'
	build/wire/bin/python -m grpc_tools.protoc -I . --python_out=. --pyi_out=. chaoslab/diloco/wire/wire.proto

docs: $(PYTHON)        ## rewrite what is made from the code: module map, kinds, catalogues
	$(PYTHON) -m tests.generated_docs

site: $(PYTHON)        ## the documentation as pages to read offline: build/site/index.html
	$(PYTHON) -m mkdocs build --strict --quiet

benchmarks: $(PYTHON)  ## measure everything and write the results; a quarter of an hour
	$(PYTHON) benchmarks/report.py --measure

clean:                 ## what the tools left; runs/ stays
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist

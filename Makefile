# Each verb works alone on a machine that has only make and Python >= 3.11.
UV := $(shell command -v uv 2>/dev/null || echo .uv/bin/uv)
RUN := $(UV) run --quiet --no-default-groups

.PHONY: demo test laws mutants check docs bench

demo: $(UV)
	@$(RUN) --extra terminal dsh-session demo
	@$(RUN) --extra terminal python examples/harness.py

test: $(UV)
	$(RUN) --group test pytest -n auto --cov --cov-report=term --cov-fail-under=100

# make laws LAWS=10000: every law draws that many examples, others at every run
laws: $(UV)
	HYPOTHESIS_PROFILE=laws $(RUN) --group test pytest -n auto -m hypothesis

mutants: $(UV)
	HYPOTHESIS_PROFILE=mutants $(RUN) --group test --with 'mutmut>=3.8' mutmut run
	$(RUN) --group test --with 'mutmut>=3.8' mutmut results

check: $(UV)
	$(RUN) --group dev ruff format --check .
	$(RUN) --group dev ruff check .
	$(RUN) --group dev mypy
	$(RUN) --group dev pyright
	$(RUN) --group dev lint-imports --no-cache
	$(RUN) --group dev interrogate --quiet src
	@$(MAKE) --no-print-directory docs

docs: $(UV)
	$(RUN) --group docs sphinx-build --quiet --fresh-env --fail-on-warning --keep-going docs docs/_build

bench: $(UV)
	$(RUN) --group test python bench/run.py

.uv/bin/uv:
	@python3 -c 'import sys; sys.exit(sys.version_info < (3, 11) and "make: python3 >= 3.11 is needed")'
	@python3 -m venv .uv
	@.uv/bin/pip --quiet --disable-pip-version-check install 'uv>=0.5'

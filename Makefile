PYTHON ?= python3
export PATH := $(CURDIR)/.venv/bin:$(PATH)

.PHONY: demo
demo: .venv/ready ## four networks to Core ML, each run and compared with PyTorch
	python -m examples.demo

.PHONY: test
test: .venv/ready ## everything that CI runs
	ruff check . && ruff format --check .
	pyright
	lit -q test
	pytest -q

.PHONY: conformance
conformance: .venv/ready ## Apple's own tests of Core ML's ops, run by the evaluator
	python test/conformance

.PHONY: bench
bench: .venv/ready ## conversion beside coremltools, and the start of padc-opt
	python -m bench.start
	python -m bench.convert

.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	pip install -q torch==2.13.0
	pip install -q -e '.[coreml,dev]'
	touch $@

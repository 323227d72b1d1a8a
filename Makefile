PYTHON ?= python3
export PATH := $(CURDIR)/.venv/bin:$(PATH)

.PHONY: demo
demo: .venv/ready ## networks to Core ML, each run and compared with PyTorch
	python -m examples.demo

.PHONY: test
test: .venv/ready ## everything that CI runs
	ruff check . && ruff format --check .
	pyright
	lit -q test
	OMP_NUM_THREADS=1 pytest -q -n auto --maxprocesses 4 --dist loadfile

.PHONY: conformance
conformance: .venv/tensorflow ## Apple's own tests of Core ML's ops; 2000 examples of each property
	python test/conformance
	pytest -q -m slow
	PADC_PROGRAMS=1000 pytest -q test/backends/native/test_programs.py
	PADC_PROGRAMS=240 pytest -q test/passes/test_buffers.py
	PADC_EXAMPLES=2000 pytest -q --hypothesis-show-statistics \
		test/passes/test_pads.py test/passes/test_grid_sample.py

.PHONY: conformance-onnx
conformance-onnx: .venv/onnx ## ONNX' own tests of padded ops, mapped onto tcp
	python test/conformance/onnx_nodes.py

.PHONY: support
support: .venv/ready ## docs/support.md: what works, by running it
	python -m padc.tools.update_support

.PHONY: grid-sample-counts
grid-sample-counts: .venv/ready ## docs/grid_sample.md: the ops that it becomes
	python -m padc.tools.update_grid_sample

.PHONY: bench
bench: .venv/bench ## beside coremltools, PyTorch and onnxruntime
	python -m bench.start
	python -m bench.convert
	python -m bench.evaluate
	python -m bench.compile
	python -m bench.pads

.venv/bench: .venv/ready
	pip install -q -e '.[bench]'
	touch $@

# Apart, since coremltools would load it at every start.
.venv/tensorflow: test/conformance/requirements.txt | .venv/ready
	pip install -q --upgrade --target $@ -r $<
	touch $@

.venv/onnx: test/conformance/onnx.txt | .venv/ready
	pip install -q --upgrade --target $@ -r $<
	touch $@

.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	pip install -q torch==2.13.0
	pip install -q -e '.[coreml,native,dev]'
	touch $@

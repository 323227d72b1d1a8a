PYTHON ?= python3
SHELL := bash
TORCH := torch==2.13.0# whose wheel for the CPU is small; pyproject.toml has the range
export PATH := $(CURDIR)/.venv/bin:$(PATH)
unexport PYTHONDONTWRITEBYTECODE # or each process compiles all modules again

.PHONY: demo
demo: .venv/ready ## networks to Core ML, each run and compared with PyTorch
	python -m examples.demo

.PHONY: test
test: .venv/ready ## everything that CI runs
	@time $(MAKE) --no-print-directory --jobs --keep-going style levels types lit pytest

QUICK := test/ir test/passes/test_table.py test/test_program.py test/tools/test_padc_same.py \
	test/tools/test_padc_opt.py test/backends/test_reference.py \
	test/backends/coreml/test_checker.py test/backends/coreml/test_save.py \
	test/backends/native/test_programs.py::test_machine_code_computes_what_the_reference_does \
	test/frontends/test_functional.py::test_a_composite_that_returns_a_view \
	test/frontends/test_pt2.py test/test_states.py::test_states_of_float16 \
	test/frontends/test_guards.py::test_packages_take_the_sizes_for_which_guards_hold \
	test/frontends/test_control_flow.py::test_a_loop_in_a_branch \
	test/passes/complex/test_split_complex.py::test_models \
	test/passes/torch_to_mil/test_losses.py \
	test/passes/torch_to_tcp/test_fold_batch_norm.py \
	test/passes/torch_to_tcp/test_convert_torch_to_tcp.py::test_upsample \
	test/passes/tcp_to_mil/test_convert_tcp_to_mil.py::test_dynamic_sizes \
	test/passes/to_linalg/test_convert_torch_to_linalg.py::test_promotion \
	test/passes/buffers/test_strided_range.py

.PHONY: quick
quick: .venv/ready ## under a minute: some tests of each room, no types
	@time $(MAKE) --no-print-directory --jobs --keep-going style levels lit quick-pytest

.PHONY: style levels types lit pytest quick-pytest
style:
	ruff check -q . && ruff format -q --check .
levels: # which folder may import which: the contracts in pyproject.toml
	lint-imports --no-cache --no-logo
types: # the options: less work for the garbage collector, in one thread
	NODE_OPTIONS="--max-semi-space-size=128 --v8-pool-size=0" pyright
lit:
	lit -q test
pytest:
	OMP_NUM_THREADS=1 pytest -q -n auto --dist worksteal
quick-pytest:
	OMP_NUM_THREADS=1 PADC_PROGRAMS=16 pytest -q -n auto --dist worksteal $(QUICK)

.PHONY: conformance
conformance: .venv/tensorflow ## Apple's own tests of Core ML's ops; 2000 examples of each property
	python test/conformance
	pytest -q -m slow
	PADC_PROGRAMS=1000 pytest -q test/backends/native/test_programs.py \
		test/backends/native/test_loop_programs.py
	PADC_PROGRAMS=160 pytest -q test/passes/buffers/test_buffers.py \
		test/passes/buffers/test_buffer_programs.py \
		test/passes/to_linalg/test_convert_tcp_to_linalg.py
	PADC_EXAMPLES=2000 pytest -q --hypothesis-show-statistics \
		test/passes/torch_to_tcp/test_pads.py \
		test/passes/torch_to_tcp/test_grid_sample.py

.PHONY: differential
differential: .venv/ready ## random programs and networks in eager mode and on each path
	python test/differential --programs 10000
	python test/differential --kind dynamic --programs 1000
	python test/differential --programs 1000 --paths checked,text,oldest,newest
	python test/differential --kind exported --programs 500 --paths compile,pt2,convert
	python test/differential --kind networks --programs 500 --paths native,strict

MINUTES := 10
COUNT :=
.PHONY: fuzz
fuzz: .venv/ready ## damaged files, MINUTES in all, or COUNT of each kind; kill -9
	python test/fuzz --minutes $(MINUTES) $(if $(COUNT),--count $(COUNT))
	python test/fuzz/kills.py

.PHONY: mutation
mutation: .venv/ready ## rules, folds and guards disabled one at a time: what no test notices
	python test/mutation

.PHONY: conformance-onnx
conformance-onnx: .venv/onnx ## ONNX' own tests of padded ops, mapped onto tcp
	python test/conformance/onnx_nodes.py

.PHONY: compat
compat: .venv/ready ## the tests with the oldest and the newest packages; the wheel
	python test/compat --torch $(TORCH)

.PHONY: support
support: .venv/ready ## docs/support.md: what works, by running it
	python -m padc.tools.update_support

.PHONY: coremltools
coremltools: .venv/ready ## docs/coremltools.md: coremltools.convert with padc, and without
	python -m padc.tools.update_coremltools

.PHONY: operators
operators: .venv/ready ## docs/operators.md: ATen's ops, and PyTorch's samples of them
	python -m padc.tools.update_operators

.PHONY: grid-sample-counts
grid-sample-counts: .venv/ready ## docs/grid_sample.md: the ops that it becomes
	python -m padc.tools.update_grid_sample

.PHONY: bench
bench: .venv/bench ## measurements, next to coremltools, PyTorch and onnxruntime
	python -m bench.start
	python -m bench.convert
	python -m bench.evaluate
	python -m bench.compile
	python -m bench.pads
	python -m bench.ops
	python -m bench.networks
	python -m bench.memory

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
	pip install -q $(TORCH)
	pip install -q -e '.[coreml,native,dev]'
	touch $@

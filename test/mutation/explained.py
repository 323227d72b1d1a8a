"""Mutants that no test can notice, and why."""

STATES = "passes/torch_to_mil/convert_model_buffers_to_states.py"

EXPLAINED: dict[str, str] = {
    **{
        f"frontends/torch_export/small_sizes.py Trials.{place}": (
            "it only saves time: no size below the declared one is tried"
        )
        for place in (
            "run: `not self.small()` is false",
            "small: `self.lowest(name) < LEAST` is true",
            "try_out: `not small` is false",
        )
    },
    **{
        f"frontends/torch_export/{place} is false": "it only saves time"
        for place in (
            "asked_sizes.py bounds_asked_for: `not dynamic_shapes`",
            "guards.py guards_code: `not (asserted := size_assertions(ep))`",
            "size_assertions.py size_assertions: `not conditions`",
        )
    },
    **{
        f"frontends/torch_export/size_limits.py {place}": reason
        for place, reason in {
            "limit_guards: `found` is true": "it only saves time",
            "limit_if_any: `own.is_at_least(least)` is false": (
                "such a limit always holds, and is dropped later"
            ),
            "Size.minimum: `self._of(expression(other)).is_at_least(self)` is false": (
                "it only makes the formula simpler"
            ),
            "Size.maximum: `self._of(expression(other)).is_at_least(self)` is false": (
                "it only makes the formula simpler"
            ),
            "sources_of_symbols: `isinstance(known, sympy.Symbol)` is false": (
                "the solution of a symbol is the symbol"
            ),
            "sources_of_symbols: `(value_of := solution(known, symbol, given)) is not None`"
            " is true": (
                "a symbol that no size is linear in is the size of another input"
            ),
            "bounds_of: `isinstance(symbol, sympy.Symbol)` is true": (
                "sympy looks up the bounds of symbols only"
            ),
        }.items()
    },
    "ir/torch/calls.py called_with: `each.kwarg_only` is true": (
        "PyTorch 2.13 takes all arguments by name, too"
    ),
    "ir/torch/calls.py call_checked: `not UNCHECKED.match(op.schema.name)` is false": (
        "a second check: no kernel is known that needs it and is called"
    ),
    **{
        f"{STATES} update: {place}": (
            "whether an op reads the state again or keeps the value, it is the same"
        )
        for place in (
            "`places[user_in(block, use.operation)] > last` is false",
            "`isinstance(value.owner, mil.MilOp) and state.type.element_type in (f16, f32)`"
            " is false",
            "`isinstance(value.owner, mil.MilOp)` is true",
            "`state.type.element_type in (f16, f32)` is true",
            "`later and is_read_again` is false",
            "`later` is true",
            "`is_read_again` is true",
        )
    },
    **{
        f"backends/coreml/repaired_passes.py {name}: `var.val is not None` is true": (
            "None has no dimensions and one element, for numpy"
        )
        for name in ("has_factor_of_rank", "known")
    },
    "frontends/torch_export/deciding_ops.py returns_tensors: "
    "`all(('Tensor' in str(each.type) for each in returns))` is true": (
        "numbers are computed again as well, unless that fails"
    ),
    f"{STATES} ConvertModelBuffersToStatesPass.apply: `states` is true": (
        "without states nothing is replaced"
    ),
    f"{STATES} make_states: `each is not None` is true": (
        "a buffer without a result is a state already, and is left out before"
    ),
    f"{STATES} ConvertModelBuffersToStatesPass.check: "
    "`DYNAMIC_INDEX in type.get_shape()` is false": (
        "torch.export has no buffers of dynamic size"
    ),
    **{
        f"backends/coreml/repaired_passes.py symbols_of_integers.value_inference: "
        f"`{place}` is false": "sizes that are not known are computed by the program"
        for place in (
            "all((var.val is not None for var in self.values))",
            "known",
            "is_whole",
        )
    },
    **{
        f"frontends/torch_export/strided.py {place}": (
            "elements are taken by their places, which takes longer"
        )
        for place in (
            "is_start: `not offset and all(are_packed(size, stride))` is false",
            "as_strided: `is_start(size, stride, storage_offset)` is false",
        )
    },
    **{
        f"frontends/torch_export/guards.py GuardCheck.__call__: {place} is false": (
            "the guards are checked, which takes longer"
        )
        for place in ("`not self.guards`", "`shapes in self._right`")
    },
    **{
        f"frontends/torch_export/guards.py {place} is true": (
            "PyTorch names all arguments of programs that have guards"
        )
        for place in (
            "input_numbers: `signature.forward_arg_names`",
            "sources: `index < len(arguments)`",
        )
    },
    "frontends/torch_export/guarded_ranges.py guarded_ranges: `own` is true": (
        "without guards, the range stays as it is"
    ),
    "frontends/torch_export/guarded_ranges.py guard_location: `env is None` is false": (
        "a program that is refused for a guard has symbols"
    ),
    "frontends/torch_export/guards.py sources: `place.isdigit()` is true": (
        "a name more, which no guard has"
    ),
    "passes/buffers/run_in_blocks.py RunInBlocksPass.apply: "
    "`(chains := list(chains_of(body_of(function))))` is true": (
        "`place_deallocs` leaves a function as it is that has them where they belong"
    ),
    "passes/buffers/run_in_blocks.py Chain.shares: `len(counts) == 1` is true": (
        "ops that are connected have as many steps as the buffer between them"
    ),
    "passes/buffers/run_in_blocks.py rows_of: `places[-1] is None` is true": (
        "another number of rows, which takes longer"
    ),
    "passes/buffers/run_in_blocks.py run: `place is not None` is true": (
        "each loop that a chain shares has a place in the buffers that it writes"
    ),
    "passes/buffers/run_in_blocks.py run.nest: `rest` is true": (
        "a block without rows, which canonicalize removes"
    ),
    "passes/buffers/run_in_blocks.py count_from: `firsts[loop] == 0` is false": (
        "0 is added, which canonicalize removes"
    ),
    "passes/buffers/run_in_blocks.py chains_of: `number < begin` is false": (
        "`chain_to` finds none that ends before `begin`"
    ),
    "backends/coreml/checker/shapes.py WeightShapes._blob: "
    "`kind.dtype not in (FP16, FP32)` is false": (
        "an op that needs the integers has them loaded again, with all other weights"
    ),
    "backends/coreml/checker/shapes.py load: `not _needs_data(error)` is false": (
        "loading it again raises the same error"
    ),
    "ir/tcp/pad_patterns.py ConcatOfPads.match_and_rewrite: `pads[0] is not op` is false": (
        "starting from any of the pads gives the same; this saves trying each"
    ),
    "ir/tcp/pool_patterns.py Window.smaller: `not 0 <= start < end <= padded` is false": (
        "a static pad that leaves nothing of its input is folded to its fill before"
    ),
    "passes/linalg/pack_layouts.py LayoutPacker.run: "
    "`isinstance(op, LinalgStructuredOperation)` is true": (
        "the plan has loops of no other ops"
    ),
    "passes/linalg/pack_layouts.py LayoutPacker.remove: "
    "`result.first_use is not None` is true": (
        "the ops that unpack a result without uses are removed with other dead code"
    ),
    "passes/linalg/packing.py captured_by: "
    "`(loop := loop_of(index)) is not None` is true": "None is none of the loops",
    "passes/linalg/pack_weights.py linear_of: "
    "`not isinstance(columns, AffineDimExpr)` is false": (
        "in a valid op some operand is indexed by the loop of the columns alone"
    ),
    "ir/torch/casts.py ToBuiltinTensorOp.fold: `x.type == self.result.type` is true": (
        "both are the builtin type of the tensor between them, as both casts verify"
    ),
    "passes/buffers/pad_into_producer.py WriteThrough.run: `first is self.copy` is false": (
        "a value that nothing uses before it is copied is undefined"
    ),
    "passes/buffers/pad_into_producer.py WriteThrough.fills_to_move: "
    "`not isinstance(op, linalg.FillOp)` is false": (
        "what writes the target before the value is computed is overwritten by it, and "
        "`hoist` moves no other op that writes"
    ),
    "passes/buffers/pad_into_producer.py may_replace: "
    "`isinstance(target.owner, memref.SubviewOp | memref.AllocOp)` is true": (
        "`hoist` moves no reshapes, and one that is before the value already would do"
    ),
    **{
        f"passes/buffers/border_pads.py {place} is true": (
            "copies of no elements, which canonicalize removes"
        )
        for place in (
            "copied_block.sweep: `lower != 0`",
            "copied_block.sweep: `upper != 0`",
            "padded: `lower[dim] != 0 or upper[dim] != 0`",
        )
    },
    "passes/aten/eager_evaluation.py Folding.value: "
    "`value not in self.values` is true": (
        "makes the tensor of a literal again, with the same elements"
    ),
    "passes/aten/eager_evaluation.py without_elements: "
    "`DYNAMIC_INDEX in shape` is false": (
        "torch.empty refuses the negative size, which says as much"
    ),
    "passes/buffers_to_llvm/products/fused_products.py FusedProduct.kernel: `self.start.value` is true": (
        "a buffer or a value, which is true already"
    ),
    "passes/buffers_to_llvm/products/fused_products.py key_around: "
    "`of.op(end.op, end.values)` is true": (
        "a tuple with elements, which is true already"
    ),
    "passes/buffers_to_llvm/products/fused_products.py key_around: "
    "`check.of(end.op)` is true": "a check, which is true already",
    "passes/buffers_to_llvm/loop_fusion.py kernel_of_ops: `check.of(op.op)` is true": (
        "a check, which is true already"
    ),
    "passes/buffers_to_llvm/looped_ops.py LoopedOp.may_be_outer: "
    "`ordered(longer(self.loops), 1)[-1].dims != (dim,)` is true": (
        "shares a loop that would be faster as the innermost one of its op"
    ),
    "passes/buffers_to_llvm/looped_ops.py LoopedOp.reads: `buffer.memory is memory` is true": (
        "joins fewer loops: those of terms that come from other buffers too"
    ),
    "passes/buffers_to_llvm/products/fused_products.py FusedProduct.loops: "
    "`loop.count != 1` is true": "a loop of one step moves nothing",
    "passes/buffers_to_llvm/row_pieces.py Piece.is_copy: "
    "`list(self.lanes) == list(range(self.width))` is false": (
        "a shuffle that moves nothing, which LLVM removes"
    ),
    "passes/buffers_to_llvm/looped_ops.py looped_op: "
    "`transposition_of(op, operands, longer(loops)) is not None` is false": (
        "loops of a transposition are shared, where blocks of it would be faster"
    ),
    **{
        f"passes/buffers_to_llvm/{place} is false": (
            "in a valid op, a loop moves the place in the result unless it reduces"
        )
        for place in (
            "looped_ops.py looped_op: `any((loop.steps[-1] == 0 and "
            "(not loop.reduces) for loop in longer(loops)))`",
            "looped_ops.py looped_op: `writes_often`",
            "window_rows.py window_row: "
            "`any((any(loop.steps[-body.outputs:]) for loop in window))`",
        )
    },
    "passes/buffers_to_llvm/looped_ops.py looped_op: "
    "`multiplied_type(op) is not None` is false": (
        "loops of products are shared, where a kernel of their own is faster"
    ),
    **{
        f"passes/buffers_to_llvm/looped_ops.py looped_op: {what}": (
            "`Access.along` tells the loops of other orders apart, so none are shared; "
            "where there are none to share, the order is that which is fast"
        )
        for what in (
            "`any((x.buffer.memory is memory and x.map != identity "
            "for x in move.accesses))` is false",
            "`x.buffer.memory is memory` is true",
            "`order == sorted(order)` is true",
        )
    },
    "passes/buffers_to_llvm/window_rows.py window_row: `loops[-1].reduces` is false": (
        "adds the parts of one sum to its result, one after the other"
    ),
    **{
        f"passes/buffers_to_llvm/window_rows.py {what}": (
            "a matter of speed: one step computes the same"
        )
        for what in (
            "window_row: `columns > MOST_COLUMNS` is false",
            "window_row: `not pays(down, across, along, columns)` is false",
            "pays: `GAIN * (rows * columns + windows) < rows * windows` is true",
        )
    },
    "passes/buffers_to_llvm/window_rows.py adds_elements: `is_sum(body.op)` is true": (
        "halves are added as float32, which takes more ops than two"
    ),
    "passes/buffers_to_llvm/loop_fusion.py aliases_of: `memory not in private` is true": (
        "LLVM is told less: that pointers to memory of the kernel may alias"
    ),
    "passes/buffers_to_llvm/loop_fusion.py FusedLoops.prefetching: "
    "`place < len(emit) - 1` is true": "prefetches a row that is written at once",
    "passes/buffers_to_llvm/loop_fusion.py FusedLoops.prefetching: "
    "`rows[-1] < end` is true": "prefetches a row earlier",
    "passes/buffers_to_llvm/loop_fusion.py FusedLoops.writes_row: "
    "`self.build.check is None` is true": "prefetches in code whose stores are checked",
    "passes/buffers_to_llvm/loop_fusion.py FusedLoops.only_writes: "
    "`memory not in self.private` is true": (
        "prefetches memory of the kernel, which is in the first cache already"
    ),
    **{
        f"passes/buffers_to_llvm/loop_groups.py shares: {what}": (
            "shares a loop that would be faster as the innermost one of its op"
        )
        for what in (
            "`not (a.may_be_outer(dim) and b.may_be_outer(dim))` is false",
            "`a.may_be_outer(dim)` is true",
            "`b.may_be_outer(dim)` is true",
        )
    },
    "passes/buffers_to_llvm/loop_groups.py shares: `x.along(dim) is not None` is true": (
        "a loop is the index of a dimension of what an op writes, or it reduces"
    ),
    **{
        f"passes/buffers_to_llvm/loop_groups.py {what}": (
            "makes smaller groups, whose kernels compute the same in the same order"
        )
        for what in (
            "shares: `x.writes or y.writes` is true",
            "connected: `before[1] & after[0]` is false",
            "pays: `isinstance((buffer := op.values[x]), BufferDescriptor)` is false",
            "pays: `loop.steps[place] != 0` is true",
            "pays: `each < math.inf` is true",
            "are_apart: `a not in written and b not in written` is false",
            "are_apart: `min(times[b]) <= max(times[a])` is false",
            "are_disjoint: `first[1] <= second[0]` is false",
            "are_disjoint: `second[1] <= first[0]` is false",
            "place_of: `type.has_static_shape()` is false",
        )
    },
    **{
        f"passes/buffers_to_llvm/loop_groups.py pays: {what}": (
            "makes larger groups, of steps that the threads or the cache do not suit"
        )
        for what in (
            "`most_steps(ops[0].loops[:depth]) < FEWEST_STEPS` is false",
            "`loop.steps[place] != 0` is false",
            "`sum((each for each in bytes.values() if each < math.inf)) "
            "<= STEP_BYTES` is true",
            "`each < math.inf` is false",
        )
    },
    "passes/buffers_to_llvm/loop_groups.py are_apart: `a not in written` is true": (
        "no op reads, after another has written in its place, what is in use no more"
    ),
    **{
        f"passes/buffers_to_llvm/loop_plans.py tile_of: {what}": (
            "tiles of another number of rows compute the same, only slower"
        )
        for what in (
            "`any((loop.reduces for op in ops for loop in op.loops))` is false",
            "`any((loop.reduces for op in ops for loop in op.loops))` is true",
            "`not reduces` is false",
            "`any((len(run) > 1 for run in runs(ops, depth)))` is false",
        )
    },
    "passes/buffers_to_llvm/loop_plans.py LoopPlanner.joined: "
    "`isinstance(nest, Alone)` is true": "no other nests have a target in common",
    "passes/buffers_to_llvm/loop_plans.py LoopPlanner.moves: `isinstance(op, Move)` is true": (
        "what is no move copies nothing, as `copies_of` tells"
    ),
    "passes/buffers_to_llvm/loop_plans.py described: `Joined(row)` never matches": (
        "kernels whose moves are the same have the same rows"
    ),
    "passes/buffers_to_llvm/private_buffers.py private_buffer: "
    "`not isinstance(root, BufferDescriptor)` is false": "views of the arena are buffers",
    **{
        f"passes/buffers_to_llvm/private_buffers.py private_buffer: {what} is false": (
            "`shares` has compared what the ops of the loop use of memory that is written"
        )
        for what in ("`along is None`", "`others`", "`place is None`")
    },
    **{
        f"passes/buffers_to_llvm/row_moves.py row_of: {what} is false": (
            "puts long rows together, too, which saves little"
        )
        for what in (
            "`len(written) + count > MOST_PIECES * main.vector_bytes`",
            "`size > MOST_PIECES * longest`",
        )
    },
    "passes/buffers_to_llvm/row_moves.py copies_of: `rows > MOST_COPIES` is false": (
        "writes code for each of many rows, where a loop is shorter"
    ),
    "passes/buffers_to_llvm/row_moves.py emit_row: `not piece.is_copy` is true": (
        "a shuffle that moves nothing, which LLVM removes"
    ),
}

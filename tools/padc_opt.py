"""`padc-opt`: parse IR or a `.pt2` file, run passes on it, and print it."""

import argparse
import io
import sys
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import IO, Literal, cast, get_args, get_origin, get_type_hints

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute
from xdsl.passes import ModulePass, PassPipeline, PassPipelineCallbackType
from xdsl.targets import get_all_targets as get_xdsl_targets
from xdsl.transforms import get_all_passes as get_xdsl_passes
from xdsl.utils.arg_spec import ArgSpec, parse_pipeline, parse_spec
from xdsl.utils.exceptions import ArgSpecParseError
from xdsl.utils.target import Target
from xdsl.xdsl_opt_main import xDSLOptMain

from padc.backends import get_all_targets
from padc.common.paths import path_of
from padc.common.pt2_files import check_file
from padc.errors import (
    InvalidProgramError,
    PadcError,
    Problem,
    UnsupportedError,
    UsageError,
    first_line,
    resolve,
)
from padc.ir import make_context
from padc.ir.dominance import explained, verify_more
from padc.ir.text import Parser
from padc.ir.torch import AtenOp
from padc.ir.weights import weights_of
from padc.models.parsing import REPORTED, check_sizes, parse_module, parsing
from padc.passes import get_all_passes
from padc.tools.closed_output import until_output_is_closed
from padc.tools.instrumentation import (
    Instrumentation,
    add_arguments,
    instrumentations,
    passes_of_reproducer,
)
from padc.tools.pass_help import PassHelpAction
from padc.tools.version_action import VersionAction
from padc.tools.whole_file import whole_file


@contextmanager
def usage(hint: str) -> Generator[None]:
    """Turn xDSL's errors for bad arguments into `UsageError`."""
    try:
        yield
    except ValueError as error:
        raise UsageError(str(error), hint=hint) from error


def check_options(pass_class: type[ModulePass], spec: ArgSpec) -> None:
    """
    UsageError if an option is not the number or the choice that its type asks for.

    xDSL's error shows the type as Python prints it.
    """
    types = get_type_hints(pass_class)
    for name, values in spec.normalize_parameter_names().parameters.items():
        option, type_ = f"{spec.name} {name.replace('_', '-')}", types.get(name)
        is_choice = get_origin(type_) is Literal
        if not is_choice and type_ not in (int, int | None):
            continue
        if len(values) != 1:
            raise UsageError(f"{option} has {len(values)} values", hint="give one")
        if is_choice:
            resolve(option, str(values[0]), get_args(type_))
        elif type(values[0]) is not int:
            raise UsageError(f"{option} is {values[0]}", hint="give a number")


def check_order(failed: ModulePass, module: ModuleOp) -> None:
    """UsageError if `failed` needs a pass that did not run before it."""
    if failed.name != "convert-torch-to-mil":
        return
    from padc.passes.torch_to_mil.aten import LOWERINGS as AFTER
    from padc.passes.torch_to_tcp.aten import LOWERINGS as BEFORE

    names = {op.schema.name for op in module.walk() if isinstance(op, AtenOp)}
    if left := sorted(names & BEFORE.keys() - AFTER.keys()):
        raise UsageError(
            f"{', '.join(left)}: convert-torch-to-mil takes what convert-torch-to-tcp "
            "and convert-tcp-to-mil leave",
            hint="run these two first; --help has the list of all passes to Core ML",
        )


def check_own(failed: ModulePass, error: Exception) -> None:
    """UnsupportedError for what a pass of xDSL raises by accident."""
    if type(failed).__module__.startswith("xdsl.") and not isinstance(error, REPORTED):
        reason = f"{type(error).__name__}: {first_line(error)}"
        text = f"{failed.name}, a pass of xDSL, does not take this program: {reason}"
        raise UnsupportedError([Problem(text)]) from error


def check_aten(text: str, error: Exception) -> None:
    """InvalidProgramError if PyTorch does not make an op that a pass relied on."""
    if isinstance(error, REPORTED) or "torch.aten." not in text:
        return
    try:
        from padc.models.checked_ops import check_aten_ops
    except ModuleNotFoundError:  # There is no PyTorch here.
        return
    try:
        check_aten_ops(parse_module(make_context(), text))
    except InvalidProgramError as invalid:
        raise invalid from error


class PadcOptMain(xDSLOptMain):
    """xDSL's driver with padc's dialects, passes, targets and checks."""

    instrumentations: Sequence[Instrumentation] = ()
    text: str = ""
    """What the module was parsed from, if it was text."""
    running: ModulePass | None = None
    """The pass that runs now, or whose result is not verified yet."""

    def register_all_dialects(self) -> None:
        self.ctx = make_context()

    def register_all_frontends(self) -> None:
        super().register_all_frontends()

        def import_mlir(file: IO[bytes]) -> ModuleOp:
            implicit = not self.args.no_implicit_module
            parser = Parser(self.ctx, file.read(), self.get_input_name())
            return parser.parse_module(implicit)

        def import_pt2(file: IO[bytes]) -> ModuleOp:
            path = self.args.input_file
            if path is None:
                raise UsageError(
                    "standard input can't be a .pt2 file", hint="padc-opt model.pt2"
                )
            if not self.args.trust:
                check_file(path_of(path))
            from padc.frontends.torch_export import load
            from padc.passes.pipelines import import_program, legal_for

            program = load(path, trust=self.args.trust)
            # Other ops are decomposed, as in the pipeline that these passes belong to.
            names = [spec.name for spec in parse_pipeline(self.args.passes)]
            _, module = import_program(program, legal=legal_for(names), ctx=self.ctx)
            return module

        self.available_frontends |= {"mlir": import_mlir, "pt2": import_pt2}

    def register_all_passes(self) -> None:
        for name, factory in (get_xdsl_passes() | get_all_passes()).items():
            self.register_pass(name, factory)

    def register_all_targets(self) -> None:
        self.available_targets |= get_xdsl_targets() | get_all_targets()

    def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        super().register_all_arguments(arg_parser)
        # --help and --passes replace xDSL's, which list all passes on one line, and
        # --version one that prints the version of xDSL only.
        group = arg_parser.add_argument_group(
            "options of padc", conflict_handler="resolve"
        )
        group.add_argument(
            "-h",
            "--help",
            action=PassHelpAction,
            help="Show this help, padc's passes and their options, and exit.",
        )
        group.add_argument("-v", "--version", action=VersionAction)
        group.add_argument(
            "-p",
            "--passes",
            default="",
            help="The passes to run, as 'name,name{option=value option=value}'.",
        )
        group.add_argument(
            "--print-weights",
            action="store_true",
            help="Print the data of dense_resource<...> too, after the module.",
        )
        group.add_argument(
            "--trust",
            action="store_true",
            help="Load a .pt2 file that may run code, which is refused otherwise.",
        )
        add_arguments(arg_parser)

    def setup_pipeline(self) -> None:
        if self.args.run_reproducer:
            if self.args.passes:
                raise UsageError(
                    "a reproducer names its pass itself",
                    hint="give either --run-reproducer or --passes",
                )
            self.args.passes = passes_of_reproducer(self.args.input_file)
        with usage("see --help; options are written 'name{option=value}'"):
            for spec in parse_pipeline(self.args.passes):
                if spec.name in self.available_passes:
                    check_options(self.available_passes[spec.name](), spec)
            super().setup_pipeline()
            # A wrong option of the target is reported before any work is done.
            target = parse_spec(self.args.target)
            factory = cast(
                Callable[[], type[Target]], self.available_targets[target.name]
            )
            factory().from_spec(target)
        self.instrumentations = instrumentations(
            self.args, self.ctx, self.available_passes
        )
        self.pipeline = PassPipeline(
            self.pipeline.passes, partial(self.between_passes, self.pipeline.callback)
        )

    def parse_chunk(
        self, chunk: IO[bytes], file_extension: str, start_offset: int = 0
    ) -> ModuleOp | None:
        if file_extension != "mlir":
            return super().parse_chunk(chunk, file_extension, start_offset)
        self.text = chunk.read().decode()
        with parsing(self.text):
            file = io.BytesIO(self.text.encode())
            module = super().parse_chunk(file, file_extension, start_offset)
        if module is not None:
            check_sizes(module)
        return module

    def between_passes(
        self,
        xdsl_callback: PassPipelineCallbackType | None,
        previous: ModulePass | None,
        module: ModuleOp,
        following: ModulePass | None,
    ) -> None:
        """Verify `module`, and tell the instrumentations of both passes."""
        assert xdsl_callback is not None
        with explained(module):
            xdsl_callback(previous, module, following)  # verifies everything else
        if not self.args.disable_verify:
            verify_more(module)
        self.running = None
        for instrumentation in self.instrumentations:
            if previous is not None:
                instrumentation.after(previous, module)
            if following is not None:
                instrumentation.before(following, module)
        self.running = following

    def apply_passes(self, prog: ModuleOp) -> None:
        try:
            super().apply_passes(prog)
        except Exception as error:
            if self.running is not None:
                self.report_failure(self.running, prog, error)
                if isinstance(error, UnsupportedError):
                    check_order(self.running, prog)
                check_own(self.running, error)
            check_aten(self.text, error)
            raise

    def report_failure(
        self, module_pass: ModulePass, module: ModuleOp, error: Exception
    ) -> None:
        """Tell the instrumentations; what fails in them does not hide `error`."""
        for instrumentation in self.instrumentations:
            try:
                instrumentation.failed(module_pass, module, error)
            except Exception as second:
                what = type(instrumentation).__name__
                print(f"note: {what} failed: {first_line(second)}", file=sys.stderr)

    def prepare_input(self) -> tuple[list[tuple[IO[bytes], int]], str]:
        with usage("-f says what the file is"):
            return super().prepare_input()

    def run(self) -> None:
        weights_of(self.ctx).print_blobs = self.args.print_weights
        if self.args.output_file is None:
            return super().run()
        with whole_file(self.args.output_file) as self.args.output_file:
            super().run()


@contextmanager
def attributes_verified_again() -> Generator[None]:
    """Undo, at the end, what --disable-verify does to all attributes of the process."""
    verify = Attribute.__post_init__
    try:
        yield
    finally:
        Attribute.__post_init__ = verify


def main(args: Sequence[str] | None = None) -> None:
    """Run `padc-opt` with `args`, or with those of the process."""
    try:
        with until_output_is_closed(), attributes_verified_again():
            PadcOptMain(
                description="run compiler passes on IR or on a .pt2 file", args=args
            ).run()
    except ArgSpecParseError as error:
        print(f"error: {str(error).rstrip()}", file=sys.stderr)
        sys.exit(UsageError.exit_code)
    except REPORTED as error:
        print(f"error: {error}", file=sys.stderr)
        is_ours = isinstance(error, PadcError)
        sys.exit(error.exit_code if is_ours else InvalidProgramError.exit_code)
    except UnicodeDecodeError as error:
        print(f"error: the input is not text: {error}", file=sys.stderr)
        sys.exit(InvalidProgramError.exit_code)
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        sys.exit(UsageError.exit_code)
    except Exception:
        traceback.print_exc()
        sys.exit(PadcError.exit_code)


if __name__ == "__main__":
    main()

"""Passes of padc, and the table that registers them."""

from collections.abc import Callable

from xdsl.passes import ModulePass


def get_all_passes() -> dict[str, Callable[[], type[ModulePass]]]:
    """
    The passes that padc adds to those of xDSL, by name.

    Each is imported when asked for, with the dialects that it needs.
    """

    def get_convert_tcp_to_mil() -> type[ModulePass]:
        from padc.passes.convert_tcp_to_mil import ConvertTcpToMilPass

        return ConvertTcpToMilPass

    def get_convert_torch_to_tcp() -> type[ModulePass]:
        from padc.passes.convert_torch_to_tcp import ConvertTorchToTcpPass

        return ConvertTorchToTcpPass

    return {
        "convert-tcp-to-mil": get_convert_tcp_to_mil,
        "convert-torch-to-tcp": get_convert_torch_to_tcp,
    }

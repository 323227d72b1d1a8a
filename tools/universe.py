"""padc as a plug-in of xDSL: `xdsl-opt` then has its dialects, passes and targets."""

from xdsl.universe import Universe

from padc.backends import get_all_targets
from padc.ir import get_all_dialects
from padc.passes import get_all_passes

PADC_UNIVERSE = Universe(
    all_dialects=get_all_dialects(),
    all_passes=get_all_passes(),
    all_targets=get_all_targets(),
)

"""
The lowerings of tcp ops to Core ML's.

`mil_lowering` has the table of them all. `folding` makes pads the padding of
convolutions and pools, `taps` makes windows slices, `dynamic_resample` and
`dynamic_windows` resample from and to dynamic sizes. Every other file holds the
lowerings of a family.
"""

from padc.common.families import import_families
from padc.passes.tcp_to_mil.tcp.mil_lowering import LOWERINGS

__all__ = ["LOWERINGS"]

import_families(__name__, __path__)

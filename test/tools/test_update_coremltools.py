"""The table of what coremltools converts right, with padc and without."""

import warnings

import torch.nn.functional as F

from padc.tools import update_coremltools
from padc.tools.support_rows import Case
from padc.tools.update_coremltools import COLUMNS, cell, outcome, page
from padc.tools.update_support import Outcome

PASSED, WRONG, REFUSED = (Outcome(kind) for kind in ("passed", "wrong", "refused"))


def test_a_case_is_converted_with_padc_and_without():
    circular = Case(lambda x: F.pad(x, (1, 1), "circular"), [(1, 2, 4)])

    with warnings.catch_warnings(action="ignore"):
        assert outcome(circular, "traced", plugin=False).kind == "refused"
        assert outcome(circular, "traced", plugin=True) == PASSED


def test_a_cell_counts_what_is_right_and_what_is_not():
    assert cell([PASSED, REFUSED]) == "1 of 2"
    assert cell([PASSED, WRONG, Outcome("invalid")]) == "1 of 3, 1 wrong, 1 invalid"


def test_the_table_replaces_the_old_one():
    text = update_coremltools.PAGE.read_text()
    rows = {"pad": {column: [PASSED, WRONG] for column in COLUMNS}}

    changed = page(text, rows)

    before, _, table = changed.partition("| | plain, traced |")
    assert text.startswith(before)
    assert table.endswith("| all |" + " 1 of 2, 1 wrong (50%) |" * 4 + "\n")

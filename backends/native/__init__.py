"""Machine code for the CPU that padc runs on."""

from padc.versions import require

require("native")

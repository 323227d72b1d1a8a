"""From models in other systems to the `torch` dialect."""

from padc.versions import require

require("torch")

"""From models in other systems to the `torch` dialect."""

"""Builders of upstream's tensor ops, and arithmetic in the bodies of their loops."""

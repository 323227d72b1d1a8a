"""Shared by several lowerings of ATen ops: reading arguments, building new ops."""

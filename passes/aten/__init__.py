"""What several lowerings of ATen ops share: an op's arguments, and building new ops."""

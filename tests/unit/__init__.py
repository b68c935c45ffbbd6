"""Unit tests: one module here per module of the product; no sockets, no processes, no model files."""

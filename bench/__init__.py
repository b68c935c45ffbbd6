"""Benchmarks: each is one command that ends with a RESULT line and writes its table to bench/results/."""

"""Passes on devices other than the CPU, in torch operators: fast ones, and ones of fixed shapes; with CUDA graphs."""

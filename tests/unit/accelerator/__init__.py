"""Tests of the passes on devices, all on the CPU."""

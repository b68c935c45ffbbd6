"""Tests of what the chaos suite is made of."""

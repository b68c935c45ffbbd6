"""The whole topology in network namespaces of this machine: ``python -m tests.e2e``."""

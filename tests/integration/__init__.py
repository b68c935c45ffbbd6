"""Tests with real gRPC servers over real sockets."""

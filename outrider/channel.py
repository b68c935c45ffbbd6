"""Options of every gRPC channel and server, in one place so that both sides agree. It knows nothing else."""

from typing import Any

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
"""Largest message either side takes; gRPC answers a larger one with RESOURCE_EXHAUSTED."""

_KEEPALIVE_MS = 10_000
"""Between two pings, calls or not: without pings between calls a dead connection outlives any number of short
questions, none of which lasts until a ping is due."""
_PING_TIMEOUT_MS = 10_000
"""Of a ping without an answer. gRPC's own keepalive_timeout_ms alone did not end a connection whose other end had gone
without a word in less than a minute (grpcio 1.85); with ping_timeout_ms it ends when it should."""

CLIENT_OPTIONS: list[tuple[str, Any]] = [
    ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", _PING_TIMEOUT_MS),
    ("grpc.http2.ping_timeout_ms", _PING_TIMEOUT_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2_000),
]

_GREETING_MS = 10_000
"""In which a connection must have said hello, TLS included. One that does not is closed."""

_CONNECTION_MS = 3_600_000
"""Age at which a connection takes no new calls, give or take a tenth, and how long those that it has may go on: who is
no longer let in does not stay in for ever. Callers connect anew by themselves."""

SERVER_OPTIONS: list[tuple[str, Any]] = [
    ("grpc.server_handshake_timeout_ms", _GREETING_MS),
    ("grpc.max_connection_age_ms", _CONNECTION_MS),
    ("grpc.max_connection_age_grace_ms", _CONNECTION_MS),
    ("grpc.so_reuseport", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", _KEEPALIVE_MS // 2),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", _KEEPALIVE_MS // 2),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
]

"""Options of every gRPC channel and server, in one place so that both sides agree. It knows nothing else."""

from typing import Any

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
"""Largest message either side takes; gRPC answers a larger one with RESOURCE_EXHAUSTED."""

_KEEPALIVE_MS = 10_000
"""Between two pings, calls or not: a connection whose other end is gone without a word is known within twice that.
Without pings between calls it outlives many short questions, none of which lasts until a ping is due."""

CLIENT_OPTIONS: list[tuple[str, Any]] = [
    ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2_000),
]

SERVER_OPTIONS: list[tuple[str, Any]] = [
    ("grpc.so_reuseport", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", _KEEPALIVE_MS // 2),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", _KEEPALIVE_MS // 2),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
]

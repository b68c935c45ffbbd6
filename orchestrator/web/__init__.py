"""The orchestrator over HTTP: the live page ``/ui`` and what it asks for. The answers are those of the gRPC service."""

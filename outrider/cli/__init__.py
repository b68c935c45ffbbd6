"""The ``outrider`` command. It talks to services over gRPC and starts them as processes; it loads no model."""

"""Generated protobuf and gRPC code of the package ``outrider.v1``; made by ``make proto``."""

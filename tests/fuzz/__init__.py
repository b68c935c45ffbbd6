"""Messages that nobody should send, to every handler, and what must be true afterwards."""

"""Outrider: speculative decoding as microservices. This package is what the services share."""

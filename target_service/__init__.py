"""The target service: the large model, whose choices are the answer."""

"""The draft service: a small model that guesses blocks of tokens."""

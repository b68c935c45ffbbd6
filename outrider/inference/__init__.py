"""The machine that draft and target share: a ragged forward pass over per-session paged caches."""

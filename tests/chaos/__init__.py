"""Real processes under load while everything that can fail does: no token may be wrong, lost or doubled.

``python -m tests.chaos --requests 1000 --faults 200 --seed 1`` (``make chaos``) starts two drafts, two targets, two
orchestrators and a Redis, takes every answer once from the quiet system without speculation, and asks for all of them
again and again while faults come as the seed says. At the end everything must be back at its base.
"""

"""Builds and runs the orchestrator's image on a machine without a container engine: ``make image-offline``.

It shows that deploy/Dockerfile builds and that what it builds serves; it is no way to make images for use.
"""

"""Prints what an image installs beside the project: ``python -m deploy.image_requirements [EXTRA ...]``, or the file
itself with any Python that has tomllib.

The Dockerfile installs these before it copies the sources, so that a changed source does not install torch again. It
knows pyproject.toml, not versions: those are in constraints.txt.
"""

import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

BUILD = "build"
"""Name for what builds the project's own wheel, beside the extras of pyproject.toml."""


def requirements(pyproject: str, extras: Sequence[str]) -> list[str]:
    """Lines for pip: the project's dependencies and those of the extras; only those of the build for ``build``.

    Raises KeyError for an extra that there is not.
    """
    described = tomllib.loads(pyproject)
    if list(extras) == [BUILD]:
        return list(described["build-system"]["requires"])
    project = described["project"]
    optional = project["optional-dependencies"]
    return [*project["dependencies"], *(line for extra in extras for line in optional[extra])]


if __name__ == "__main__":
    print("\n".join(requirements(Path("pyproject.toml").read_text(), sys.argv[1:])))

"""Ends the build of an image whose torch is not of the kind that was asked for: ``image_torch.py cpu``, or ``cu130``.

Which build of torch pip finds depends on the indexes that it asks, and a wrong one runs, only slowly or not on the
card. It runs in the image, where the project is not yet installed.
"""

import sys

from torch import version


def kind(cuda: str | None) -> str:
    """How the builds of torch are called: ``cpu``, or ``cu130`` for CUDA 13.0."""
    return "cu" + cuda.replace(".", "") if cuda else "cpu"


def complaint(wanted: str, found: str) -> str:
    """Empty when they are the same, or none was asked for."""
    if wanted in ("", found):
        return ""
    return f"TORCH={wanted} was asked for, but pip found the build for {found}: name the index that has it, TORCH_INDEX"


if __name__ == "__main__":
    sys.exit(complaint(sys.argv[1], kind(version.cuda)) or 0)

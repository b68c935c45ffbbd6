"""What the machine has: tools, root, and how its pip is set up. It knows no image."""

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

NEEDED = {
    "buildah": "buildah",
    "debootstrap": "debootstrap",
    "ip": "iproute2",
    "unshare": "util-linux",
    "setpriv": "util-linux",
}
"""Programs, and the Debian packages that have them."""


class OfflineError(RuntimeError):
    """What this machine lacks, or which step failed; the message says it."""


def check_machine() -> None:
    """Raises OfflineError that names all that is missing."""
    if os.geteuid() != 0:
        raise OfflineError("root is needed: to make a base system, and to run the image with its own root")
    packages = sorted({package for program, package in NEEDED.items() if shutil.which(program) is None})
    if packages:
        raise OfflineError(f"programs are missing; on Debian: apt-get install {' '.join(packages)}")


def call(*command: str | Path, quiet: bool = True) -> str:
    """Standard output of a command. Raises OfflineError with the end of what it printed when it fails."""
    done = subprocess.run([str(part) for part in command], text=True, capture_output=quiet, check=False)
    if done.returncode:
        tail = "\n".join(line for said in (done.stdout, done.stderr) for line in (said or "").splitlines()[-20:])
        raise OfflineError(f"{' '.join(map(str, command[:12]))} failed ({done.returncode})\n{tail}")
    return done.stdout or ""


def pip_settings(listing: str) -> dict[str, str]:
    """The settings in the lines of ``pip config list``, those of the environment before those of files."""
    found: dict[str, str] = {}
    for line in listing.splitlines():
        name, _, value = line.partition("=")
        section, _, option = name.rpartition(".")
        if section == ":env:" or (section in ("global", "install") and option not in found):
            found[option] = str(ast.literal_eval(value))
    return {option: value for option, value in found.items() if option != "constraint"}


def pip_file(settings: Mapping[str, str]) -> str:
    """The same as a file."""
    return "\n".join(["[global]", *(f"{option} = {value}" for option, value in settings.items()), ""])


def paths(values: Iterable[str]) -> list[Path]:
    """Files and folders of this machine that settings name; several in one value are separated by blanks. Of an index
    that is a folder the whole tree is meant, so the folder above it."""
    found = []
    for word in " ".join(values).split():
        path = Path(word.removeprefix("file://"))
        if path.is_absolute() and path.exists():
            found.append(path.parent if word.startswith("file://") and path.is_dir() else path)
    return found


def pip_here() -> dict[str, str]:
    """The settings of the pip that runs here."""
    return pip_settings(call(sys.executable, "-m", "pip", "config", "list"))

"""A base system by debootstrap, and images by buildah, in a storage of their own. It runs nothing of an image."""

import contextlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.image_offline.host import OfflineError, call

SUITE = "bookworm"
_INCLUDE = "ca-certificates,python3-venv"
_NOT_IN_A_SLIM_IMAGE = ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale")


def make_base(archive: Path) -> None:
    """A tar of a small Debian with Python, as the slim images of Python are. Takes a minute or two."""
    tree = archive.with_suffix(".tree")
    shutil.rmtree(tree, ignore_errors=True)
    call("debootstrap", "--variant=minbase", f"--include={_INCLUDE}", SUITE, tree)
    for folder in _NOT_IN_A_SLIM_IMAGE:
        shutil.rmtree(tree / folder)
        (tree / folder).mkdir()
    call("tar", "-C", tree, "-cf", archive.with_suffix(".part"), ".")
    archive.with_suffix(".part").rename(archive)
    shutil.rmtree(tree)


@dataclass(frozen=True, slots=True)
class Storage:
    """Images and containers below one folder, apart from all others of the machine."""

    folder: Path

    def buildah(self, *arguments: str | Path) -> str:
        """Output of a command of buildah. Raises OfflineError."""
        places = ("--root", self.folder / "storage", "--runroot", self.folder / "run")
        return call("buildah", *places, "--storage-driver", "vfs", *arguments).strip()

    def load_base(self, archive: Path, name: str) -> None:
        """An image of nothing but what is in a tar."""
        container = self.buildah("from", "scratch")
        self.buildah("add", "--quiet", container, archive, "/")
        self.buildah("commit", "--quiet", "--rm", container, name)

    def build(self, context: Path, target: str, name: str, arguments: Mapping[str, str], mounts: Sequence[str]) -> None:
        """A target of the Dockerfile; ``mounts`` are seen while it is built, and are not in it."""
        options = [f"--build-arg={key}={value}" for key, value in arguments.items()]
        options += [f"--volume={mount}" for mount in mounts]
        fixed = ("--isolation", "chroot", "--pull-never", "--format", "docker", "--target", target, "--tag", name)
        self.buildah("bud", *fixed, *options, "--file", context / "deploy" / "Dockerfile", context)

    def config(self, name: str) -> dict[str, Any]:
        """What an image says of how it is run: Env, User, Entrypoint, Cmd, WorkingDir, Healthcheck."""
        described = json.loads(self.buildah("inspect", "--type", "image", name))
        config: dict[str, Any] = described["Docker"]["config"]
        return config

    def mounted(self, name: str) -> Path:
        """The root of a new container of an image."""
        return Path(self.buildah("mount", self.buildah("from", "--pull-never", name)))

    def compressed_bytes(self, name: str) -> int:
        """Size as a registry would hold it."""
        archive = self.folder / "image.tar"
        self.buildah("push", "--quiet", name, f"oci-archive:{archive}")
        try:
            return archive.stat().st_size
        finally:
            archive.unlink()

    def clear(self) -> None:
        """Nothing of it is left."""
        if (self.folder / "storage").exists():
            with contextlib.suppress(OfflineError):  # what was never mounted
                self.buildah("umount", "--all")
        for part in ("storage", "run"):
            shutil.rmtree(self.folder / part, ignore_errors=True)


def tree_bytes(root: Path) -> int:
    """Size of all files below a folder."""
    return sum(path.lstat().st_size for path in root.rglob("*") if not path.is_dir() or path.is_symlink())

"""Runs commands in the root of an image as a container would: its user, nothing writable but /tmp, no capabilities, a
network of its own. It reads the image's configuration; it does not build images.
"""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.image_offline.host import call

DATA = "/var/lib/outrider"
_ENTER = """
root=$1 data=$2 user=$3 folder=$4
shift 4
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount -t tmpfs -o nosuid,nodev,mode=1777 tmpfs "$root/tmp"
mount --bind "$data" "$root$DATA"
mount -o remount,bind,ro "$root$DATA"
mount -t proc -o nosuid,nodev,noexec proc "$root/proc"
mount -t tmpfs -o nosuid,mode=755 tmpfs "$root/dev"
for device in null zero random urandom; do
  touch "$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
exec chroot "$root" setpriv --reuid "${user%%:*}" --regid "${user##*:}" --clear-groups --no-new-privs \
  --inh-caps=-all --bounding-set=-all env --ignore-environment --chdir "$folder" "$@"
"""


@contextmanager
def network(name: str) -> Iterator[str]:
    """A network namespace with loopback alone; yields its name."""
    call("ip", "netns", "add", name)
    try:
        call("ip", "-n", name, "link", "set", "lo", "up")
        yield name
    finally:
        call("ip", "netns", "delete", name)


@dataclass(frozen=True, slots=True)
class Inside:
    """The root of an image, its configuration, and a folder of this machine that is seen in it at DATA."""

    root: Path
    config: Mapping[str, Any]
    data: Path
    network: str
    settings: Mapping[str, str]

    def command(self, *arguments: str) -> list[str]:
        """A command of this machine that runs one in the image, with the image's environment and the settings."""
        variables = [*self.config["Env"], *(f"{name}={value}" for name, value in self.settings.items())]
        place = [str(self.root), str(self.data), self.config["User"], self.config["WorkingDir"]]
        enter = _ENTER.replace("$DATA", DATA)
        apart = ["ip", "netns", "exec", self.network, "unshare", "--mount", "--propagation", "private"]
        return [*apart, "sh", "-euc", enter, "sh", *place, *variables, *arguments]

    def entry(self) -> list[str]:
        """What the image runs by itself."""
        return self.command(*self.config["Entrypoint"], *self.config["Cmd"])

    def is_healthy(self) -> bool:
        """Whether the image's own health check says so."""
        test: Sequence[str] = self.config["Healthcheck"]["Test"][1:]  # without the word CMD
        return subprocess.run(self.command(*test), capture_output=True, check=False).returncode == 0

    def says(self, *arguments: str) -> str:
        """Output of a command, empty when it fails."""
        done = subprocess.run(self.command(*arguments), capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

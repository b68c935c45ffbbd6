"""Certificates in files that are replaced while the process runs: read, checked, and read again when they change.

It does not know gRPC: ``credentials.py`` makes credentials of what is read here.
"""

import logging
import os
import ssl
from dataclasses import dataclass, field

from outrider.config import ConfigError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TlsPaths:
    """PEM files: the certificate that a process shows, its key, and the certificates that sign those of its peers.
    The chain and the key may be empty where a process shows none."""

    ca: str
    cert: str = ""
    key: str = ""

    def named(self) -> tuple[tuple[str, str], ...]:
        """Each file with the setting that named it."""
        pairs = (("OUTRIDER_TLS_CA", self.ca), ("OUTRIDER_TLS_CERT", self.cert), ("OUTRIDER_TLS_KEY", self.key))
        return tuple((name, path) for name, path in pairs if path)


@dataclass(frozen=True, slots=True)
class Material:
    """What the files hold. None for a chain or a key that is not shown."""

    roots: bytes
    chain: bytes | None = field(default=None, repr=False)
    key: bytes | None = field(default=None, repr=False)


def _read(setting: str, path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise ConfigError(f"{setting}={path}: cannot be read: {error.strerror}") from None


def _check(paths: TlsPaths) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(paths.ca)
    except (ssl.SSLError, ValueError):
        raise ConfigError(f"OUTRIDER_TLS_CA={paths.ca}: holds no certificate in PEM") from None
    if not paths.cert:
        return
    try:  # the password is asked for on a terminal otherwise
        context.load_cert_chain(paths.cert, paths.key, password=lambda: "")
    except (ssl.SSLError, ValueError):
        both = f"OUTRIDER_TLS_CERT={paths.cert} and OUTRIDER_TLS_KEY={paths.key}"
        raise ConfigError(f"{both}: must be a certificate in PEM and its own key, without a password") from None


def read_material(paths: TlsPaths) -> Material:
    """What the files hold now, all of one moment. Raises ConfigError that names the setting and the file."""
    if bool(paths.cert) != bool(paths.key) or not paths.ca:
        raise ConfigError("OUTRIDER_TLS_CA, OUTRIDER_TLS_CERT and OUTRIDER_TLS_KEY must be set together")
    before = [_read(setting, path) for setting, path in paths.named()]
    _check(paths)
    if before != [_read(setting, path) for setting, path in paths.named()]:
        raise ConfigError("the files of OUTRIDER_TLS_CA, _CERT and _KEY changed while they were read")
    return Material(*before)


class TlsFiles:
    """Owner of what was read last, and of its ``version``, which grows with every change."""

    def __init__(self, paths: TlsPaths) -> None:
        """Raises ConfigError."""
        self._paths = paths
        self._seen = self._look()
        self._material = read_material(paths)
        self.version = 1

    def _look(self) -> tuple[tuple[int, int, int], ...]:
        """What changes with a file, a link's destination included."""
        found = [os.stat(path) for _, path in self._paths.named() if os.path.exists(path)]
        return tuple((status.st_ino, status.st_mtime_ns, status.st_size) for status in found)

    def current(self) -> Material:
        """What the files hold now; as before while they cannot be used, which is logged once for each change."""
        seen = self._look()
        if seen != self._seen:
            self._seen = seen
            try:
                self._take(read_material(self._paths))
            except ConfigError as error:
                log.error("%s; the certificate that was read before stays in use", error)
        return self._material

    def _take(self, material: Material) -> None:
        if material != self._material:
            self._material = material
            self.version += 1
            log.info("new certificates were read from %s", ", ".join(path for _, path in self._paths.named()))

"""Certificates in files that are replaced while the process runs: read, checked, and read again when they change.

It does not know gRPC: ``credentials.py`` makes credentials of what is read here.
"""

import logging
import math
import os
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from outrider.certificates import Validity, of_authorities, of_chain
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
    """What the files hold, and when that is valid. None for a chain or a key that is not shown. ``version`` grows with
    every change."""

    roots: bytes
    chain: bytes | None = field(default=None, repr=False)
    key: bytes | None = field(default=None, repr=False)
    validities: tuple[Validity, ...] = field(default=(), kw_only=True)
    version: int = field(default=1, compare=False, kw_only=True)


def _read(setting: str, path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise ConfigError(f"{setting}={path}: cannot be read: {error.strerror}") from None


def _check(paths: TlsPaths) -> ssl.SSLContext:
    """A context that has taken them."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(paths.ca)
    except (OSError, ValueError):
        raise ConfigError(f"OUTRIDER_TLS_CA={paths.ca}: holds no certificate in PEM") from None
    try:  # the password is asked for on a terminal otherwise
        if paths.cert:
            context.load_cert_chain(paths.cert, paths.key, password=lambda: "")
    except (OSError, ValueError):
        both = f"OUTRIDER_TLS_CERT={paths.cert} and OUTRIDER_TLS_KEY={paths.key}"
        raise ConfigError(f"{both}: must be a certificate in PEM and its own key, without a password") from None
    return context


def _validities(paths: TlsPaths, context: ssl.SSLContext, chain: bytes | None = None) -> tuple[Validity, ...]:
    trusted = of_authorities(f"OUTRIDER_TLS_CA={paths.ca}", context)
    shown = None if chain is None else of_chain(f"OUTRIDER_TLS_CERT={paths.cert}", chain)
    return tuple(each for each in (trusted, shown) if each is not None)


def read_material(paths: TlsPaths) -> Material:
    """What the files hold now, all of one moment, whether or not it is valid now. Raises ConfigError that names the
    setting and the file."""
    if bool(paths.cert) != bool(paths.key) or not paths.ca:
        raise ConfigError("OUTRIDER_TLS_CA, OUTRIDER_TLS_CERT and OUTRIDER_TLS_KEY must be set together")
    before = [_read(setting, path) for setting, path in paths.named()]
    context = _check(paths)
    if before != [_read(setting, path) for setting, path in paths.named()]:
        raise ConfigError("the files of OUTRIDER_TLS_CA, _CERT and _KEY changed while they were read")
    return Material(*before, validities=_validities(paths, context, *before[1:2]))


def _stamp(path: str) -> tuple[int, int, int] | None:
    """What changes with a file, a link's destination included; None while there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


class TlsFiles:
    """Owner of what was read last. Any thread may ask: servers do so from those of gRPC."""

    def __init__(self, paths: TlsPaths, clock: Callable[[], float] = time.time) -> None:
        """``clock``: seconds since 1970. Raises ConfigError, also for certificates that are not valid now."""
        self._paths = paths
        self._clock = clock
        self._lock = threading.Lock()
        self._again = math.inf  # when to read anew though nothing changes: certificates that become valid then
        self._seen = self._stamps()
        self._material = self._valid()

    def _stamps(self) -> list[tuple[int, int, int] | None]:
        return [_stamp(path) for _, path in self._paths.named()]

    @property
    def in_use(self) -> Material:
        """What was read last, without a look at the files."""
        return self._material

    @property
    def now(self) -> float:
        """Seconds since 1970, as certificates are held against them."""
        return self._clock()

    def current(self) -> Material:
        """What the files hold now; as before while they cannot be used or are not valid, which is logged once for each
        change."""
        seen = self._stamps()
        if self._stale(seen):
            with self._lock:
                if self._stale(seen):  # nobody else has read meanwhile
                    self._seen = seen
                    self._read()
        return self._material

    def _stale(self, seen: list[tuple[int, int, int] | None]) -> bool:
        return seen != self._seen or self._clock() >= self._again

    def _valid(self) -> Material:
        material, now = read_material(self._paths), self._clock()
        for each in material.validities:
            if wrong := each.wrong(now):
                self._again = each.begins if now < each.begins else math.inf
                raise ConfigError(wrong)
        return material

    def _read(self) -> None:
        self._again = math.inf
        try:
            material = self._valid()
        except ConfigError as error:
            log.error("%s; the certificate that was read before stays in use", error)
            return
        except Exception:  # whatever the files hold, those that ask for a certificate must live
            log.exception("the certificate that was read before stays in use")
            return
        if material != self._material:
            self._material = replace(material, version=self._material.version + 1)
            log.info("new certificates were read from %s", ", ".join(path for _, path in self._paths.named()))

"""Certificates of a small authority, as files that a process reads and a test replaces."""

import os
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme

from outrider.tls import TlsPaths


@dataclass(frozen=True, slots=True)
class Authority:
    """Signs certificates. Another one signs others: nobody who trusts the one believes the other."""

    ca: trustme.CA

    @classmethod
    def new(cls) -> "Authority":
        return cls(trustme.CA(key_type=trustme.KeyType.ECDSA))

    @property
    def pem(self) -> bytes:
        """Its own certificate."""
        return self.ca.cert_pem.bytes()

    def write(
        self,
        folder: Path,
        *names: str,
        begins_h: float = -1.0,
        ends_h: float = 1.0,
        expired: bool = False,
        trusted: bytes = b"",
    ) -> TlsPaths:
        """A certificate for these names, with its key and the certificates to trust (this authority's), in the files
        that Kubernetes has. Each file is replaced as a whole. It is valid between these hours from now."""
        folder.mkdir(parents=True, exist_ok=True)
        begins, ends = (datetime.now(UTC) + timedelta(hours=each) for each in (begins_h, -0.5 if expired else ends_h))
        made = self.ca.issue_cert(*names, not_before=begins, not_after=ends, key_type=trustme.KeyType.ECDSA)
        chain = b"".join(blob.bytes() for blob in made.cert_chain_pems)
        files = {"ca.crt": trusted or self.pem, "tls.crt": chain, "tls.key": made.private_key_pem.bytes()}
        for name, content in files.items():
            (folder / f"{name}.new").write_bytes(content)
        for name in files:
            os.replace(folder / f"{name}.new", folder / name)
        return TlsPaths(*(str(folder / name) for name in files))


def slow_clock() -> float:
    """Seconds since 1970 for who believes in its certificate of the last hour, so that others must refuse it."""
    return time.time() - 3000


def variables(paths: TlsPaths) -> dict[str, str]:
    """The settings that name the files."""
    return {"OUTRIDER_TLS_CA": paths.ca, "OUTRIDER_TLS_CERT": paths.cert, "OUTRIDER_TLS_KEY": paths.key}

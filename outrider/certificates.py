"""When certificates are valid, and whether they are near their end. It does not know where they are read from."""

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime

from outrider.config import ConfigError

ENDING_SHARE = 0.2
"""Of a certificate's whole life. Who renews does so with a third of it left (cert-manager) or half, and has failed by
then; certificates may live an hour or ten years."""
ENDING_S = 14 * 86400
"""No sooner than this, in seconds: a fifth of ten years is two of them."""


@dataclass(frozen=True, slots=True)
class Validity:
    """From when to when the certificates of one file are valid: seconds since 1970, UTC. ``which`` is ``own`` (shown to
    others) or ``ca`` (those that sign others'), ``source`` the setting and the file."""

    which: str
    source: str
    begins: float
    ends: float

    def wrong(self, now: float) -> str:
        """Why they are of no use at this time; empty when they are."""
        if now < self.begins:
            return f"{self.source}: not valid before {_date(self.begins)}"
        if now > self.ends:
            return f"{self.source}: expired on {_date(self.ends)}"
        return ""

    def ending(self, now: float) -> bool:
        """Whether they should have been replaced by now."""
        return self.ends - now < min(ENDING_S, ENDING_SHARE * (self.ends - self.begins))

    @property
    def end(self) -> str:
        """When they end, for people."""
        return _date(self.ends)


def _date(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def of_chain(source: str, pem: bytes) -> Validity:
    """Of the first certificate, the one that is shown; the others only lead to whoever signed it, and there may be more
    ways than one. Raises ConfigError."""
    # Python's ssl has no public way to read the dates of a certificate that one is about to show. Imported here: it
    # takes 70 ms and 16 MB, which nobody needs who shows none.
    from cryptography import x509

    try:
        shown = x509.load_pem_x509_certificate(pem)
        begins, ends = shown.not_valid_before_utc, shown.not_valid_after_utc
    except (ValueError, x509.InvalidVersion) as error:
        raise ConfigError(f"{source}: the certificate cannot be read: {error}") from None
    return Validity("own", source, begins.timestamp(), ends.timestamp())


def of_authorities(source: str, context: ssl.SSLContext) -> Validity | None:
    """Of all that a context trusts, from the first that begins to the last that ends: while one follows another both
    are there. None when it trusts single certificates and no authority: ssl does not tell of those."""
    found = context.get_ca_certs()
    if not found:
        return None
    begins, ends = ([ssl.cert_time_to_seconds(str(each[key])) for each in found] for key in ("notBefore", "notAfter"))
    return Validity("ca", source, min(begins), max(ends))

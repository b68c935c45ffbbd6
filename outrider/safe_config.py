"""Settings that every service has: certificates, who may call, and where health is asked for in the clear.

It does not read the files: ``tls.py`` does.
"""

from dataclasses import dataclass

from outrider.addresses import parse_optional
from outrider.config import PREFIX, ConfigError, setting
from outrider.tls import TlsFiles, TlsPaths


@dataclass(frozen=True, slots=True, kw_only=True)
class SafeConfig:
    """Base of the services' configurations; each field is the variable OUTRIDER_<FIELD>."""

    tls_cert: str = setting("")
    """Path of the certificate, in PEM, that this process shows to callers and to those it calls. Empty, with the next
    two, for none: everything is in the clear."""
    tls_key: str = setting("")
    """Path of its key."""
    tls_ca: str = setting("")
    """Path of the certificates that sign those of callers and of those it calls."""
    tls_peers: str = setting("")
    """Names (DNS or URI) in the certificates of who may call, separated by commas. Empty: whoever has a certificate."""
    health: str = setting("", parse=parse_optional)
    """Address host:port at which health, and nothing else, is answered in the clear; empty for none. Kubernetes asks
    there, since its probes show no certificate: with the service's name whether it serves, without one whether the
    process lives."""

    def __post_init__(self) -> None:
        check_safe(self)

    @property
    def peers(self) -> frozenset[str]:
        """Names of who may call; empty for everybody."""
        return frozenset(filter(None, (name.strip() for name in self.tls_peers.split(","))))

    def tls(self) -> TlsFiles | None:
        """The certificates, read and checked; None for none. Raises ConfigError."""
        return TlsFiles(TlsPaths(self.tls_ca, self.tls_cert, self.tls_key)) if self.tls_ca else None


def check_safe(config: SafeConfig) -> None:
    """What only makes sense together. Raises ConfigError."""
    files = (config.tls_ca, config.tls_cert, config.tls_key)
    if any(files) and not all(files):
        raise ConfigError("OUTRIDER_TLS_CA, OUTRIDER_TLS_CERT and OUTRIDER_TLS_KEY must be set together")
    if config.tls_peers and not config.peers:  # nobody named is everybody let in
        raise ConfigError(f"OUTRIDER_TLS_PEERS={config.tls_peers!r}: must be names separated by commas, or empty")
    if config.peers and not config.tls_ca:
        raise needs_ca("tls_peers", config.tls_peers)


def needs_ca(field: str, value: str) -> ConfigError:
    """A setting that means nothing without certificates was set without."""
    return ConfigError(f"{PREFIX}{field.upper()}={value!r}: needs OUTRIDER_TLS_CA")

"""Channels and server credentials, plain or with TLS, and whose certificate a caller has shown.

It does not know services, nor when certificates change: ``tls.py`` does.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import grpc

from outrider.errors import PermissionDenied
from outrider.tls import Material, TlsFiles

_NAMES = "x509_subject_alternative_name"


def _configuration(material: Material) -> grpc.ServerCertificateConfiguration:
    assert material.key is not None and material.chain is not None, "a server shows a certificate"
    return grpc.ssl_server_certificate_configuration([(material.key, material.chain)], material.roots)


def server_credentials(files: TlsFiles, need_certificate: bool) -> grpc.ServerCredentials:
    """Of a server whose certificate is looked up anew for every connection, and none is taken up again: a ticket of
    TLS that was given while a caller's certificate was valid would let it in for days after."""

    def anew() -> Any:
        return _configuration(files.current())

    return grpc.dynamic_ssl_server_credentials(anew(), anew, need_certificate)


@dataclass(frozen=True, slots=True)
class Dialer:
    """Opens channels. With ``files`` they use TLS, and the peer's certificate must have ``name``, or the host of the
    address where that is empty."""

    files: TlsFiles | None = None
    name: str = ""

    @property
    def version(self) -> int:
        """Grows when a channel that is opened now differs from one that was opened before."""
        return self.files.current().version if self.files else 0

    def open(self, address: str, options: Sequence[tuple[str, Any]]) -> grpc.aio.Channel:
        """A channel, which connects when it is first used."""
        if self.files is None:
            return grpc.aio.insecure_channel(address, options=options)
        material = self.files.current()
        credentials = grpc.ssl_channel_credentials(material.roots, material.key, material.chain)
        named = [("grpc.ssl_target_name_override", self.name)] if self.name else []
        return grpc.aio.secure_channel(address, credentials, options=[*options, *named])


PLAIN = Dialer()
"""Everything in the clear."""


def names_of(context: Any) -> tuple[str, ...]:
    """DNS names and URIs in the certificate that a caller has shown; none for one without."""
    return tuple(name.decode(errors="replace") for name in context.auth_context().get(_NAMES, ()))


def check_peer(context: Any, allowed: Collection[str]) -> None:
    """Raises PermissionDenied when names are ``allowed`` and the caller's certificate has none of them."""
    if not allowed:
        return
    names = names_of(context)
    if not set(names) & set(allowed):
        words = f"the certificate is of {', '.join(names)}" if names else "the caller has shown no certificate"
        raise PermissionDenied(f"{words}; who may call is set by OUTRIDER_TLS_PEERS")

"""Around every answer: the headers that keep a browser from doing more than the page needs, and a check of the Host.

A page that somebody else's name server points at this machine (DNS rebinding) would otherwise be of this origin, and
could ask whatever the live page can. It does not know the routes.
"""

import ipaddress
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchestrator.web.failures import refusal

_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    )
)
HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""No CORS headers among them: other origins may neither read what is here nor post JSON."""


def is_loopback(host: str) -> bool:
    """Whether a name or address is this machine's alone."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Guard:
    """An application behind it. ``local``: it listens for this machine alone, so no other name may lead to it."""

    def __init__(self, app: ASGIApp, local: bool) -> None:
        self._app = app
        self._local = local

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse."""

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        host = Headers(scope=scope).get("host", "")
        if self._local and not is_loopback(_name(host)):
            words = (
                f"this server answers to localhost only, not to {host!r}; behind a proxy, have it send Host: localhost"
            )
            await refusal(421, words)(scope, receive, sending)
        else:
            await self._app(scope, receive, sending)


def _name(host: str) -> str:
    """A Host header without its port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""

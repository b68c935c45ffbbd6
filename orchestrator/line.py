"""The channel to one replica, and those that it had before its certificates changed. It does not know what is asked."""

from collections.abc import Set
from typing import Any

import grpc

from outrider.channel import CLIENT_OPTIONS
from outrider.credentials import Dialer

_LAST_CALLS_S = 2.0


class Line:
    """Owner of the channels to one address. Streams that were opened on a former one keep it until they are over."""

    def __init__(self, address: str, dialer: Dialer) -> None:
        self._address = address
        self._dialer = dialer
        self._former: dict[grpc.aio.Channel, Set[Any]] = {}
        self._version = dialer.version
        self.channel = dialer.open(address, CLIENT_OPTIONS)

    async def keep(self, streams: Set[Any]) -> None:
        """Dial anew when certificates have changed, and close what none of the open ``streams`` uses any more."""
        if self._dialer.version != self._version:
            self._former[self.channel] = set(streams)
            self._version = self._dialer.version
            self.channel = self._dialer.open(self._address, CLIENT_OPTIONS)
        for channel in [channel for channel, users in self._former.items() if not users & streams]:
            await channel.close(_LAST_CALLS_S)  # a session that is over may still be released on it
            del self._former[channel]

    async def close(self) -> None:
        """Close all of them."""
        for channel in (self.channel, *self._former):
            await channel.close()

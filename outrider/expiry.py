"""Certificates that end: looked at on a timer, told of in the log and as metrics.

It does not read them: ``tls.py`` does.
"""

import asyncio
import logging

from outrider import semconv
from outrider.certificates import Validity
from outrider.instruments import Instrument, Reading
from outrider.tls import TlsFiles

log = logging.getLogger(__name__)
LOOK_S = 10.0
"""Short beside the minute that a kubelet takes to bring a new Secret into its files."""


class Watch:
    """What was said of the certificates in use, so that each thing is said once."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._said: dict[str, tuple[Validity, str]] = {}

    def look(self) -> None:
        """Read files that have changed, and log what is near its end or over, once for each certificate."""
        for each in self._files.current().validities:
            said = each, self._state(each)
            if said != self._said.get(each.which):
                self._said[each.which] = said
                self._say(*said)

    def _state(self, validity: Validity) -> str:
        now = self._files.now
        return "expired" if now > validity.ends else "ending" if validity.ending(now) else "valid"

    def _say(self, validity: Validity, state: str) -> None:
        if state == "expired":
            log.error("%s: expired on %s; new connections fail", validity.source, validity.end)
        elif state == "ending":
            log.warning("%s: ends on %s and should have been replaced by now", validity.source, validity.end)


async def follow(files: TlsFiles | None) -> None:
    """Look every 10 s, for ever; return at once without files. A thread looks: a volume may take its time."""
    if files is None:
        return
    watch = Watch(files)
    while True:
        await asyncio.to_thread(watch.look)
        await asyncio.sleep(LOOK_S)


def instruments(files: TlsFiles | None) -> list[Instrument]:
    """When the certificates in use are valid; none without files."""
    if files is None:
        return []
    return [
        Reading(semconv.M_CERTIFICATE_BEGINS, lambda: {(each.which,): each.begins for each in files.in_use.validities}),
        Reading(semconv.M_CERTIFICATE_ENDS, lambda: {(each.which,): each.ends for each in files.in_use.validities}),
    ]

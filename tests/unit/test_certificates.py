"""Certificates are near their end in the last fifth of their life, and never sooner than two weeks before."""

import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme

from outrider.certificates import Validity, of_authorities, of_chain
from outrider.config import ConfigError
from tests.certificates import Authority

HOUR, DAY = 3600, 86400


@pytest.mark.parametrize(
    ("life_s", "left_s"),
    [(HOUR, 0.2 * HOUR), (DAY, 0.2 * DAY), (60 * DAY, 12 * DAY), (90 * DAY, 14 * DAY), (3650 * DAY, 14 * DAY)],
)
def test_how_near_its_end_is_near(life_s: float, left_s: float) -> None:
    validity = Validity("own", "x", 1000.0, 1000.0 + life_s)
    assert not validity.ending(validity.ends - left_s - 1)
    assert validity.ending(validity.ends - left_s + 1)


def test_it_is_valid_from_its_first_to_its_last_second() -> None:
    validity = Validity("own", "OUTRIDER_TLS_CERT=x", 86400.0, 2 * 86400.0)
    assert validity.wrong(86399.9) == "OUTRIDER_TLS_CERT=x: not valid before 1970-01-02 00:00:00 UTC"
    assert not validity.wrong(validity.begins)
    assert not validity.wrong(validity.ends)
    assert validity.wrong(validity.ends + 0.1) == "OUTRIDER_TLS_CERT=x: expired on 1970-01-03 00:00:00 UTC"


def _trusting(*authorities: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata="".join(each.cert_pem.bytes().decode() for each in authorities))
    return context


def test_authorities_are_valid_together_while_one_follows_another(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for first, last in ((2001, 2020), (2019, 2030)):
        monkeypatch.setattr(trustme, "DEFAULT_NOT_BEFORE", datetime(first, 1, 1, tzinfo=UTC))
        monkeypatch.setattr(trustme, "DEFAULT_EXPIRY", datetime(last, 1, 1, tzinfo=UTC))
        made.append(trustme.CA())
    together = of_authorities("x", _trusting(*made))
    assert together is not None
    assert datetime.fromtimestamp(together.begins, UTC) == datetime(2001, 1, 1, tzinfo=UTC)
    assert datetime.fromtimestamp(together.ends, UTC) == datetime(2030, 1, 1, tzinfo=UTC)
    assert together.end == "2030-01-01 00:00:00 UTC"


def test_nothing_is_known_where_no_authority_is_trusted() -> None:
    assert of_authorities("x", ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)) is None


def test_of_a_chain_the_certificate_that_is_shown_counts(tmp_path: Path) -> None:
    """One of a chain's others may have expired while there is another way around it."""
    authority = Authority.new()
    shown = Path(authority.write(tmp_path, "localhost", ends_h=5).cert).read_bytes()
    old = Path(authority.write(tmp_path, "localhost", expired=True).cert).read_bytes()
    assert of_chain("x", shown + old) == of_chain("x", shown)
    assert of_chain("x", shown).ends > of_chain("x", old).ends


def test_a_certificate_that_cannot_be_read_is_named() -> None:
    with pytest.raises(ConfigError, match="OUTRIDER_TLS_CERT=x: the certificate cannot be read"):
        of_chain("OUTRIDER_TLS_CERT=x", b"nonsense")

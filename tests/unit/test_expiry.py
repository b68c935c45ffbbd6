"""Who has certificates that end is told so once, in time; metrics follow the certificates in use."""

import asyncio
import logging
import time
from pathlib import Path

import pytest

from outrider import expiry, semconv
from outrider.expiry import Watch, follow, instruments
from outrider.instruments import Reading
from outrider.tasks import end
from outrider.tls import TlsFiles
from tests.certificates import Authority
from tests.waiting import eventually


class Hours:
    """A clock that a test sets: hours from now."""

    def __init__(self) -> None:
        self.passed = 0.0

    def __call__(self) -> float:
        return time.time() + self.passed * 3600


def _levels(caplog: pytest.LogCaptureFixture) -> list[int]:
    return [record.levelno for record in caplog.records]


def test_each_state_of_each_certificate_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    authority, clock = Authority.new(), Hours()
    files = TlsFiles(authority.write(tmp_path, "localhost", begins_h=0, ends_h=24), clock=clock)
    watch = Watch(files)

    def look(hours: float) -> None:
        clock.passed = hours
        watch.look()
        watch.look()

    look(19.0)
    assert not caplog.records
    look(19.5)
    look(23.5)
    assert _levels(caplog) == [logging.WARNING]
    assert "tls.crt: ends on" in caplog.text
    look(24.5)
    look(48.0)
    assert _levels(caplog) == [logging.WARNING, logging.ERROR]
    assert "tls.crt: expired on" in caplog.text
    authority.write(tmp_path, "localhost", begins_h=47, ends_h=71)
    look(48.1)
    assert len(_levels(caplog)) == 2, "a new one is fine"
    look(70.0)
    assert _levels(caplog) == [logging.WARNING, logging.ERROR, logging.WARNING]


def _values(files: TlsFiles) -> dict[tuple[str, str | int], float]:
    readings = [each for each in instruments(files) if isinstance(each, Reading)]
    return {(each.metric.name, labels[0]): value for each in readings for labels, value in each.read().items()}


def test_metrics_follow_the_certificates_in_use(tmp_path: Path) -> None:
    authority = Authority.new()
    files = TlsFiles(authority.write(tmp_path, "localhost", begins_h=-1, ends_h=2))
    begins, ends = semconv.M_CERTIFICATE_BEGINS.name, semconv.M_CERTIFICATE_ENDS.name
    before = _values(files)
    assert set(before) == {(name, which) for name in (begins, ends) for which in ("own", "ca")}
    assert before[ends, "own"] - before[begins, "own"] == pytest.approx(3 * 3600, abs=1)
    authority.write(tmp_path, "localhost", expired=True)
    files.current()
    assert _values(files) == before, "one that is refused is not in use"
    authority.write(tmp_path, "localhost", begins_h=-1, ends_h=5)
    files.current()
    after = _values(files)
    assert after[ends, "own"] - before[ends, "own"] == pytest.approx(3 * 3600, abs=60)
    assert after[ends, "ca"] == before[ends, "ca"]


async def test_files_are_looked_at_without_anybody_asking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "LOOK_S", 0.001)
    authority = Authority.new()
    files = TlsFiles(authority.write(tmp_path, "localhost"))
    task = asyncio.create_task(follow(files))
    authority.write(tmp_path, "localhost", ends_h=2)
    await eventually(lambda: files.in_use.version == 2, "the new certificate is in use")
    await end(task)


async def test_without_files_there_is_nothing_to_follow() -> None:
    await follow(None)
    assert instruments(None) == []

"""Certificates are read as a whole or not at all, and read again when their files change. Those that are not valid are
refused at the start, and later never take the place of others."""

import os
import time
from pathlib import Path

import pytest

from outrider.config import ConfigError, load
from outrider.safe_config import SafeConfig
from outrider.tls import TlsFiles, TlsPaths, read_material
from tests.certificates import Authority, variables


def test_files_that_change_are_read_again(tmp_path: Path) -> None:
    authority = Authority.new()
    files = TlsFiles(authority.write(tmp_path, "localhost"))
    before = files.current()
    assert files.current() is before
    authority.write(tmp_path, "localhost")
    after = files.current()
    assert after != before
    assert after.version == before.version + 1


def test_files_that_are_away_leave_what_was_read(tmp_path: Path) -> None:
    files = TlsFiles(Authority.new().write(tmp_path, "localhost"))
    before = files.current()
    for path in tmp_path.iterdir():
        path.unlink()
    assert files.current() is before


def test_a_link_that_points_elsewhere_is_a_change(tmp_path: Path) -> None:
    """Kubernetes replaces a mounted Secret by turning one link."""
    authority = Authority.new()
    authority.write(tmp_path / "one", "localhost")
    authority.write(tmp_path / "two", "localhost")
    (tmp_path / "data").symlink_to("one")
    files = TlsFiles(TlsPaths(*(str(tmp_path / "data" / name) for name in ("ca.crt", "tls.crt", "tls.key"))))
    before = files.current()
    (tmp_path / "new").symlink_to("two")
    os.replace(tmp_path / "new", tmp_path / "data")
    assert files.current() != before


def test_files_that_cannot_be_used_leave_what_was_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A key that does not belong to its certificate: someone is in the middle of replacing them."""
    authority = Authority.new()
    paths = authority.write(tmp_path, "localhost")
    files = TlsFiles(paths)
    before = files.current()
    other = authority.write(tmp_path / "other", "localhost")
    os.replace(other.key, paths.key)
    for _ in range(3):
        assert files.current() == before
    assert len(caplog.records) == 1
    assert "stays in use" in caplog.text
    os.replace(other.cert, paths.cert)
    assert files.current() != before


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("ca.crt", b"nonsense", "OUTRIDER_TLS_CA=.*ca.crt: holds no certificate in PEM"),
        ("tls.crt", b"nonsense", "OUTRIDER_TLS_CERT=.* and OUTRIDER_TLS_KEY=.*must be a certificate in PEM"),
        ("tls.key", b"", "OUTRIDER_TLS_CERT=.* and OUTRIDER_TLS_KEY=.*must be a certificate in PEM"),
    ],
)
def test_a_file_that_is_wrong_is_named(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    paths = Authority.new().write(tmp_path, "localhost")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=words):
        read_material(paths)


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    paths = Authority.new().write(tmp_path, "localhost")
    Path(paths.key).unlink()
    with pytest.raises(ConfigError, match=r"OUTRIDER_TLS_KEY=.*tls\.key: cannot be read: No such file"):
        TlsFiles(paths)


@pytest.mark.parametrize(
    ("later_s", "words"),
    [
        (2 * 3600, r"OUTRIDER_TLS_CERT=.*tls\.crt: expired on 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC"),
        (-2 * 3600, r"OUTRIDER_TLS_CERT=.*tls\.crt: not valid before 20\d\d-"),
        (1000 * 366 * 86400, r"OUTRIDER_TLS_CA=.*ca\.crt: expired on 3000-01-01"),
    ],
)
def test_what_is_not_valid_is_refused_at_the_start(tmp_path: Path, later_s: float, words: str) -> None:
    paths = Authority.new().write(tmp_path, "localhost")
    with pytest.raises(ConfigError, match=words):
        TlsFiles(paths, clock=lambda: time.time() + later_s)


def test_a_replacement_that_has_expired_takes_no_ones_place(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    authority = Authority.new()
    files = TlsFiles(authority.write(tmp_path, "localhost"))
    before = files.current()
    authority.write(tmp_path, "localhost", expired=True)
    for _ in range(3):
        assert files.current() is before
    assert len(caplog.records) == 1
    assert "tls.crt: expired on" in caplog.text
    assert "stays in use" in caplog.text
    authority.write(tmp_path, "localhost", ends_h=2)
    assert files.current().version == before.version + 1


def test_a_replacement_that_is_not_valid_yet_is_taken_when_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its files do not change at that moment; the clock of who signed it may be a little ahead."""
    authority, later_s = Authority.new(), 0.0
    files = TlsFiles(authority.write(tmp_path, "localhost"), clock=lambda: time.time() + later_s)
    before = files.current()
    authority.write(tmp_path, "localhost", begins_h=0.25, ends_h=2)
    for _ in range(3):
        assert files.current() is before
    assert len(caplog.records) == 1
    assert "tls.crt: not valid before" in caplog.text
    later_s = 0.5 * 3600
    assert files.current().version == before.version + 1
    assert files.in_use is files.current()


def test_without_a_certificate_to_show_only_those_to_trust_are_looked_at(tmp_path: Path) -> None:
    files = TlsFiles(TlsPaths(Authority.new().write(tmp_path, "localhost", expired=True).ca))
    assert [each.which for each in files.current().validities] == ["ca"]


def test_no_message_shows_a_key(tmp_path: Path) -> None:
    assert "PRIVATE" not in repr(read_material(Authority.new().write(tmp_path, "localhost")))


@pytest.mark.parametrize("left_out", ["OUTRIDER_TLS_CA", "OUTRIDER_TLS_CERT", "OUTRIDER_TLS_KEY"])
def test_the_three_files_are_set_together(tmp_path: Path, left_out: str) -> None:
    given = variables(Authority.new().write(tmp_path, "localhost"))
    files = load(SafeConfig, given).tls()
    assert files is not None
    with pytest.raises(ConfigError, match="must be set together"):
        load(SafeConfig, {name: value for name, value in given.items() if name != left_out})
    assert load(SafeConfig, {}).tls() is None


def test_peers_need_certificates(tmp_path: Path) -> None:
    given = {"OUTRIDER_TLS_PEERS": "outrider-orchestrator, spiffe://cluster/orchestrator,"}
    with pytest.raises(ConfigError, match=r"OUTRIDER_TLS_PEERS=.*: needs OUTRIDER_TLS_CA"):
        load(SafeConfig, given)
    both = given | variables(Authority.new().write(tmp_path, "localhost"))
    assert load(SafeConfig, both).peers == {"outrider-orchestrator", "spiffe://cluster/orchestrator"}
    assert load(SafeConfig, {}).peers == frozenset()

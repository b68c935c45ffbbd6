"""Settings of safety that would be without effect, or let everybody in, are refused."""

from pathlib import Path

import pytest

from orchestrator.config import OrchestratorConfig
from outrider.config import ConfigError, load
from outrider.safe_config import SafeConfig
from tests.certificates import Authority, variables


@pytest.mark.parametrize("names", [",", " ", " , ,"])
def test_a_list_of_callers_that_names_nobody_is_no_list(tmp_path: Path, names: str) -> None:
    """It would let everybody in, and looks as if it let in few."""
    given = variables(Authority.new().write(tmp_path, "localhost")) | {"OUTRIDER_TLS_PEERS": names}
    with pytest.raises(ConfigError, match=r"OUTRIDER_TLS_PEERS=.*: must be names separated by commas, or empty"):
        load(SafeConfig, given)
    assert load(SafeConfig, given | {"OUTRIDER_TLS_PEERS": ""}).peers == frozenset()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OUTRIDER_TLS_CLIENTS", "any"),
        ("OUTRIDER_TLS_TARGET_NAME", "outrider-target"),
        ("OUTRIDER_TLS_DRAFT_NAME", "outrider-draft"),
        ("OUTRIDER_TLS_PEERS", "outrider-orchestrator"),
    ],
)
def test_what_needs_certificates_is_refused_without(tmp_path: Path, name: str, value: str) -> None:
    given = {"OUTRIDER_TOKENIZER": "somewhere", name: value}
    with pytest.raises(ConfigError, match=f"{name}='{value}': needs OUTRIDER_TLS_CA"):
        load(OrchestratorConfig, given)
    load(OrchestratorConfig, given | variables(Authority.new().write(tmp_path, "localhost")))


def test_names_of_callers_cannot_be_asked_of_those_who_show_no_certificate(tmp_path: Path) -> None:
    given = variables(Authority.new().write(tmp_path, "localhost")) | {
        "OUTRIDER_TOKENIZER": "somewhere",
        "OUTRIDER_TLS_CLIENTS": "any",
        "OUTRIDER_TLS_PEERS": "a-client",
    }
    with pytest.raises(ConfigError, match="OUTRIDER_TLS_PEERS cannot be set with OUTRIDER_TLS_CLIENTS=any"):
        load(OrchestratorConfig, given)


@pytest.mark.parametrize("name", ["OUTRIDER_LISTEN", "OUTRIDER_HEALTH", "OUTRIDER_HTTP"])
@pytest.mark.parametrize("address", ["nonsense", ":50059", "http://host:1", "host:port", "127.0.0.1:99999", "host:-1"])
def test_an_address_that_is_none_is_refused_by_name(name: str, address: str) -> None:
    """gRPC itself would take the port modulo 65 536."""
    with pytest.raises(ConfigError, match=f"{name}=.*: must be host:port with a port up to 65535"):
        load(OrchestratorConfig, {"OUTRIDER_TOKENIZER": "somewhere", name: address})


def test_addresses_of_every_kind_are_taken() -> None:
    for listen in ("127.0.0.1:0", "[::]:50051", "localhost:1", "unix:/somewhere/socket"):
        given = {"OUTRIDER_TOKENIZER": "somewhere", "OUTRIDER_LISTEN": listen, "OUTRIDER_HEALTH": "[::]:50059"}
        assert load(OrchestratorConfig, given).listen == listen

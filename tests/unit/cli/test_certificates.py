"""Certificates of the command line: files that cannot be used are named, and what cannot work here is refused."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from outrider.cli.connecting import connect
from outrider.cli.main import app
from outrider.errors import InvalidArgument
from tests.certificates import Authority, variables


@pytest.mark.parametrize("command", ["up", "demo"])
@pytest.mark.parametrize("name", ["OUTRIDER_TLS_CA", "OUTRIDER_TLS_PEERS", "OUTRIDER_HEALTH"])
def test_processes_that_share_an_environment_have_no_certificates(command: str, name: str) -> None:
    result = CliRunner().invoke(app, [command], env={name: "anything"})
    assert result.exit_code == 2
    assert f"{name}: must be unset" in " ".join(result.output.split())


async def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    given = variables(Authority.new().write(tmp_path, "somebody"))
    async with connect("127.0.0.1:1", environment=given) as client:
        assert client.addresses == "127.0.0.1:1"
    given["OUTRIDER_TLS_KEY"] += "s"
    with pytest.raises(InvalidArgument, match=r"OUTRIDER_TLS_KEY=.*tls\.keys: cannot be read"):
        async with connect("127.0.0.1:1", environment=given):
            raise AssertionError("no client can be made of this")


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("NAME",), "OUTRIDER_TLS_NAME: needs OUTRIDER_TLS_CA as well"),
        (("CA", "CERT"), "OUTRIDER_TLS_CERT: needs OUTRIDER_TLS_KEY as well"),
        (("CA", "KEY"), "OUTRIDER_TLS_KEY: needs OUTRIDER_TLS_CERT as well"),
        (("CERT", "KEY"), "OUTRIDER_TLS_CERT: needs OUTRIDER_TLS_CA as well"),
    ],
)
async def test_settings_that_lack_others_are_named(tmp_path: Path, names: tuple[str, ...], words: str) -> None:
    given = variables(Authority.new().write(tmp_path, "somebody")) | {"OUTRIDER_TLS_NAME": "outrider-orchestrator"}
    with pytest.raises(InvalidArgument, match=f"^{words}$"):
        async with connect(
            "127.0.0.1:1", environment={f"OUTRIDER_TLS_{name}": given[f"OUTRIDER_TLS_{name}"] for name in names}
        ):
            raise AssertionError("no client can be made of this")

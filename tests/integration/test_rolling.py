"""Every service can be restarted under load without anybody noticing."""

from pathlib import Path

from tests.rolling import roll


async def test_restarts_of_each_service_fail_no_request(llama: Path) -> None:
    seen = await roll(llama, 6)
    assert seen.failed == []
    assert seen.wrong == []
    assert seen.codes == [0] * 6
    assert seen.answers > 0

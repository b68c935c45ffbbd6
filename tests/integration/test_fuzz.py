"""Whatever is sent to a handler, the call ends with a status and the servers are what they were."""

from pathlib import Path

from tests.fuzz.__main__ import fuzz
from tests.stack import Farm

SEED = 20261202


async def test_no_message_breaks_a_handler(farm: Farm, llama: Path) -> None:
    report = await fuzz(farm, llama, 2000, SEED)
    assert report.findings == []
    assert {status for _, status in report.statuses} >= {"OK", "INVALID_ARGUMENT"}
    assert len({method for method, _ in report.statuses}) == 10, "every method of every service"

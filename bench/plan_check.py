"""Whether ``outrider plan`` tells the truth: its formulas against synthetic services whose times are set.

``python -m bench.plan_check`` has plan measure the services as ``outrider plan --address`` does, then measures what
they make at one session and several distances of the draft, and prints prediction over measurement. 1 is right; above
it, plan promises too much. Passes are set to 20 and 2 ms; what plan measured is printed, too. Answers are long, since
how many draft tokens are right is chance.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bench.command import run_command
from bench.engine_run import Run
from bench.report import RESULTS, empty_folder, table
from bench.speculating import plan
from bench.speculating.synthetic import ACCEPTANCE, LENGTHS, Bench, a_draft, a_target, by_round_trip
from bench.speculating.synthetic_report import rate
from bench.systems.site import serving
from outrider.cli.console import print_result
from outrider.cli.measure import measure
from outrider.cli.models import chosen_pair
from outrider.cli.plan import ways
from outrider.cli.plan_numbers import Numbers
from outrider.throughput import even_acceptance, off
from outrider.tokenizer import Tokenizer

_LONGEST = max(LENGTHS)
_SIZES = replace(plan.FULL, round_trips_ms={0: 2, 5: 2, 20: 2}, synthetic_tokens=448)


def predictions(numbers: Numbers) -> dict[str, float]:
    """Tokens per second of each way that is measured: alone, fixed lengths, and the best that looks ahead."""
    found = ways(numbers, _LONGEST)
    fixed = {f"k = {way.k}": way.rate for way in found if not way.outcomes}
    best = max(way.rate for way in found if way.outcomes)
    return {plan.OFF: off(numbers.costs()), **fixed, plan.AHEAD: best}


def numbers_at(milliseconds: float, here: Numbers) -> Numbers:
    """As plan measured them without the distance, and the acceptance that the draft is set to."""
    return replace(
        here,
        acceptance=even_acceptance(ACCEPTANCE, _LONGEST + 1),
        rtt_draft_s=here.rtt_draft_s + milliseconds / 1000,
    )


def compared(runs: Mapping[float, Run], here: Numbers) -> dict[float, dict[str, float]]:
    """Prediction over measurement, by distance and way."""
    return {
        milliseconds: {
            name: predicted / rate(run, name)
            for name, predicted in predictions(numbers_at(milliseconds, here)).items()
            if name in {facts.name for facts in run.facts}
        }
        for milliseconds, run in runs.items()
    }


async def _work() -> None:
    folder, _ = chosen_pair(None, None, os.environ)
    logs = empty_folder(RESULTS / "plan_check_logs")
    bench = Bench(folder, logs, _SIZES, Tokenizer.load(folder))
    target, draft = a_target("target", folder, logs), a_draft("draft", folder, logs, ACCEPTANCE)
    async with serving([target, draft]):
        async with bench.site(target.address, draft.address) as ready:
            here = await measure(next(iter(ready.clients.values())), _LONGEST)
        found = compared(await by_round_trip(bench, target.address, draft.address), here)
    names = list(next(iter(found.values())))
    rows = [[f"{distance:g}", *(f"{ratios[name]:.3f}" for name in names)] for distance, ratios in found.items()]
    print(table(["round trip to the draft, ms", *names], rows))
    print_result(_closing(found, here))


def _closing(found: Mapping[float, Mapping[str, float]], here: Numbers) -> dict[str, Any]:
    ratios = [(abs(ratio - 1), ratio) for each in found.values() for name, ratio in each.items() if name != plan.AHEAD]
    ahead = [(abs(each[plan.AHEAD] - 1), each[plan.AHEAD]) for each in found.values()]
    return {
        "plan_vs_measured_worst": round(max(ratios)[1], 3),
        "plan_vs_measured_worst_ahead": round(max(ahead)[1], 3),
        "t_verify_ms": str(here.target),
        "t_draft_ms": str(here.draft),
        "rtt_draft_ms": round(here.rtt_draft_s * 1000, 3),
        "rtt_target_ms": round(here.rtt_target_s * 1000, 3),
    }


if __name__ == "__main__":
    sys.exit(run_command(_work))

"""Tables and closing figures of hand-made runs of the three parts."""

import json
from collections.abc import Iterator

import pytest

from bench.engine_run import Run, SystemFacts
from bench.speculating import pair_report, peers_report, plan, synthetic_report
from bench.speculating.pair import PairFound
from bench.speculating.peers import PeersFound
from bench.speculating.sizes import LinkPayload
from bench.speculating.synthetic import SyntheticFound, fixed_names, overlap_bound
from bench.systems.base import Step, timed
from bench.traffic import TrafficClass, warmer
from bench.windows import Measured, Window

TOKENS = 24
CLASS = TrafficClass("code", ("a",), TOKENS)
PAIR = [plan.OFF, *plan.FIXED.values(), plan.AGAIN, plan.SERIAL, plan.AHEAD]
COPYING = [plan.OFF, "k = 2", "k = 4", plan.AHEAD, plan.COPIES]
SPEEDS = {plan.OFF: 10.0, "k = 2": 12.0, plan.AGAIN: 9.0, plan.SERIAL: 11.0, plan.AHEAD: 15.0, plan.COPIES: 20.0}


def answered(system: str, at: Window, rate: float, drafts: int) -> Measured:
    """An answer at so many tokens per second, of rounds of two tokens, or of one without draft tokens."""
    size = 2 if drafts else 1
    steps = [Step(i * size / rate, (i,) * size, drafts, size - 1) for i in range(1, TOKENS // size + 1)]
    return Measured(system, at, (timed(0.0, steps),) * at.sessions)


def run(systems: list[str], cells: list[tuple[int, TrafficClass]], speeds: dict[str, float] = SPEEDS) -> Run:
    def every() -> Iterator[Measured]:
        for serial, (sessions, traffic) in enumerate(cells):
            for system in systems:
                drafts = 0 if system in (plan.OFF, plan.AGAIN) else 4
                yield answered(system, Window(serial, sessions, 0, 0, traffic), speeds.get(system, 8.0), drafts)

    return Run(list(every()), [SystemFacts(name, "as it is", ()) for name in systems])


WARM = [(sessions, warmer(CLASS, temperature)) for sessions in (1, 4) for temperature in plan.TEMPERATURES]


@pytest.fixture
def pair() -> PairFound:
    slow = run([plan.OFF, plan.RANDOM, plan.SLOW], [(1, CLASS)], {plan.OFF: 10.0, plan.RANDOM: 9.0, plan.SLOW: 5.0})
    sizes = [LinkPayload("k = 4", "draft", 20, 50.4, 60, 40.0, 44)]
    return PairFound(run(PAIR, WARM), run(COPYING, WARM), slow, sizes)


def test_the_pair_closes_with_the_worst_cell(pair: PairFound) -> None:
    assert pair_report.result(pair) == {
        "auto_vs_target_only_min": 1.5,
        "auto_vs_target_only_mean": 1.5,
        "auto_vs_best_fixed_min": 1.25,
        "auto_vs_best_fixed_mean": 1.25,
        "noise_min": 0.9,
        "noise_mean": 0.9,
        "ngram_copy_speedup": 2.0,
        "random_draft_vs_target_only_1": 0.9,
        "slow_draft_vs_target_only_1": 0.5,
    }


def test_the_pair_is_told_in_tables(pair: PairFound) -> None:
    text = pair_report.text(pair)
    assert (
        "| 1 | code, 0 | 10.0 | 8.0 | 12.0 | 8.0 | 9.0 | 11.0 | 15.0 | 1.10x | 1.50x | 0.90x | 1.25x | k = 2 |" in text
    )
    assert "| 4 | 0.8 | AUTO serial | 4 |" in text
    assert "| code, 0 | 1.00 0.00 0.00 0.00 | 2.00 | 2.00 | 2.00 | 2.00 | 2.00 |" in text
    assert f"| {plan.COPIES} | {plan.OFF} | 0 |" in text
    assert "| k = 4 | draft | 20 | 50 | 60 | 40 | 44 |" in text
    assert "| 1 | code, 0 | 10.0 | 12.0 | 8.0 | 15.0 | 20.0 | 1.50x | 2.00x | 1.25x | k = 2 |" in text


def test_the_same_text_is_counted_over_both_runs(pair: PairFound) -> None:
    """Five answers per temperature and run: other ids than without speculation, which repeats none."""
    text = pair_report.text(pair)
    assert "| k = 1 | target only | 0 | 0 of 5 |" in text
    assert "| k = 2 | target only | 0 | 0 of 10 |" in text


def test_the_pair_fits_into_json(pair: PairFound) -> None:
    found = json.loads(json.dumps(pair_report.details(pair)))
    assert set(found) == {"everyday", "copying", "misfits", "sizes"}
    assert len(found["everyday"]["cells"]) == len(WARM) * len(PAIR)


def test_peers_close_with_the_worst_cell_against_their_best() -> None:
    names = [plan.AHEAD, plan.OFF, plan.VLLM, plan.VLLM_NGRAM]
    found = PeersFound(run(names, WARM, {plan.AHEAD: 15.0, plan.VLLM: 5.0, plan.VLLM_NGRAM: 6.0}), ["why not"])
    assert peers_report.result(found) == {"auto_vs_vllm_best_1": 2.5}
    text = peers_report.text(found)
    assert "- left out: why not" in text
    assert "| 4 | code, 0.8 | 60.0 | 32.0 | 20.0 | 24.0 | 2.50x | vLLM ngram |" in text
    assert json.loads(json.dumps(peers_report.details(found)))["peers"]["missing"] == ["why not"]


def rate_of(speed: float) -> float:
    """Of tokens after the first, when two come at once and the first two are there after 2 / speed seconds."""
    return speed * (TOKENS - 1) / (TOKENS - 2)


def synthetic() -> SyntheticFound:
    systems = [plan.OFF, *fixed_names((2, 4)).values(), plan.SERIAL, plan.AHEAD]
    one = run(systems, [(1, CLASS)])
    return SyntheticFound({0.0: one, 10.0: one}, {0.8: one}, run(systems, [(1, CLASS), (16, CLASS)]))


def test_look_ahead_is_held_against_the_best_serial_way_and_the_bound() -> None:
    found = synthetic_report.result(synthetic())
    assert found["lookahead_vs_serial_0ms"] == found["lookahead_vs_serial_10ms"] == 1.25
    assert found["lookahead_vs_bound_0ms"] == round(rate_of(15.0) / overlap_bound(0.8, 0.0), 3)
    assert (found["synthetic_auto_vs_target_only_min"], found["synthetic_auto_vs_best_fixed_min"]) == (1.5, 1.25)


def test_the_synthetic_pair_is_told_in_tables() -> None:
    text = synthetic_report.text(synthetic())
    rates = [rate_of(SPEEDS[name]) for name in ("k = 2", plan.SERIAL, plan.AHEAD)]
    assert "| 10 | 10.0 | " + " | ".join(f"{rate:.1f}" for rate in rates) + " |" in text
    assert "| 16 | 160 | 192 | 128 | 176 | 240 | 4.0 | 4.0 |" in text
    json.dumps(synthetic_report.details(synthetic()))


def test_a_perfect_overlap_hides_the_draft_and_its_distance() -> None:
    """At no distance a block of 9 is prepared within a verdict of 20 ms; far away preparing takes longer than that."""
    assert overlap_bound(0.8, 0.0) == pytest.approx((1 - 0.8**10) / 0.2 / 0.02)
    assert overlap_bound(1.0, 0.0) == pytest.approx(17 / 0.034)
    assert overlap_bound(0.8, 0.05) < overlap_bound(0.8, 0.01) < overlap_bound(0.8, 0.0)
    assert overlap_bound(0.0, 0.0) == pytest.approx(50.0)

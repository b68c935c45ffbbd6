"""``outrider top`` shows what was added between two looks at all orchestrators that answer, and ends when told to."""

import asyncio
import io
import json
import os
import pty
import signal
import subprocess
import sys
from datetime import datetime
from functools import partial
from typing import Any

import pytest
from rich.console import Console

from outrider.cli.connecting import connect
from outrider.cli.top import once, top, watch
from outrider.cli.top_counts import Counts, Interval, Rates
from outrider.cli.top_frame import Frame, History, frame_of
from outrider.cli.top_view import view
from outrider.errors import Unavailable
from outrider.v1 import common_pb2
from outrider.v1 import orchestrator_pb2 as pb
from tests.unit.cli.looked_at import LookedAt, looked_at
from tests.waiting import PATIENCE_S, eventually

SOME = Counts(
    requests=2, rounds=10, proposed=20, accepted=15, emitted=25, look_aheads=4, look_ahead_hits=3, failovers=1,
    cache_misses=2, prompt_tokens=60, proposed_at=(12, 8), accepted_at=(9, 6), rounds_by_mode={"serial": 10},
)  # fmt: skip
MORE = SOME.plus(Counts(rounds=5, emitted=5, proposed_at=(1, 0, 2), rounds_by_mode={"copy": 5}))


def info(counts: Counts, incarnation: int = 1, **more: Any) -> pb.GetInfoResponse:
    totals = pb.Totals(**{name: getattr(counts, name) for name in Counts.__slots__})
    return pb.GetInfoResponse(incarnation=incarnation, totals=totals, **more)


def replica(
    address: str, incarnation: int = 7, sessions: int = 1, queries: int = 0, hits: int = 0, **more: Any
) -> pb.ReplicaStatus:
    load = common_pb2.Load(kv_used_tokens=250, pending_rounds=3, prefix_cache_queries=queries, prefix_cache_hits=hits)
    told = common_pb2.ReplicaInfo(
        incarnation=incarnation, model_id="/models/big", weights_fingerprint="synthetic 0123456789", load=load,
        kv_capacity_tokens=1000,
    )  # fmt: skip
    return pb.ReplicaStatus(address=address, info=told, sessions=sessions, **{"state": pb.REPLICA_STATE_READY, **more})


def history(*said: pb.GetInfoResponse, address: str = "a:1") -> History:
    """One answer a second."""
    told = History(address)
    for second, each in enumerate(said):
        told.answered(float(second), each)
    return told


def _shows(screen: io.StringIO, word: str) -> bool:
    return word in screen.getvalue()


def shown(frame: Frame, width: int = 120) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(view(frame, datetime(2026, 1, 1), 1.0))
    return out.getvalue()


def row(text: str, name: str) -> list[str]:
    return next(line[len(name) :].split() for line in text.splitlines() if line.startswith(name))


def test_what_was_added_is_the_difference_of_sums_whatever_is_new_in_them() -> None:
    added = MORE.plus(SOME, -1)
    assert (added.requests, added.rounds, added.emitted) == (0, 5, 5)
    assert (added.proposed_at, added.rounds_by_mode) == ((1, 0, 2), {"serial": 0, "copy": 5})
    assert Counts.of(info(SOME).totals) == SOME


def test_ratios_are_those_of_the_readme_and_there_is_none_of_nothing() -> None:
    assert (SOME.acceptance_rate, SOME.mean_accepted_length, SOME.hit_rate) == (0.75, 2.5, 0.75)
    assert SOME.acceptance_at == (0.75, 0.75)
    empty = Counts(proposed_at=(0,), accepted_at=(0,))
    assert (empty.acceptance_rate, empty.mean_accepted_length, empty.hit_rate, empty.acceptance_at) == (None,) * 3 + (
        (None,),
    )


def test_rates_of_several_orchestrators_add_up_though_their_intervals_differ() -> None:
    rates = Rates.of([Interval(Counts(emitted=10, rounds=4), 1.0), None, Interval(Counts(emitted=10, rounds=6), 2.0)])
    assert rates is not None
    assert (rates.tokens_per_s, rates.rounds_per_s, rates.seconds) == (15.0, 7.0, 2.0)
    assert rates.counts.mean_accepted_length == 2.0, "a ratio is of the sums"


@pytest.mark.parametrize("intervals", [[], [None], [Interval(SOME, 0.0)]])
def test_without_an_interval_there_are_no_rates(intervals: list[Interval | None]) -> None:
    assert Rates.of(intervals) is None


def test_the_last_interval_is_between_the_last_two_answers_and_the_minute_since_the_oldest() -> None:
    told = history(info(Counts()), info(Counts(emitted=10)), info(Counts(emitted=13)))
    assert told.last is not None and told.minute is not None
    assert (told.last.counts.emitted, told.last.seconds) == (3, 1.0)
    assert (told.minute.counts.emitted, told.minute.seconds) == (13, 2.0)


def test_no_more_than_a_minute_is_remembered() -> None:
    told = history(*(info(Counts(emitted=second)) for second in range(300)))
    assert told.minute is not None
    assert (told.minute.seconds, told.minute.counts.emitted) == (60.0, 60)
    assert len(told.said) == 61


def test_another_process_begins_anew() -> None:
    told = history(info(Counts(emitted=100)), info(Counts(emitted=100)), info(Counts(emitted=5), incarnation=2))
    assert (told.last, told.minute) == (None, None)
    told.answered(3.0, info(Counts(emitted=9), incarnation=2))
    assert told.minute is not None and told.minute.counts.emitted == 4


def test_who_is_away_counts_for_nothing_and_coming_back_is_no_burst() -> None:
    told = history(info(Counts()), info(Counts(emitted=10)))
    told.away = "no answer"
    assert (told.info, told.last, told.minute) == (None, None, None)
    told.answered(50.0, info(Counts(emitted=1000)))
    assert told.last is None, "what it did while it was away is not what it did within the last interval"
    assert told.minute is not None and told.minute.counts.emitted == 1000
    told.answered(51.0, info(Counts(emitted=1007)))
    assert told.last is not None and told.last.counts.emitted == 7


def test_a_replica_that_several_orchestrators_know_is_one() -> None:
    """Its sessions are those of all of them; its load is its own, as whoever uses it knows it."""
    gone = replica("10.0.0.1:2", sessions=0, state=pb.REPLICA_STATE_UNAVAILABLE, reason="connection refused")
    one, two = history(info(SOME, targets=[gone])), history(info(SOME, targets=[replica("target:2", sessions=4)]))
    (only,) = frame_of([one, two]).replicas
    assert (only.address, only.state, only.sessions) == ("target:2", "ready", 4)
    assert (only.ready_at, only.known_at, only.reason) == (1, 2, "connection refused")
    assert (only.kv_share, only.pending_rounds) == (0.25, 3)


def test_prefix_hits_are_those_of_the_minute_and_of_the_same_process() -> None:
    looks = [(7, 100, 50), (7, 300, 200), (8, 40, 10), (8, 60, 25)]
    told = History("a:1")
    rates = []
    for second, (incarnation, queries, hits) in enumerate(looks):
        known = replica("t:1", incarnation, queries=queries, hits=hits)
        told.answered(float(second), info(SOME, targets=[known]))
        rates.append(frame_of([told]).replicas[0].prefix_hit_rate)
    assert rates == [None, 0.75, None, 0.75]


def test_replicas_that_never_answered_are_told_apart_by_address() -> None:
    silent = [pb.ReplicaStatus(address=each, state=pb.REPLICA_STATE_UNAVAILABLE) for each in ("d:1", "d:2")]
    assert [each.address for each in frame_of([history(info(SOME, drafts=silent))]).replicas] == ["d:1", "d:2"]


def test_people_see_the_last_interval_beside_the_minute() -> None:
    known = [replica("t:1", leaving=True)]
    said = [info(Counts()), info(SOME), info(MORE, targets=known, active_requests=3, waiting_requests=2)]
    text = shown(frame_of([history(*said)]))
    assert "3 running, 2 waiting" in text
    assert row(text, "tokens/s") == ["5.0", "15.0"]
    assert row(text, "rounds/s") == ["5.0", "7.5"]
    assert row(text, "acceptance") == ["-", "75%"]
    assert row(text, "mean accepted length") == ["1.00", "2.00"]
    assert row(text, "rounds copy") == ["100%", "33%"]
    assert row(text, "fail-overs") == ["0", "1"]
    assert row(text, "       place") == ["0", "1", "2", "%", "accepted"]
    assert row(text, "target") == ["t:1", "leaving", "1", "3", "25.0%", "-", "big", "01234567"]
    assert "▆▆" in text, "three quarters of a bar"


def test_who_is_away_is_shown_with_the_reason_and_nobody_s_text_is_a_control_code() -> None:
    away = History("b:1", away="no orchestrator\x1b[2J at b:1")
    text = shown(frame_of([history(info(SOME)), away]))
    assert row(text, "b:1")[0] == "away" and "no orchestrator" in text
    assert "\x1b" not in text
    assert row(text, "tokens/s") == ["-"], "one answer is no rate"


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_frame_fits_the_terminal(width: int) -> None:
    known = [replica("a-rather-long-name.example.com:50052", reason="r" * 100)]
    text = shown(frame_of([history(info(SOME), info(MORE, targets=known, drafts=known))]), width)
    assert max(map(len, text.splitlines())) <= width


async def test_once_tells_numbers_of_one_interval_and_who_is_away(capsys: pytest.CaptureFixture[str]) -> None:
    serving, away = (
        LookedAt(infos=[info(SOME), info(MORE, active_requests=1)]),
        LookedAt(error=Unavailable("it drains")),
    )
    async with looked_at(serving, away) as addresses:
        await top(addresses, "key", 0.1, single=True, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert (told["last"]["rounds"], told["last"]["rounds_by_mode"]) == (5, {"copy": 5, "serial": 0})
    assert told["last"]["rounds_per_s"] == pytest.approx(5 / told["last"]["seconds"], rel=0.01)
    assert [each["state"] for each in told["orchestrators"]] == ["serving", "away"]
    assert told["orchestrators"][1]["reason"] == "it drains"
    assert serving.metadata[0]["authorization"] == "Bearer key"


async def test_once_shows_a_frame_without_control_codes(capsys: pytest.CaptureFixture[str]) -> None:
    async with looked_at(LookedAt(infos=[info(SOME), info(MORE)])) as addresses:
        await top(addresses, "", 0.1, single=True, as_json=False)
    out = capsys.readouterr().out
    assert "tokens/s" in out and "\x1b" not in out


async def test_with_nobody_to_ask_once_is_an_error() -> None:
    async with looked_at(LookedAt(error=Unavailable("it drains"))) as addresses, connect(addresses) as client:
        with pytest.raises(Unavailable, match="drains"):
            await once(client.lines, 0.1)


async def test_live_it_goes_on_when_an_orchestrator_goes_away_and_comes_back() -> None:
    looked = LookedAt(infos=[info(SOME)])
    screen = Console(file=io.StringIO(), force_terminal=True, width=100, height=50)
    assert isinstance(screen.file, io.StringIO)
    async with looked_at(looked) as addresses, connect(addresses) as client:
        watching = asyncio.create_task(watch(client.lines, 0.01, screen))
        shows = partial(_shows, screen.file)
        for error, word in ((None, "serving"), (Unavailable("it drains"), "it drains"), (None, "serving")):
            looked.error = error
            screen.file.truncate(0)
            await eventually(partial(shows, word), f"{word} is shown")
        watching.cancel()
        await asyncio.wait({watching})
    assert watching.cancelled()
    assert screen.file.getvalue().endswith("\x1b[?1049l"), "the terminal is as it was before"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_the_live_view_well(number: signal.Signals) -> None:
    """Also while nobody answers."""
    main, terminal = pty.openpty()
    code = "from outrider.cli.main import app; app()"
    command = [sys.executable, "-c", code, "top", "--address", "127.0.0.1:1", "--every", "0.1"]
    environment = {**os.environ, "TERM": "xterm"}
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment) as process:
        os.close(terminal)
        said = b""
        while b"away" not in said:
            said += os.read(main, 65536)
        process.send_signal(number)
        while process.poll() is None or said[-8:] != b"\x1b[?1049l":
            try:
                said += os.read(main, 65536)
            except OSError:  # the other end is closed
                break
        assert process.wait(PATIENCE_S) == 0
    os.close(main)
    assert b"Traceback" not in said

"""A team runs all of its members, and the number of threads and rows changes no bit of a pass."""

import threading

import pytest
import torch

from outrider.inference.compiled.build import build
from outrider.inference.compiled.forward import _ROWS_AT_FIRST, CompiledForward, Team
from outrider.inference.compiled.weights import PackedModel, pack
from outrider.inference.kv_store import BLOCK_SIZE, KVStore
from outrider.inference.packed import PackedPass, Segment
from outrider.inference.packed import pack as pack_pass
from tests.unit.compiled.models import layers_of, model_of


@pytest.mark.parametrize("members", [1, 2, 5])
def test_a_team_runs_every_member_once_in_each_run(members: int) -> None:
    """Its caller is member 0, and a run has ended everywhere when it returns."""
    team, seen = Team(members), []
    for run in range(20):
        team.run(lambda member, run=run: seen.append((run, member, threading.get_ident())))
        assert sorted((r, m) for r, m, _ in seen[-members:]) == [(run, member) for member in range(members)]
    team.close()
    assert {thread for _, member, thread in seen if member == 0} == {threading.get_ident()}
    assert len({thread for _, _, thread in seen}) == members


def test_a_closed_team_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    team = Team(4)
    started = set(threading.enumerate()) - before
    assert len(started) == 3
    team.close()
    for thread in started:
        thread.join(10)
    assert not any(thread.is_alive() for thread in started)


@pytest.fixture(scope="module")
def model() -> PackedModel:
    build()
    made = model_of("llama")
    return pack(made, layers_of(made), 512)


@pytest.fixture
def store() -> KVStore:
    return KVStore(layers_of(model_of("llama")), 16, torch.bfloat16, torch.device("cpu"))


def rows_of(count: int, start: int = 0) -> PackedPass:
    tokens = [(37 * position + 11) % 320 for position in range(start, start + count)]
    beside = Segment([9, 8, 7], 0, [15], 1)
    return pack_pass([Segment(tokens, start, list(range(14)), count), beside], BLOCK_SIZE, 1)


@pytest.mark.parametrize("members", [2, 3])
def test_the_number_of_threads_changes_no_bit(model: PackedModel, members: int) -> None:
    """Logits and cache of a prefill, a block and single steps; also with more threads than cores or rows."""
    results = []
    for team in (1, members):
        cache = KVStore(layers_of(model_of("llama")), 16, torch.bfloat16, torch.device("cpu"))
        forward = CompiledForward(model, *cache.whole, team)
        logits = [forward(rows_of(count, start)).clone() for count, start in ((45, 0), (5, 45), (1, 50), (1, 51))]
        forward.close()
        results.append((torch.cat(logits), *cache.whole))
    for one, other in zip(*results, strict=True):
        assert torch.isfinite(one).all()
        assert torch.equal(one, other)


def test_it_grows_for_more_rows_than_it_began_with(model: PackedModel, store: KVStore) -> None:
    """A long pass between short ones has the bits of short passes."""
    count = 2 * _ROWS_AT_FIRST + 40
    forward = CompiledForward(model, *store.whole, 2)
    short = torch.cat([forward(rows_of(12, start))[:12].clone() for start in range(0, count, 12)])
    assert torch.equal(forward(rows_of(count))[:count], short[:count])
    assert torch.equal(forward(rows_of(12))[:12], short[:12])
    forward.close()


def test_logits_are_those_of_the_wanted_rows_in_their_order(model: PackedModel, store: KVStore) -> None:
    """Only the last rows of a segment are asked for; their logits are those of asking for all."""
    forward = CompiledForward(model, *store.whole, 1)
    every = forward(rows_of(20)).clone()
    tokens = [(37 * position + 11) % 320 for position in range(20)]
    few = forward(pack_pass([Segment(tokens, 0, list(range(14)), 2)], BLOCK_SIZE, 4))
    assert torch.equal(few[:2], every[18:20])
    forward.close()

"""The cache of rows is the cache of blocks that everybody knows, in another order of memory, and one block more."""

import pytest
import torch

from outrider.inference.accelerator.row_store import RowStore
from outrider.inference.kv_store import BLOCK_SIZE, KVStore, LayerShape
from tests.unit.attention_cases import CPU

LAYERS = [LayerShape(2, 8), LayerShape(1, 4, window=16)]
EQUAL = [LayerShape(2, 8)] * 3


def filled(seed: int, layers: list[LayerShape] = LAYERS) -> RowStore:
    store = RowStore(layers, 4, torch.float32, CPU)
    for tensor in (*store.key_rows, *store.value_rows):
        tensor.copy_(torch.randn(tensor.shape, generator=torch.Generator().manual_seed(seed)))
    return store


def test_blocks_look_like_those_of_any_store_and_there_is_a_spare_one() -> None:
    store, usual = RowStore(LAYERS, 3, torch.bfloat16, CPU), KVStore(LAYERS, 4, torch.bfloat16, CPU)
    assert [x.shape for x in (*store.keys, *store.values)] == [x.shape for x in (*usual.keys, *usual.values)]
    assert store.spare == 3


def test_rows_are_written_to_their_slots_and_seen_in_their_blocks() -> None:
    store, before = filled(0), filled(0)
    k, v = torch.arange(32.0).view(2, 2, 8), torch.arange(32.0, 64.0).view(2, 2, 8)
    store.write(0, torch.tensor([BLOCK_SIZE + 3, 2 * BLOCK_SIZE]), k, v)
    assert torch.equal(store.keys[0][1, :, :, 3], k[0])
    assert torch.equal(store.values[0][2, :, 0], v[1])
    changed = (store.keys[0] != before.keys[0]).sum()
    assert changed == k.numel()


@pytest.mark.parametrize("layers", [LAYERS, EQUAL])
def test_a_copied_block_takes_its_rows_along_and_a_cleared_one_is_zero_in_every_layer(layers: list[LayerShape]) -> None:
    """Layers in one piece, and layers of their own."""
    store, before = filled(1, layers), filled(1, layers)
    store.copy_blocks([(0, 2)])
    store.clear(torch.tensor([1, 1]))
    for ours, old in zip((*store.keys, *store.values), (*before.keys, *before.values), strict=True):
        assert torch.equal(ours[2], old[0])
        assert not ours[1].any()
        assert torch.equal(ours[3:], old[3:])

"""The tensors of the cache: shapes, sizes, whole-block copies in every layer."""

import pytest
import torch

from outrider.inference.kv_store import BLOCK_SIZE, KVStore, LayerShape

LAYERS = [LayerShape(2, 8), LayerShape(1, 4, window=16)]


def test_each_layer_has_its_own_shape() -> None:
    store = KVStore(LAYERS, 3, torch.bfloat16, torch.device("cpu"))
    assert [tuple(k.shape) for k in store.keys] == [(3, 2, 8, BLOCK_SIZE), (3, 1, 4, BLOCK_SIZE)]
    assert [tuple(v.shape) for v in store.values] == [(3, 2, BLOCK_SIZE, 8), (3, 1, BLOCK_SIZE, 4)]


def test_bytes_per_block_is_what_the_tensors_take() -> None:
    for dtype in (torch.bfloat16, torch.float32):
        store = KVStore(LAYERS, 5, dtype, torch.device("cpu"))
        taken = sum(t.numel() * t.element_size() for t in (*store.keys, *store.values))
        assert taken == 5 * sum(layer.bytes_per_block(dtype) for layer in LAYERS)


@pytest.mark.parametrize("layers", [LAYERS, [LAYERS[0]] * 3], ids=["unequal", "in one piece"])
def test_a_block_is_copied_whole_in_every_layer_and_nothing_else_changes(layers: list[LayerShape]) -> None:
    store = KVStore(layers, 4, torch.float32, torch.device("cpu"))
    for tensor in (*store.keys, *store.values):
        tensor.copy_(torch.randn(tensor.shape, generator=torch.Generator().manual_seed(0)))
    before = [tensor.clone() for tensor in (*store.keys, *store.values)]
    store.copy_blocks([(1, 3)])
    for old, new in zip(before, (*store.keys, *store.values), strict=True):
        assert torch.equal(new[3], old[1])
        assert torch.equal(new[:3], old[:3])

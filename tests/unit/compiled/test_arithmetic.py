"""bfloat16 and back as torch does it, and dot-product tiles whose rows do not know of each other."""

import numpy as np
import numpy.typing as npt
import pytest
import torch

from outrider.inference.compiled.arithmetic import dot, narrow, widen
from outrider.inference.compiled.tile import PANELS, TILE_ROWS
from outrider.inference.compiled.vectors import LANES

WIDTH = LANES * PANELS


def bits_of(numbers: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """torch's nearest bfloat16s."""
    return torch.from_numpy(numbers).to(torch.bfloat16).view(torch.uint16).numpy()


def test_every_bfloat16_widens_as_in_torch() -> None:
    """All 65536 patterns; a NaN's payload is left aside, it does not survive the way to Python."""
    every = np.arange(1 << 16).astype(np.uint16)
    ours = np.array([widen(number) for number in every], np.float32)
    theirs = torch.from_numpy(every.view(np.int16)).view(torch.bfloat16).float().numpy()
    assert np.array_equal(ours, theirs, equal_nan=True)
    assert np.array_equal(np.signbit(ours), np.signbit(theirs))


def test_floats_narrow_as_in_torch() -> None:
    """Random patterns, ties between every two neighbours of a range, and what rounds up to infinity; no NaNs."""
    random = np.random.default_rng(0).integers(0, 1 << 32, 20000, np.uint32)
    ties = (np.random.default_rng(1).integers(0, 1 << 16, 2000, np.uint32) << np.uint32(16)) | np.uint32(0x8000)
    edges = np.array([0, 1 << 31, 0x7F800000, 0xFF800000, 0x7F7FFFFF, 0x7F7F8000, 0x7F7F7FFF, 1, 0x8000], np.uint32)
    numbers = np.concatenate([random, ties, ties - 1, ties + 1, edges]).view(np.float32)
    numbers = numbers[~np.isnan(numbers)]
    ours = np.array([narrow(number) for number in numbers], np.uint16)
    assert np.array_equal(ours, bits_of(numbers))


def tile(inputs: npt.NDArray[np.uint16], panels: npt.NDArray[np.int32], stride: int) -> npt.NDArray[np.float32]:
    """Sums [rows, WIDTH] of rows that lie ``stride`` pairs apart."""
    sums = np.full((TILE_ROWS + 1, WIDTH), 7.0, np.float32)
    rows = len(inputs)
    where = panels.ctypes.data
    dot(rows, inputs.ctypes.data, stride, where, panels.shape[1], sums.ctypes.data, WIDTH, 0)
    assert (sums[rows:] == 7.0).all(), "nothing is written behind the last row"
    return sums[:rows].copy()


@pytest.fixture(params=[1, 16, 288], ids=lambda pairs: f"{pairs} pairs")
def operands(request: pytest.FixtureRequest) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint16]]:
    """Inputs [TILE_ROWS, K + 6] and weights [WIDTH, K]; the last six columns of the inputs are no part of a row."""
    columns = 2 * int(request.param)
    generator = np.random.default_rng(columns)
    inputs = bits_of(generator.standard_normal((TILE_ROWS, columns + 6), np.float32))
    inputs[:, columns:] = 0x7FC0  # NaN
    return inputs, bits_of(generator.standard_normal((WIDTH, columns), np.float32))


def panels_of(weights: npt.NDArray[np.uint16]) -> npt.NDArray[np.int32]:
    pairs = weights.view(np.int32).reshape(PANELS, LANES, -1)
    return np.ascontiguousarray(pairs.transpose(0, 2, 1))


def test_a_tile_is_the_product_in_float64(
    operands: tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint16]],
) -> None:
    """Within the error of a chain of fp32 additions, far below a bfloat16's own."""
    inputs, weights = operands
    columns = weights.shape[1]
    x, w = ((bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64) for bits in (inputs, weights))
    bound = columns * 2.0**-23 * (np.abs(x[:, :columns]) @ np.abs(w).T)
    ours = tile(inputs, panels_of(weights), inputs.shape[1] // 2)
    assert (np.abs(ours - x[:, :columns] @ w.T) <= bound).all()


def test_a_rows_sums_have_the_same_bits_in_every_group_of_rows(
    operands: tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint16]],
) -> None:
    """Every run of 1 to 8 neighbouring rows, from every first row."""
    inputs, weights = operands
    panels, stride = panels_of(weights), inputs.shape[1] // 2
    whole = tile(inputs, panels, stride).view(np.uint32)
    for first in range(TILE_ROWS):
        for last in range(first + 1, TILE_ROWS + 1):
            part = tile(inputs[first:last], panels, stride).view(np.uint32)
            assert np.array_equal(part, whole[first:last]), f"rows {first} to {last - 1}"

"""A draft's vocabulary is read from its file, or refused with the file's name."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outrider.inference.head import head_ids
from outrider.replica_config import DraftConfig, ReplicaConfig


def test_a_head_is_cut_to_the_tokens_of_the_file_once_each_in_order(tmp_path: Path) -> None:
    file = tmp_path / "ids.npy"
    np.save(file, np.array([7, 3, 7, 0], np.uint16))
    assert head_ids(DraftConfig("m", draft_vocab=str(file)), "m") == (0, 3, 7)


def test_a_folder_may_bring_its_own_file(tmp_path: Path) -> None:
    """Which a draft takes unless it is told otherwise, and a target never."""
    folder = str(tmp_path)
    assert head_ids(DraftConfig("m"), folder) is None
    np.save(tmp_path / "draft_vocab.npy", np.array([2, 1]))
    assert head_ids(DraftConfig("m"), folder) == (1, 2)
    assert head_ids(DraftConfig("m", draft_vocab="none"), folder) is None
    assert head_ids(ReplicaConfig("m"), folder) is None


@pytest.mark.parametrize(
    "content",
    [np.zeros(3), np.zeros((2, 2), np.int64), np.zeros(0, np.int64), np.array([3, -1]), np.array(5), np.array(["a"])],
    ids=["fractions", "a table", "nothing", "a negative id", "a single number", "text"],
)
def test_a_file_that_is_no_list_of_ids_is_refused_with_its_name(tmp_path: Path, content: Any) -> None:
    file = tmp_path / "ids.npy"
    np.save(file, content)
    with pytest.raises(ValueError, match=r"OUTRIDER_DRAFT_VOCAB=.*ids\.npy.*: must be auto, none or a .npy file"):
        head_ids(DraftConfig("m", draft_vocab=str(file)), "m")


def test_a_file_of_another_kind_is_refused_with_its_name(tmp_path: Path) -> None:
    """Text, nothing, several arrays, and no file at all: the process ends with code 2 for errors of these kinds."""
    file = tmp_path / "ids.npz"
    np.savez(file, ids=np.array([1, 2]))
    with pytest.raises(ValueError, match=r"OUTRIDER_DRAFT_VOCAB=.*ids\.npz"):
        head_ids(DraftConfig("m", draft_vocab=str(file)), "m")
    file = tmp_path / "ids.txt"
    for content in (b"1 2 3", b""):
        file.write_bytes(content)
        with pytest.raises(ValueError, match=r"OUTRIDER_DRAFT_VOCAB=.*ids\.txt"):
            head_ids(DraftConfig("m", draft_vocab=str(file)), "m")
    with pytest.raises(OSError, match=r"none\.npy"):
        head_ids(DraftConfig("m", draft_vocab=str(tmp_path / "none.npy")), "m")

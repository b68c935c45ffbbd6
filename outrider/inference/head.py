"""The tokens that a draft's head is cut to. A file says which; the text of an answer does not depend on it.

It knows files of ids, not models: ids that a model does not have are refused where the head is cut.
"""

from pathlib import Path

import numpy as np

from outrider.replica_config import DraftConfig, ReplicaConfig

FILE = "draft_vocab.npy"
"""What ``auto`` looks for in a model's folder."""


def head_ids(config: ReplicaConfig, folder: str) -> tuple[int, ...] | None:
    """Ids in order, or None for all. Raises ValueError for a file that holds none, OSError for no file."""
    path = _path(config, folder)
    if path is None:
        return None
    refusal = f"OUTRIDER_DRAFT_VOCAB={str(path)!r}: must be auto, none or a .npy file with a list of token ids"
    try:
        ids = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(refusal) from error
    if not isinstance(ids, np.ndarray) or ids.ndim != 1 or not np.issubdtype(ids.dtype, np.integer):
        raise ValueError(refusal)
    if len(ids) == 0 or ids.min() < 0:
        raise ValueError(refusal)
    return tuple(int(token) for token in np.unique(ids))


def _path(config: ReplicaConfig, folder: str) -> Path | None:
    """The file that a configuration means; a target has none."""
    choice = config.draft_vocab if isinstance(config, DraftConfig) else "none"
    if choice != "auto":
        return None if choice in ("none", "") else Path(choice)
    found = Path(folder) / FILE
    return found if found.is_file() else None

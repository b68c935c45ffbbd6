"""``python -m bench.speculating.slow_draft``: the draft service, each of whose passes takes 200 ms longer.

A draft token is a pass, so it stands for a draft that is far too slow: on a busy machine, or far too large.
"""

import os
import sys
import time
from unittest.mock import patch

import torch

from draft_service.__main__ import run
from outrider.inference import replica
from outrider.inference.model import ModelRunner
from outrider.inference.packed import PackedPass

_PASS_S = 0.2


class SlowRunner(ModelRunner):
    """The same logits, later."""

    def forward(self, plan: PackedPass) -> torch.Tensor:
        """Wait, then run the pass."""
        time.sleep(_PASS_S)
        return super().forward(plan)


if __name__ == "__main__":
    with patch.object(replica, "ModelRunner", SlowRunner):
        sys.exit(run(os.environ))

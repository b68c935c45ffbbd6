"""Looks at a freshly loaded model: what each attention layer stores, and whether its cache can be cut back.

One tiny pass with a recording attention function tells it for any architecture, without knowing the names
in its configuration. A model that keeps a running state (SSM, linear attention, hybrids) cannot be rolled
back to an earlier length and is refused here, by name.
"""

from collections.abc import Callable
from typing import Any

import torch

from outrider.errors import IncompatibleReplica
from outrider.inference.kv_store import LayerShape

_UNSUPPORTED = {
    "s_aux": "attention sinks",
    "softcap": "soft-capped attention scores",
    "position_bias": "a position bias",
}


class _Recorder:
    def __init__(self) -> None:
        self.layers: dict[int, LayerShape] = {}
        self.unsupported: set[str] = set()

    def __call__(self, module: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: Any, **kwargs: Any) -> Any:
        self.unsupported |= {what for name, what in _UNSUPPORTED.items() if kwargs.get(name) is not None}
        if k.shape != v.shape or k.shape[-1] != q.shape[-1]:
            self.unsupported.add("keys and values of different sizes")
        window = kwargs.get("sliding_window") or 0
        self.layers[module.layer_idx] = LayerShape(int(k.shape[1]), int(k.shape[3]), int(window))
        return q.transpose(1, 2).contiguous(), None


def _refuse_changing_positions(config: Any, model_id: str) -> None:
    """Rotary factors that follow the longest position of a pass would let one session change another's bits."""
    rope = getattr(config, "rope_parameters", None) or {}
    kinds = {str(part.get("rope_type")) for part in (rope, *rope.values()) if isinstance(part, dict)}
    changing = kinds & {"longrope", "dynamic"}
    if changing:
        raise IncompatibleReplica(
            f"model {model_id!r} of type {config.model_type!r} uses {changing.pop()} rotary positions, whose factors "
            "depend on the longest session in a pass; this is not supported"
        )


def attention_layers(model: Any, model_id: str, register: Callable[[Any], None]) -> list[LayerShape]:
    """Shapes of the model's attention layers in order. ``register`` installs the function that it calls.

    Raises IncompatibleReplica when some layer is no plain attention over keys and values.
    """
    config = model.config.get_text_config()
    _refuse_changing_positions(config, model_id)
    expected = int(config.num_hidden_layers)
    recorder = _Recorder()
    register(recorder)
    ids = torch.zeros(1, 2, dtype=torch.long, device=model.device)
    positions = torch.arange(2, device=model.device)[None]
    model(input_ids=ids, position_ids=positions, use_cache=False)
    if sorted(recorder.layers) != list(range(expected)):
        raise IncompatibleReplica(
            f"model {model_id!r} of type {config.model_type!r}: {len(recorder.layers)} of its {expected} layers are "
            "attention over keys and values; a running state cannot be cut back to an earlier length"
        )
    if recorder.unsupported:
        raise IncompatibleReplica(
            f"model {model_id!r} of type {config.model_type!r} needs {', '.join(sorted(recorder.unsupported))}, "
            "which is not supported"
        )
    return [recorder.layers[index] for index in range(expected)]

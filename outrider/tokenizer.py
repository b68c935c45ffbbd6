"""A model's tokenizer: ids, text, chat template, and the fingerprint that two models must share.

It reads the files of a model folder with the ``tokenizers`` library and needs neither torch nor transformers.
It does not know sessions or streaming (``orchestrator/text.py``).
"""

import datetime
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer as FastTokenizer

from outrider.errors import InvalidArgument

Message = Mapping[str, str]


def fingerprint(vocabulary: Mapping[str, int]) -> str:
    """Hash of the (id, token) pairs. Padded rows of an embedding table are no tokens and do not count."""
    digest = hashlib.sha256()
    for token, number in sorted(vocabulary.items(), key=lambda item: item[1]):
        digest.update(f"{number}:{token}\n".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:32]


def _special_texts(config: Mapping[str, Any]) -> dict[str, str]:
    """Texts of bos_token, eos_token and so on, which templates use."""
    texts = {}
    for name, value in config.items():
        if name.endswith("_token") and value is not None:
            texts[name] = value["content"] if isinstance(value, dict) else value
    return {name: text for name, text in texts.items() if isinstance(text, str)}


def _read_template(folder: Path, config: Mapping[str, Any]) -> str | None:
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text()
    template = config.get("chat_template")
    if isinstance(template, list):
        template = next((entry["template"] for entry in template if entry["name"] == "default"), None)
    return template


def _refuse(message: str) -> None:
    raise InvalidArgument("chat", message)


def _compile(template: str) -> jinja2.Template:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    environment.filters["tojson"] = lambda value, **options: json.dumps(value, ensure_ascii=False, **options)
    return environment.from_string(template)


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """Text to ids and back. Thread-safe: no call changes the underlying tokenizer."""

    fast: FastTokenizer
    vocab_size: int
    fingerprint: str
    template: jinja2.Template | None
    special_texts: Mapping[str, str]

    @classmethod
    def load(cls, folder: str) -> "Tokenizer":
        """Read tokenizer.json and its neighbours. Raises FileNotFoundError naming the missing file."""
        path = Path(folder)
        file = path / "tokenizer.json"
        if not file.is_file():
            raise FileNotFoundError(f"{file} is missing; name a model folder that has one")
        fast = FastTokenizer.from_file(str(file))
        fast.no_truncation()
        fast.no_padding()
        config_file = path / "tokenizer_config.json"
        config = json.loads(config_file.read_text()) if config_file.is_file() else {}
        vocabulary = fast.get_vocab(with_added_tokens=True)
        template = _read_template(path, config)
        return cls(
            fast=fast,
            vocab_size=max(vocabulary.values()) + 1,
            fingerprint=fingerprint(vocabulary),
            template=_compile(template) if template else None,
            special_texts=_special_texts(config),
        )

    def encode(self, text: str, special: bool) -> list[int]:
        """Ids of a text; ``special`` lets the tokenizer add its own (such as BOS)."""
        return list(self.fast.encode(text, add_special_tokens=special).ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids without special tokens; incomplete characters become U+FFFD."""
        return str(self.fast.decode(list(ids), skip_special_tokens=True))

    def render_chat(self, messages: Sequence[Message]) -> list[int]:
        """Ids of a conversation up to where the assistant speaks. The template writes all special tokens itself.

        Raises InvalidArgument when the model has no template or the template refuses the messages.
        """
        if self.template is None:
            raise InvalidArgument("chat", "this model has no chat template; send a prompt or token ids")
        try:
            text = self.template.render(messages=messages, add_generation_prompt=True, **self.special_texts)
        except jinja2.TemplateError as error:
            raise InvalidArgument("chat", f"the model's chat template refuses these messages: {error}") from None
        return self.encode(text, special=False)

"""A tokenizer from a folder: fingerprint, text and ids, chat templates and their refusals."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.errors import InvalidArgument
from outrider.tokenizer import Tokenizer, fingerprint
from tests.unit.byte_tokenizers import SPECIAL, byte_level, save

HI = [{"role": "user", "content": "hi"}]


def loaded(tmp_path: Path, template: str = "", config: dict[str, object] | None = None) -> Tokenizer:
    return Tokenizer.load(save(byte_level(), tmp_path, config, template))


def rendered(tmp_path: Path, template: str, config: dict[str, object] | None = None) -> str:
    tokenizer = loaded(tmp_path, template, config)
    return "".join(tokenizer.fast.decode([token], skip_special_tokens=False) for token in tokenizer.render_chat(HI))


def test_a_missing_folder_names_the_file_and_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"tokenizer\.json is missing.*name a model folder"):
        Tokenizer.load(str(tmp_path / "nowhere"))


def test_the_fingerprint_ignores_the_order_of_the_mapping() -> None:
    assert fingerprint({"a": 0, "b": 1}) == fingerprint({"b": 1, "a": 0})


def test_swapped_ids_have_another_fingerprint() -> None:
    assert fingerprint({"a": 0, "b": 1}) != fingerprint({"a": 1, "b": 0})


def test_an_added_token_changes_the_fingerprint() -> None:
    assert fingerprint({"a": 0}) != fingerprint({"a": 0, "b": 1})


def test_padding_of_the_embedding_table_is_not_part_of_the_fingerprint(tmp_path: Path) -> None:
    """Two models of a family with tables of different sizes ship the same tokenizer."""
    one = loaded(tmp_path / "a", config={"model_max_length": 10})
    two = loaded(tmp_path / "b", config={"model_max_length": 20, "padded_vocab_size": 49280})
    assert one.fingerprint == two.fingerprint


def test_the_fingerprint_is_pinned() -> None:
    """Replicas of different builds compare it."""
    assert fingerprint({"a": 0, "b": 1}) == "45e51abf5e17e7c6918664aea32a4ae4"


def test_vocab_size_counts_special_tokens(tmp_path: Path) -> None:
    tokenizer = loaded(tmp_path)
    assert tokenizer.vocab_size == 263
    assert tokenizer.encode(SPECIAL, special=False) == [262]


@given(st.text(max_size=30))
def test_text_survives_the_round_trip(text: str) -> None:
    fast = byte_level()
    tokenizer = Tokenizer(fast, 263, "", None, {})
    assert tokenizer.decode(tokenizer.encode(text, special=False)) == text.replace(SPECIAL, "")


def test_decoding_leaves_special_tokens_out(tmp_path: Path) -> None:
    tokenizer = loaded(tmp_path)
    assert tokenizer.decode([104, 262, 105]) == "hi"
    assert tokenizer.fast.decode([262], skip_special_tokens=False) == SPECIAL


def test_truncation_and_padding_of_the_file_are_switched_off(tmp_path: Path) -> None:
    fast = byte_level()
    fast.enable_truncation(2)
    fast.enable_padding(length=10)
    tokenizer = Tokenizer.load(save(fast, tmp_path))
    assert tokenizer.decode(tokenizer.encode("abcdef", special=False)) == "abcdef"


def test_a_chat_is_rendered_up_to_where_the_assistant_speaks(tmp_path: Path) -> None:
    template = "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}{% endfor %}"
    template += "{% if add_generation_prompt %}[assistant]{% endif %}"
    assert rendered(tmp_path, template) == "[user]hi[assistant]"


@pytest.mark.parametrize("eos", [SPECIAL, {"content": SPECIAL, "lstrip": False}])
def test_templates_know_the_special_tokens(tmp_path: Path, eos: object) -> None:
    config = {"eos_token": eos, "pad_token": None}
    assert rendered(tmp_path, "{{ messages[0].content }}{{ eos_token }}", config) == f"hi{SPECIAL}"


def test_the_template_of_the_configuration_is_used_without_a_file(tmp_path: Path) -> None:
    config: dict[str, object] = {"chat_template": "A{{ messages[0].content }}"}
    assert rendered(tmp_path, "", config) == "Ahi"


def test_of_several_templates_the_default_is_used(tmp_path: Path) -> None:
    templates = [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]
    assert rendered(tmp_path, "", {"chat_template": templates}) == "D"


def test_the_file_wins_over_the_configuration(tmp_path: Path) -> None:
    assert rendered(tmp_path, "F", {"chat_template": "C"}) == "F"


def test_blocks_of_a_template_leave_no_whitespace(tmp_path: Path) -> None:
    assert rendered(tmp_path, "  {% if true %}\nx\n  {% endif %}\n") == "x\n"


def test_templates_may_use_tojson_and_the_date(tmp_path: Path) -> None:
    text = rendered(tmp_path, "{{ messages | tojson }}{{ strftime_now('%Y') }}")
    assert text.startswith('[{"role": "user", "content": "hi"}]2')


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{{ missing.attribute }}", "refuses these messages"),
        ("{{ messages.append(1) }}", "refuses these messages"),
        ("{{ ().__class__.__bases__ }}", "refuses these messages"),
    ],
)
def test_a_template_that_refuses_or_misbehaves_is_an_invalid_argument(
    tmp_path: Path, template: str, words: str
) -> None:
    with pytest.raises(InvalidArgument, match=words) as caught:
        loaded(tmp_path, template).render_chat(HI)
    assert caught.value.field == "chat"


def test_a_model_without_a_template_refuses_chats(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="no chat template") as caught:
        loaded(tmp_path).render_chat(HI)
    assert caught.value.field == "chat"

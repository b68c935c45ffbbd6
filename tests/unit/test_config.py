"""Settings come from variables, within bounds, and an error names the variable and its value."""

import dataclasses

import pytest

from orchestrator.config import OrchestratorConfig, parse_addresses
from outrider.config import ConfigError, load, parse_bytes, setting
from outrider.replica_config import DraftConfig, ReplicaConfig

MODEL = {"OUTRIDER_MODEL": "folder"}


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1073741824", 2**30),
        ("512MiB", 512 * 2**20),
        ("1G", 2**30),
        ("2GiB", 2**31),
        ("3 kb", 3 * 2**10),
        (" 7 ", 7),
        ("1T", 2**40),
        ("9B", 9),
    ],
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "-1", "1.5G", "1e9", "G", "10 PB", "1 GG", "0x10", "nan"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a size such as"):
        parse_bytes(text)


def test_unset_variables_keep_their_defaults() -> None:
    config = load(ReplicaConfig, MODEL)
    assert config == ReplicaConfig("folder")


def test_every_kind_of_variable_is_read() -> None:
    config = load(
        ReplicaConfig,
        {
            **MODEL,
            "OUTRIDER_DTYPE": "float32",
            "OUTRIDER_KV_BYTES": "64MiB",
            "OUTRIDER_SESSION_TTL_S": "1.5",
            "OUTRIDER_MAX_ROWS": "128",
            "OUTRIDER_TRUST_REMOTE_CODE": "TRUE",
        },
    )
    assert (config.model, config.dtype, config.kv_bytes) == ("folder", "float32", 64 * 2**20)
    assert (config.session_ttl_s, config.max_rows, config.trust_remote_code) == (1.5, 128, True)


def test_other_variables_are_not_looked_at() -> None:
    assert load(ReplicaConfig, {**MODEL, "OUTRIDER_NOISE": "x", "MAX_ROWS": "1"}) == ReplicaConfig("folder")


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("OUTRIDER_DTYPE", "int8", "must be one of bfloat16, float32, float16"),
        ("OUTRIDER_COMPILE", "yes", "must be one of off, auto, on"),
        ("OUTRIDER_KV_BYTES", "lots", "must be auto or a size"),
        ("OUTRIDER_SESSION_TTL_S", "soon", "must be a number"),
        ("OUTRIDER_SESSION_TTL_S", "0", "must be at least 0.1"),
        ("OUTRIDER_SESSION_TTL_S", "nan", "must be a number"),
        ("OUTRIDER_MAX_DRAFT_TOKENS", "0", "must be at least 1"),
        ("OUTRIDER_MAX_DRAFT_TOKENS", "65", "must be at most 64"),
        ("OUTRIDER_MAX_DRAFT_TOKENS", "2.5", "must be a whole number"),
        ("OUTRIDER_MAX_ROWS", "", "must be a whole number"),
        ("OUTRIDER_THREADS", "-1", "must be at least 0"),
        ("OUTRIDER_TRUST_REMOTE_CODE", "maybe", "must be true or false"),
    ],
)
def test_a_bad_value_is_refused_with_its_variable_and_itself(variable: str, value: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        load(ReplicaConfig, {**MODEL, variable: value})
    assert str(caught.value).startswith(f"{variable}=")
    assert value in str(caught.value)


@pytest.mark.parametrize(("kind", "needed"), [(ReplicaConfig, "model"), (OrchestratorConfig, "tokenizer")])
def test_a_missing_variable_without_a_default_is_named(kind: type, needed: str) -> None:
    with pytest.raises(ConfigError, match=f"OUTRIDER_{needed.upper()} is not set"):
        load(kind, {})


@pytest.mark.parametrize(("kind", "needed"), [(ReplicaConfig, "model"), (OrchestratorConfig, "tokenizer")])
def test_defaults_are_within_their_own_bounds(kind: type, needed: str) -> None:
    """Each default, written as a variable, gives the same configuration."""
    default = kind("x")
    written = {
        f"OUTRIDER_{field.name.upper()}": str(getattr(default, field.name)) for field in dataclasses.fields(kind)
    }
    assert written[f"OUTRIDER_{needed.upper()}"] == "x"
    assert load(kind, written) == default


def test_a_block_that_no_pass_could_hold_is_refused() -> None:
    """64 draft tokens need 65 rows of one pass."""
    with pytest.raises(ConfigError, match="OUTRIDER_MAX_DRAFT_TOKENS=64: must be below OUTRIDER_MAX_ROWS=64"):
        load(ReplicaConfig, {**MODEL, "OUTRIDER_MAX_DRAFT_TOKENS": "64", "OUTRIDER_MAX_ROWS": "64"})


def test_both_ends_of_bounds_are_allowed() -> None:
    @dataclasses.dataclass(frozen=True)
    class Small:
        size: int = setting(2, least=1, most=3)

    assert [load(Small, {"OUTRIDER_SIZE": text}).size for text in ("1", "3")] == [1, 3]


def test_configurations_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        ReplicaConfig("folder").model = "other"  # type: ignore[misc]


def test_the_kv_budget_is_a_size_or_auto_and_auto_by_default() -> None:
    for text, size in (("auto", 0), (" AUTO ", 0), ("2GiB", 2 << 30)):
        assert load(ReplicaConfig, {"OUTRIDER_MODEL": "m", "OUTRIDER_KV_BYTES": text}).kv_bytes == size
    assert load(ReplicaConfig, {"OUTRIDER_MODEL": "m"}).kv_bytes == 0


@pytest.mark.parametrize("choice", ["off", "auto", "on"])
def test_the_compiled_pass_is_a_choice_of_three(choice: str) -> None:
    assert load(ReplicaConfig, {**MODEL, "OUTRIDER_COMPILE": choice}).compile == choice


def test_a_draft_has_every_setting_of_a_replica_and_its_vocabulary() -> None:
    """The cut of the head is a draft's own: a target that is given one does not look at it."""
    given = {**MODEL, "OUTRIDER_DRAFT_VOCAB": "ids.npy", "OUTRIDER_THREADS": "2"}
    draft, target = load(DraftConfig, given), load(ReplicaConfig, given)
    assert (draft.draft_vocab, draft.threads) == ("ids.npy", 2)
    assert target == ReplicaConfig("folder", threads=2)
    assert load(DraftConfig, MODEL).draft_vocab == "auto"


def test_addresses_are_separated_by_commas() -> None:
    assert parse_addresses("X", "a:1, b:2") == ("a:1", "b:2")
    assert parse_addresses("X", " ") == ()
    for wrong in ("a:1,,b:2", "a:1,a:1", ",", "a", "dns:///a", ":1", "a:b"):
        with pytest.raises(ConfigError, match="X="):
            parse_addresses("X", wrong)


def test_the_target_is_near_unless_a_registry_says_where() -> None:
    assert OrchestratorConfig("t").targets == ("127.0.0.1:50052",)
    assert OrchestratorConfig("t", registry="redis://host").targets == ()
    assert OrchestratorConfig("t", registry="redis://host", target="a:1").targets == ("a:1",)

"""Who a call is of is said by its key alone; a file that is wrong is refused by place, and no key is ever repeated."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.api_keys import digest_in, digest_of, read_key
from orchestrator.limits import Limits
from orchestrator.tenants import Tenants
from orchestrator.tenants_file import read_tenants
from outrider.config import ConfigError
from outrider.errors import InvalidArgument, OutriderError, Unauthenticated

RED, BLUE = "sk-red-1f8a", "sk-blue-77c0"
FILE = f"""
[limits]
max_answers = 64
tokens_per_s = 0
burst_tokens = 0
[tenants.red]
keys = ["{RED}"]
max_answers = 8
tokens_per_s = 200
[tenants.blue]
keys = ["sha256:{digest_of(BLUE).upper()}", "sk-blue-old"]
"""


def written(folder: Path, text: str) -> str:
    path = folder / "tenants.toml"
    path.write_text(text)
    return str(path)


@pytest.fixture
def tenants(tmp_path: Path) -> Tenants:
    return Tenants.load(written(tmp_path, FILE))


@pytest.mark.parametrize(("key", "tenant"), [(RED, "red"), (BLUE, "blue"), ("sk-blue-old", "blue")])
def test_a_key_says_whose_a_call_is(tenants: Tenants, key: str, tenant: str) -> None:
    assert tenants.tenant_of(f"Bearer {key}", "") == tenant
    assert tenants.tenant_of(f"bearer  {key} ", tenant) == tenant


@pytest.mark.parametrize(
    "authorization",
    [
        *("", "Bearer", "Bearer ", f"Basic {RED}", RED, f"Bearer{RED}", f"Bearer {RED}x", "Bearer two words"),
        *(f"Bearer {digest_of(BLUE)}", f"Bearer sha256:{digest_of(BLUE)}", "Bearer \u00fcber", f"{RED}\nBearer {RED}"),
    ],
)
def test_without_a_known_key_nobody_is_believed(tenants: Tenants, authorization: str) -> None:
    for claimed in ("", "red", "nobody"):
        with pytest.raises(Unauthenticated, match="authorization") as caught:
            tenants.tenant_of(authorization, claimed)
        secrets = [word for word in authorization.split() if word.lower() != "bearer"]
        assert not any(word in caught.value.message for word in secrets)


@pytest.mark.parametrize("claimed", ["blue", "RED", "red ", "x" * 10_000])
def test_a_key_is_for_its_own_tenant_only(tenants: Tenants, claimed: str) -> None:
    with pytest.raises(InvalidArgument, match="must be empty or 'red'") as caught:
        tenants.tenant_of(f"Bearer {RED}", claimed)
    assert caught.value.field == "tenant"
    assert RED not in caught.value.message


def test_limits_are_the_tenants_own_and_everybodys_where_it_says_nothing(tenants: Tenants) -> None:
    assert tenants.limits_of("red") == Limits(8, 200)
    assert tenants.limits_of("blue") == tenants.limits_of("stranger") == Limits(64)


def test_a_limit_may_be_lifted_for_one_tenant(tmp_path: Path) -> None:
    text = "[limits]\nmax_answers = 2\ntokens_per_s = 10\nburst_tokens = 50\n[tenants.red]\nmax_answers = 0"
    tenants = Tenants.load(written(tmp_path, text))
    assert tenants.limits_of("red") == Limits(0, 10, 50)
    assert tenants.limits_of("") == Limits(2, 10, 50)


@pytest.mark.parametrize("text", [None, "", "[limits]\nmax_answers = 3", "[tenants.red]\nmax_answers = 3"])
def test_where_nobody_has_a_key_calls_are_believed(tmp_path: Path, text: str | None) -> None:
    tenants = Tenants.none() if text is None else Tenants.load(written(tmp_path, text))
    assert tenants.tenant_of("", "") == ""
    assert tenants.tenant_of("Bearer whatever", "red") == "red"
    with pytest.raises(InvalidArgument, match="tenant"):
        tenants.tenant_of("", "no spaces")


def test_without_a_file_nothing_is_limited() -> None:
    assert Tenants.none().limits_of("red") == Limits()


def test_taking_away_the_last_key_does_not_open_the_door(tmp_path: Path) -> None:
    tenants = Tenants.load(written(tmp_path, "[tenants.red]\nkeys = []"))
    with pytest.raises(Unauthenticated):
        tenants.tenant_of("", "red")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[limit]", "limit: is not known; known are limits, tenants"),
        ("max_answers = 1", "max_answers: is not known"),
        ("limits = 3", "limits: must be a table"),
        ("tenants = []", "tenants: must be a table"),
        ("[tenants]\nred = 3", "tenants.red: must be a table"),
        ("[[tenants.red]]", "tenants.red: must be a table"),
        ("[limits]\nkeys = []", "limits.keys: is not known"),
        ("[limits]\nmax_answer = 1", "limits.max_answer: is not known; known are max_answers, tokens_per_s"),
        ("[limits]\nmax_answers = -1", "limits.max_answers: must be a whole number from 0"),
        ("[limits]\nmax_answers = 1.0", "limits.max_answers: must be a whole number"),
        ("[limits]\nmax_answers = true", "limits.max_answers: must be a whole number"),
        ("[limits]\nmax_answers = 1000000001", "limits.max_answers: must be a whole number"),
        ("[tenants.red]\ntokens_per_s = nan", "tenants.red.tokens_per_s: must be 0 or a number from 0.01"),
        ("[tenants.red]\ntokens_per_s = inf", "tenants.red.tokens_per_s: must be 0 or a number"),
        ("[tenants.red]\ntokens_per_s = 0.001", "tenants.red.tokens_per_s: must be 0 or a number"),
        (f"[tenants.red]\ntokens_per_s = '{RED}'", "tenants.red.tokens_per_s: must be 0 or a number"),
        ("[tenants.red]\nburst_tokens = -0.5", "tenants.red.burst_tokens: must be a number from 0"),
        ("[tenants.red]\nburst_tokens = 5", "tenants.red.burst_tokens: needs tokens_per_s"),
        (f"[tenants.red]\nkeys = '{RED}'", "tenants.red.keys: must be a list of strings"),
        (f"[tenants.red]\nkeys = ['{RED}', 3]", "tenants.red.keys: must be a list of strings"),
        (f"[tenants.red]\nkey = ['{RED}']", "tenants.red.key: is not known"),
        (f"[tenants.red]\nkeys = ['ok', '{RED} {RED}']", r"tenants.red.keys\[1\]: must be 1 to 512 printable"),
        ("[tenants.red]\nkeys = ['']", r"tenants.red.keys\[0\]: must be 1 to 512"),
        ("[tenants.red]\nkeys = ['sha256:12']", r"tenants.red.keys\[0\]: must be .* or sha256: and 64 hex"),
        (f"[tenants.red]\nkeys = ['{RED}', '{RED}']", r"tenants.red.keys\[1\]: is tenants.red.keys\[0\] too"),
        (
            f"[tenants.red]\nkeys = ['{RED}']\n[tenants.blue]\nkeys = ['a', 'sha256:{digest_of(RED)}']",
            r"tenants.blue.keys\[1\]: is tenants.red.keys\[0\] too",
        ),
        ("[tenants.'no spaces']", "tenants.no spaces: tenant: must be at most 64 letters"),
        (f"[tenants.{'x' * 65}]", "tenant: must be at most 64 letters"),
        ("[tenants.red\nx = 1", "is not TOML: .*line 1"),
        ("\x00", "is not TOML"),
    ],
)
def test_what_is_wrong_is_named_by_file_table_and_key_without_its_value(tmp_path: Path, text: str, words: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError, match=words) as caught:
        Tenants.load(path)
    assert str(caught.value).startswith(f"OUTRIDER_TENANTS={path}: ")
    assert RED not in str(caught.value)


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    for path, why in ((tmp_path / "none.toml", "No such file"), (tmp_path, "directory")):
        with pytest.raises(ConfigError, match=why):
            Tenants.load(str(path))
    junk = tmp_path / "junk.toml"
    junk.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="is not TOML"):
        Tenants.load(str(junk))


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=512))
def test_every_key_that_a_file_may_have_can_be_carried_by_a_call(key: str) -> None:
    if not key.startswith("sha256:"):
        assert read_key(key) == digest_in(f"Bearer {key}") == digest_of(key)


@settings(max_examples=300)
@given(st.text(max_size=60), st.text(max_size=60))
def test_whatever_a_call_says_it_gets_a_tenant_or_a_status(authorization: str, claimed: str) -> None:
    for keys in (None, {digest_of(RED): "red"}):
        try:
            assert Tenants(Limits(), {}, keys).tenant_of(authorization, claimed) in (claimed, "red")
        except OutriderError as error:
            assert isinstance(error, InvalidArgument | Unauthenticated)


WORDS = st.sampled_from(["limits", "tenants", "keys", "max_answers", "tokens_per_s", "burst_tokens", "red", "'a b'"])
VALUES = st.sampled_from(["1", "-1", "0.5", "nan", "true", "'x'", "['x', 'y']", "[['x']]", "{}", "1979-05-27"])
LINES = st.one_of(
    st.builds("[{}]".format, WORDS),
    st.builds("[{}.{}]".format, WORDS, WORDS),
    st.builds("{} = {}".format, WORDS, VALUES),
)


@settings(max_examples=500)
@given(lines=st.lists(LINES, max_size=6))
def test_any_file_is_read_or_refused(lines: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_text("\n".join(lines))
    try:
        file = read_tenants(str(path))
    except ConfigError:
        return
    assert set((file.keys or {}).values()) <= set(file.own)

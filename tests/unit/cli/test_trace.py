"""``outrider trace`` lists requests, draws one, reads files in every form, and names what is wrong in its arguments."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from outrider import semconv
from outrider.cli.lanes import requests_of
from outrider.cli.main import app
from outrider.cli.trace import Wish, fetch_trace, list_requests, parse_rounds, save_trace
from outrider.errors import InvalidArgument, OutriderError, Unavailable
from tests.unit.cli.looked_at import LookedAt, looked_at
from tests.unit.cli.traces import Trace, otlp, two_rounds

ONE = two_rounds(trace_id="1" * 32, session_id="abcd" + "0" * 28)
TWO = two_rounds(trace_id="2" * 32, session_id="abce" + "0" * 28, came_us=1_000_000)


def trace(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "160"}).invoke(app, ["trace", *arguments])


def saved(folder: Path, text: str, name: str = "traces.json") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def long(rounds: int) -> Trace:
    grown = Trace()
    root = grown.request(rounds * 10)
    for number in range(rounds):
        grown.round(root, number * 2, number * 10, number * 10 + 10)  # numbers may have gaps
    return grown


def test_a_file_is_drawn_without_control_codes(tmp_path: Path) -> None:
    done = trace(saved(tmp_path, otlp(ONE.spans)))
    assert done.exit_code == 0
    assert "1 of 2 draft tokens accepted (50%)" in done.stdout and " fox[- ran-] is" in done.stdout
    assert "\x1b" not in done.output


@pytest.mark.parametrize("form", ["object", "list", "lines"])
def test_of_several_requests_in_a_file_it_is_the_last_one_or_the_one_that_is_named(tmp_path: Path, form: str) -> None:
    both = [otlp(TWO.spans), otlp(ONE.spans)]
    forms = {"object": otlp([*TWO.spans, *ONE.spans]), "list": f"[{','.join(both)}]", "lines": "\n".join(both) + "\n"}
    path = saved(tmp_path, forms[form])
    last = trace(path)
    assert TWO.trace_id in last.stdout and ONE.trace_id not in last.stdout
    assert "2 requests; this is the last one" in last.stderr
    for name in (ONE.trace_id, ONE.session_id):
        named = trace(path, "--trace", name)
        assert ONE.trace_id in named.stdout and TWO.trace_id not in named.stdout
    assert trace(path, "--trace", "nobody").exit_code == 2


def test_rounds_are_chosen_by_number_or_from_the_end(tmp_path: Path) -> None:
    path = saved(tmp_path, otlp(long(30).spans))
    some = [each["round"] for each in json.loads(trace(path, "--rounds", "4-9", "--json").stdout)["rounds"]]
    last = [each["round"] for each in json.loads(trace(path, "--last", "2", "--json").stdout)["rounds"]]
    assert (some, last) == ([4, 6, 8], [56, 58])
    assert "27 of 30 rounds are not shown" in trace(path, "--rounds", "4-9").stdout
    beyond = trace(path, "--rounds", "100-200")
    assert beyond.exit_code == 2 and "0 to 58" in beyond.stderr


def test_in_a_file_or_a_pipe_all_rounds_are_there_and_a_terminal_gets_as_many_as_fit(tmp_path: Path) -> None:
    done = trace(saved(tmp_path, otlp(long(300).spans)))
    assert "not shown" not in done.stdout and len(done.stdout.splitlines()) > 300
    rounds = requests_of(long(300).spans)[0].rounds
    assert [each.number for each in Wish().of(rounds, 3)] == [0, 2, 4]


def test_as_json_a_request_has_all_its_rounds(tmp_path: Path) -> None:
    told = json.loads(trace(saved(tmp_path, otlp(ONE.spans)), "--json").stdout)
    assert (told["trace_id"], len(told["rounds"]), told["accepted"]) == (ONE.trace_id, 2, 1)


def test_lanes_have_lines_of_their_own_where_that_is_wanted(tmp_path: Path) -> None:
    lines = trace(saved(tmp_path, otlp(ONE.spans)), "--lanes").stdout.splitlines()
    assert sum(line.split()[:1] == ["draft"] for line in lines) == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("no JSON", "neither JSON nor JSON lines"),
        ("[1, 2]", "no OTLP JSON"),
        ('{"resourceSpans": 5}', "no OTLP JSON"),
        ("{}", "no request of Outrider"),
        (otlp([]), "no request of Outrider"),
        (otlp(long(1).spans).replace('"startTimeUnixNano": "', '"startTimeUnixNano": "x'), "int()"),
        ("\x00\x01", "neither JSON nor JSON lines"),
    ],
)
def test_a_file_that_holds_no_request_is_refused_in_words(tmp_path: Path, text: str, words: str) -> None:
    done = trace(saved(tmp_path, text))
    assert done.exit_code == 2
    assert words in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.output


def test_bytes_that_are_no_text_are_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "binary.json"
    path.write_bytes(b"\xff\xfe\x00")
    done = trace(str(path))
    assert done.exit_code == 2 and "UTF-8" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--last", "3"), "--last: needs an ID or a FILE"),
        (("--rounds", "3"), "--rounds: needs an ID or a FILE"),
        (("--lanes",), "--lanes: needs"),
        (("--save", "x.json"), "--save: needs an ID"),
        (("some-id", "--trace", "x"), "--trace: chooses among the requests of a FILE"),
        (("FILE", "--save", "x.json"), "--save: needs an ID"),
        (("FILE", "--rounds", "3", "--last", "2"), "--last: cannot be combined with --rounds"),
        (("FILE", "--rounds", "9-3"), "--rounds: must be a number or two like 8-20"),
        (("missing.json",), "there is no missing.json"),
        (("missing/file",), "there is no missing/file"),
        (("FOLDER",), "is a folder"),
    ],
)
def test_an_option_that_means_nothing_here_is_refused_by_name(
    tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    path = saved(tmp_path, otlp(ONE.spans))
    done = trace(*({"FILE": path, "FOLDER": str(tmp_path)}.get(each, each) for each in arguments))
    assert done.exit_code == 2
    assert words in " ".join(done.stderr.split())


@pytest.mark.parametrize(("text", "rounds"), [("8", (8, 8)), ("0-3", (0, 3))])
def test_rounds_are_a_number_or_two(text: str, rounds: tuple[int, int]) -> None:
    assert parse_rounds(text) == rounds


@pytest.mark.parametrize("text", ["", "-", "3-", "-3", "a-b", "3-2", "1-2-3", "²"])
def test_anything_else_is_no_rounds(text: str) -> None:
    with pytest.raises(InvalidArgument, match="--rounds"):
        parse_rounds(text)


async def test_the_requests_of_all_orchestrators_are_listed_the_last_one_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with looked_at(LookedAt([ONE]), LookedAt([TWO])) as addresses:
        await list_requests(addresses, "", "", as_json=True)
        await list_requests(addresses, "", "", as_json=False)
    first, *lines = capsys.readouterr().out.splitlines()
    told = json.loads(first)
    assert [each["trace_id"] for each in told] == [TWO.trace_id, ONE.trace_id]
    assert [each["orchestrator"] for each in told] == addresses.split(",")[::-1]
    assert lines[0].split()[:5] == ["session", "trace", "when", "outcome", "prompt"]
    assert TWO.session_id in lines[1] and "1/2" in lines[1] and lines[1].split()[-2:] == ["12.0", "50.0"]


async def test_nothing_remembered_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    async with looked_at(LookedAt()) as addresses:
        await list_requests(addresses, "", "", as_json=False)
        await list_requests(addresses, "", "", as_json=True)
    said = capsys.readouterr()
    assert (said.out, said.err) == ("[]\n", "no request is remembered\n")


@pytest.mark.parametrize("name", [ONE.session_id, ONE.trace_id, "abcd", "1111"])
async def test_a_request_is_found_at_whoever_remembers_it_by_an_id_or_its_begin(name: str) -> None:
    async with looked_at(LookedAt([TWO]), LookedAt([ONE])) as addresses:
        assert await fetch_trace(addresses, "", "", name) == otlp(ONE.spans)


@pytest.mark.parametrize(
    ("name", "words"), [("nobody", "of no request"), ("abc", "of no request"), ("abcd", "more of it")]
)
async def test_an_id_of_none_or_of_several_is_refused(name: str, words: str) -> None:
    """Fewer than four characters are nobody's begin."""
    twin = two_rounds(trace_id="3" * 32, session_id="abcd1" + "0" * 27)
    async with looked_at(LookedAt([ONE, TWO, twin])) as addresses:
        with pytest.raises(InvalidArgument, match=words):
            await fetch_trace(addresses, "", "", name)


async def test_of_a_session_s_turns_the_last_one_is_meant() -> None:
    turn = two_rounds(trace_id="4" * 32, session_id=ONE.session_id, came_us=5_000_000)
    async with looked_at(LookedAt([ONE, turn])) as addresses:
        assert await fetch_trace(addresses, "", "", ONE.session_id) == otlp(turn.spans)
        assert await fetch_trace(addresses, "", "", "abcd") == otlp(turn.spans)


async def test_tenant_and_key_are_told() -> None:
    looked = LookedAt([ONE])
    async with looked_at(looked) as addresses:
        await fetch_trace(addresses, "secret", "acme", ONE.session_id)
    assert [request.tenant for request in looked.asked] == ["acme", "acme"]
    assert {each["authorization"] for each in looked.metadata} == {"Bearer secret"}


async def test_an_orchestrator_that_is_away_is_named_and_the_others_answer(capsys: pytest.CaptureFixture[str]) -> None:
    away = LookedAt(error=Unavailable("it drains"))
    async with looked_at(away, LookedAt([ONE])) as addresses:
        assert await fetch_trace(addresses, "", "", ONE.session_id) == otlp(ONE.spans)
    assert f"{away.address} does not answer" in capsys.readouterr().err


@pytest.mark.parametrize("error", [Unavailable("it drains"), OutriderError("broken")])
async def test_with_none_to_ask_the_error_is_theirs(error: OutriderError) -> None:
    async with looked_at(LookedAt(error=error)) as addresses:
        with pytest.raises(type(error), match=error.message):
            await list_requests(addresses, "", "", as_json=False)


async def test_a_trace_larger_than_a_usual_message_comes() -> None:
    large = long(1)
    large.spans[0].attributes[semconv.REQUEST_MODEL] = "m" * (5 * 1024 * 1024)
    async with looked_at(LookedAt([large])) as addresses:
        assert len(await fetch_trace(addresses, "", "", large.session_id)) > 5 * 1024 * 1024


def test_what_was_saved_is_read_again(tmp_path: Path) -> None:
    save_trace(otlp(ONE.spans), tmp_path / "one.json")
    assert ONE.trace_id in trace(str(tmp_path / "one.json")).stdout
    with pytest.raises(InvalidArgument, match="--save"):
        save_trace("", tmp_path)


def test_with_nobody_listening_it_says_how_to_begin() -> None:
    done = trace("--address", "127.0.0.1:1")
    assert done.exit_code == 1 and "outrider up" in done.stderr

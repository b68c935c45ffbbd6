"""Tables and JSON of a hand-made run: two systems, of which one cannot serve four sessions."""

import json

from bench.engine_report import latency_table, memory_table, notes, passes_table, speed_table
from bench.engine_run import Run, SystemFacts, details
from tests.unit.bench.measured import CODE, LONG, measured, window

FACTS = (
    SystemFacts("Outrider", "as it is", (("python", 100), ("python", 50))),
    SystemFacts("Peer", "at its best", (("peer", 300),)),
)
RUN = Run(
    [
        measured("Outrider", window(CODE), 1.0),
        measured("Peer", window(CODE), 2.0),
        measured("Peer", window(LONG), 3.0),
        measured("Outrider", window(LONG), 3.0),
        measured("Outrider", window(CODE, sessions=4), 1.0, 1.0, 1.0, 1.0),
    ],
    FACTS,
)


def rows(text: str) -> list[list[str]]:
    """Cells of a Markdown table, without the rule under the header."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    return [lines[0], *lines[2:]]


def test_speeds_stand_beside_ratios() -> None:
    assert rows(speed_table(RUN)) == [
        ["sessions", "class", "Outrider, tokens/s", "Peer, tokens/s", "Outrider / Peer"],
        ["1", "code", "11.0", "5.5", "2.00x"],
        ["1", "long answer", "7.0", "7.0", "1.00x"],
        ["1", "all", "8.0", "6.4", "1.25x"],
        ["4", "code", "44.0", "not measured", ""],
        ["4", "all", "44.0", "not measured", ""],
    ]


def test_a_ratio_of_several_rounds_shows_its_range() -> None:
    rounds = [(1.0, 2.0), (1.0, 3.0), (1.0, 4.0)]
    windows = [
        measured(name, window(round_number=number), seconds)
        for number, both in enumerate(rounds)
        for name, seconds in zip(("Outrider", "Peer"), both)
    ]
    assert rows(speed_table(Run(windows, FACTS)))[1][-1] == "3.00x (2.00 to 4.00)"


def test_latencies_name_the_number_of_answers() -> None:
    table = rows(latency_table(RUN))
    assert table[1] == ["1", "code", "Outrider", "1", "500 / 500 / 500", "50.0 / 50.0 / 50.0", "1.00 / 1.00 / 1.00"]
    assert table[-1][:4] == ["4", "code", "Outrider", "4"]
    assert len(table) == 1 + 5


def test_memory_is_summed_and_split() -> None:
    assert rows(memory_table(RUN))[1:] == [["Outrider", "150", "python 100, python 50"], ["Peer", "300", "peer 300"]]


def test_notes_name_every_system_and_its_settings() -> None:
    assert "- Peer: at its best." in notes(RUN, "some-model")


def test_passes_are_a_table_of_figures_and_one_by_rows() -> None:
    assert rows(passes_table({"floor": 1.5}))[1] == ["floor", "1.5"]
    grid, figures = passes_table({"milliseconds": {"5": {"ours": 2.5, "floor": 1.0}}, "ratio": 2.5}).split("\n\n")
    assert rows(grid) == [["rows", "ours, ms", "floor, ms"], ["5", "2.5", "1.0"]]
    assert rows(figures)[1] == ["ratio", "2.5"]


def test_the_json_holds_every_cell_window_and_ratio() -> None:
    found = json.loads(json.dumps(details(RUN, {"floor": 1.5})))
    assert found["ratios"]["Peer at 1"] == {"median": 1.25, "least": 1.25, "most": 1.25}
    assert "Peer at 4" not in found["ratios"]
    assert (len(found["cells"]), len(found["windows"])) == (5, 5)
    assert found["passes"] == {"floor": 1.5}
    assert found["cells"][0]["ttft_ms"] == [500.0] * 3

"""The live page in a real browser: it shows what was answered, with keyboard alone, in light and dark, and loads
nothing from anywhere else."""

import contextlib
import json
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Error, async_playwright, expect
from playwright.async_api import Page as Tab

from orchestrator.tenants import Tenants
from tests.integration.test_synthetic import system
from tests.integration.web import Page, page_of
from tests.stack import Farm, Stack, own_stack
from tests.tiny import save_tokenizer
from tests.waiting import eventually

_FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
          "--disable-background-networking", "--disable-component-update")  # fmt: skip
_DONE = "#compare:not([disabled])"
_WAIT_MS = 20_000
PROMPT = "Write three short sentences about foxes."
CONTRASTS = """() => {
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => numbers(colour).slice(0, 3).map((each) => each / 255)
    .map((each) => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4))
    .reduce((sum, each, place) => sum + each * [0.2126, 0.7152, 0.0722][place], 0);
  const ratio = (one, other) => (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
  const style = (element) => getComputedStyle(element);
  const behind = (element) => {
    for (; element; element = element.parentElement) {
      const colour = style(element).backgroundColor;
      if (numbers(colour)[3] !== 0) return colour;
    }
  };
  const found = {}, bands = [...document.querySelectorAll("#lanes .band")].map((band) => style(band).fill);
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!element.getClientRects().length || !walker.currentNode.data.trim()) continue;
    const drawn = element instanceof SVGElement, colour = drawn ? style(element).fill : style(element).color;
    const on = drawn ? [...bands, behind(element)] : [behind(element)];
    const name = element.className.baseVal ?? `${element.localName}.${element.className}`;
    found[name] = Math.min(found[name] ?? 21, ...on.map((each) => ratio(light(colour), light(each))));
  }
  return found;
}"""
"""The least contrast (WCAG 2.2) of the text of each kind of element that can be seen, with what is behind it."""


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    """Headless Chromium."""
    chromium = shutil.which("chromium")
    assert chromium, "chromium is missing; on Debian: apt-get install chromium"
    async with async_playwright() as playwright:
        made = await playwright.chromium.launch(executable_path=chromium, args=list(_FLAGS))
        yield made
        await made.close()


@pytest.fixture
async def stack(farm: Farm, tmp_path: Path) -> AsyncIterator[Stack]:
    """Synthetic replicas whose draft is often right."""
    save_tokenizer(tmp_path)
    async with system(tmp_path, acceptance=0.7) as made:
        yield made


def _is_trouble(message: ConsoleMessage) -> bool:
    """Whether the page has failed. That a request was refused Chromium says as an error by itself."""
    return message.type == "error" and not message.text.startswith("Failed to load resource")


@contextlib.asynccontextmanager
async def tab(browser: Browser, page: Page, **how: Any) -> AsyncIterator[Tab]:
    """The page, open; at the end nothing went wrong in it, and it asked nobody else."""
    context: BrowserContext = await browser.new_context(**how)
    opened = await context.new_page()
    troubles: list[str] = []
    opened.on("pageerror", lambda error: troubles.append(str(error)))
    opened.on("console", lambda message: troubles.append(message.text) if _is_trouble(message) else None)
    ours = (page.base, "blob:")
    opened.on("request", lambda asked: None if asked.url.startswith(ours) else troubles.append(asked.url))
    await opened.goto(page.url)
    try:
        yield opened
    except Error as error:
        raise AssertionError(f"{error}; in the page: {troubles}") from None
    finally:
        await context.close()
    assert not troubles


async def ask(opened: Tab, tokens: int = 24, mode: str = "AUTO", done: str = _DONE) -> None:
    await opened.fill("#prompt", PROMPT)
    await opened.select_option("#kind", "prompt")
    await opened.fill("#max", str(tokens))
    await opened.select_option("#mode", mode)
    await opened.click("#send")
    await opened.wait_for_selector(done, timeout=_WAIT_MS)


async def text_of(opened: Tab) -> str:
    """The answer without what was rejected."""
    parts = await opened.locator("#answer .token:not(.rejected)").all_text_contents()
    return "".join(parts)


async def test_an_answer_is_shown_by_the_fate_of_its_tokens_with_a_lane_for_each_round(
    browser: Browser, stack: Stack
) -> None:
    """The text without what was rejected is the answer's; there are as many rounds as it had."""
    async with page_of(stack) as page, tab(browser, page) as opened:
        await opened.select_option("#kind", "prompt")
        await ask(opened, mode="FIXED")
        plain = await stack.generate(PROMPT, 0, max_new_tokens=24, ignore_eos=False)
        assert await text_of(opened) == plain.text
        (listed,) = [each for each in stack.service.looking.requests("").requests if each.proposed]
        assert await opened.get_attribute("#lanes", "data-rounds") == str(listed.rounds)
        await opened.click("#fit")
        await expect(opened.locator("#lanes g.one")).to_have_count(listed.rounds)
        for fate, count in (("accepted", listed.accepted), ("rejected", listed.proposed - listed.accepted)):
            assert await opened.locator(f"#answer .{fate}").count() == count > 0
            assert await opened.locator(f"#answer .{fate}[title^='{fate}: ']").count() == count
        await opened.uncheck("#rejected")
        assert not await opened.locator("#answer .rejected").first.is_visible()
        assert "complete" in await opened.inner_text("#status")
        assert f"{listed.accepted} / {listed.proposed}" in await opened.inner_text("#figures")
        lines = await opened.locator("#legend .token").evaluate_all(
            "all => all.map(getComputedStyle).map((style) => style.textDecorationLine + style.textDecorationStyle)"
        )
        assert len(set(lines)) == len(lines) == 5, "fates differ by more than colour"


async def test_a_round_that_is_pointed_at_shows_its_numbers_and_its_tokens(browser: Browser, stack: Stack) -> None:
    async with page_of(stack) as page, tab(browser, page) as opened:
        await ask(opened, mode="FIXED")
        await opened.click("#fit")
        await opened.locator("#lanes g.one").nth(2).hover()
        said = await opened.inner_text("#details")
        for words in ("Round 2, serial", "k = 4", "network", "queue", "passes", "rows in the last", "bytes out / in"):
            assert words in said
        marked = await opened.locator("#answer .token.chosen:not(.rejected)").count()
        assert f"{marked} emitted" in said


async def test_lanes_scroll_along_and_draw_only_what_is_in_view(browser: Browser, stack: Stack) -> None:
    async with page_of(stack) as page, tab(browser, page) as opened:
        await ask(opened, tokens=80, mode="OFF", done="#status:has-text('complete')")
        rounds = int(str(await opened.get_attribute("#lanes", "data-rounds")))
        drawn = opened.locator("#lanes g.one")
        await expect(drawn.last).to_have_attribute("aria-label", re.compile(f"^Round {rounds - 1},"))
        assert await drawn.count() < rounds // 2
        await opened.click("#fit")
        await expect(drawn).to_have_count(rounds)
        await opened.click("#all summary")
        await expect(opened.locator("#all tbody tr")).to_have_count(rounds)


async def test_the_same_answer_of_the_target_alone_is_compared_token_by_token(browser: Browser, stack: Stack) -> None:
    """And the first one is in view again."""
    async with page_of(stack) as page, tab(browser, page) as opened:
        await opened.fill("#temperature", "0.8")
        await ask(opened, mode="FIXED")
        before = [await opened.inner_html("#answer"), await opened.inner_text("#figures")]
        await opened.click("#compare")
        await opened.wait_for_selector("#comparison:not(:empty)", timeout=_WAIT_MS)
        assert "tokens are identical" in await opened.inner_text("#comparison")
        assert "times as fast as the target alone" in await opened.inner_text("#comparison")
        assert [await opened.inner_html("#answer"), await opened.inner_text("#figures")] == before
        latest, first = stack.service.looking.requests("").requests
        assert (latest.proposed, latest.completion_tokens) == (0, first.completion_tokens)


async def test_a_saved_trace_opens_again_with_all_its_rounds(browser: Browser, stack: Stack, tmp_path: Path) -> None:
    """As it was saved, as a list, as lines, and dropped; and what was opened can be saved again."""
    async with page_of(stack) as page, tab(browser, page) as opened:
        await ask(opened)
        rounds, text = await opened.get_attribute("#lanes", "data-rounds"), await text_of(opened)
        file = await saved(opened, tmp_path / "trace.json")
        whole = json.loads(file.read_text())
        (tmp_path / "list.json").write_text(json.dumps([whole], indent=1))
        (tmp_path / "lines.jsonl").write_text(f"{json.dumps(whole)}\n\n")
        async with tab(browser, page) as other:
            for name in ("trace.json", "list.json", "lines.jsonl"):
                await other.set_input_files("#open", tmp_path / name)
                await other.wait_for_selector(
                    f"#status:has-text('{name}'):has-text('is open')", timeout=_WAIT_MS, state="attached"
                )
                assert (await other.get_attribute("#lanes", "data-rounds"), await text_of(other)) == (rounds, text)
            again = await saved(other, tmp_path / "again.jsonl")
            assert again.read_text() == (tmp_path / "lines.jsonl").read_text()
            await other.reload()
            await dropped(other, json.dumps(whole))
            await other.wait_for_selector("#status:has-text('is open')", timeout=_WAIT_MS)
            assert await other.get_attribute("#lanes", "data-rounds") == rounds


async def saved(opened: Tab, file: Path) -> Path:
    async with opened.expect_download() as saving:
        await opened.click("#save")
    await (await saving.value).save_as(file)
    return file


async def dropped(opened: Tab, text: str) -> None:
    """As if somebody had dragged it onto the page."""
    carried = await opened.evaluate_handle(
        "text => { const all = new DataTransfer(); all.items.add(new File([text], 'x.json')); return all; }", text
    )
    await opened.dispatch_event("#lanes", "drop", {"dataTransfer": carried})


async def test_of_a_file_with_several_requests_any_can_be_seen(browser: Browser, stack: Stack, tmp_path: Path) -> None:
    async with page_of(stack) as page, tab(browser, page) as opened:
        sizes = [5, 9]
        for size in sizes:
            await stack.generate(PROMPT, 0, max_new_tokens=size)
        traces = [
            await page.get(f"/api/requests/{each.trace_id}") for each in stack.service.looking.requests("").requests
        ]
        (tmp_path / "both.jsonl").write_text("\n".join(each.body for each in traces))
        await opened.set_input_files("#open", tmp_path / "both.jsonl")
        await opened.wait_for_selector("#which", timeout=_WAIT_MS)
        assert await opened.get_attribute("#lanes", "data-rounds") == str(sizes[1])
        await opened.select_option("#which", "0")
        assert await opened.get_attribute("#lanes", "data-rounds") == str(sizes[0])


async def test_a_file_that_is_no_trace_is_refused_in_words(browser: Browser, stack: Stack, tmp_path: Path) -> None:
    cases = {
        "no trace": "neither JSON nor JSON lines",
        "{}": "resourceSpans is missing",
        '{"resourceSpans": []}': "holds no request",
        '{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "generate"}]}]}]}': "is no OTLP JSON",
    }
    async with page_of(stack) as page, tab(browser, page) as opened:
        for text, words in cases.items():
            (tmp_path / "junk.json").write_text(text)
            await opened.set_input_files("#open", tmp_path / "junk.json")
            await expect(opened.locator("#status.error")).to_contain_text(words)


async def test_every_token_has_its_part_of_the_text_whatever_it_says_by_itself(browser: Browser, stack: Stack) -> None:
    """Decoders drop a leading space, characters are split between tokens, stop texts are held back and cut off."""
    cases = [
        (["Hello", " fox"], ["Hello fox"], ["Hello", " fox"]),
        (["Hello", "fox"], ["Hello", " fox"], ["Hello", " fox"]),
        (["\ufffd", "\ufffd", "!"], ["", "é!"], ["é", "", "!"]),
        (["a", "\ufffd", "\ufffd", "\ufffd", "b"], ["a", "", "漢b"], ["a", "漢", "", "", "b"]),
        (["St", "op"], ["", ""], ["", ""]),
        (["fo", "x", "</s>"], ["fox"], ["fo", "x", ""]),
        (["fox jumps"], ["fox"], ["fox"]),
        (["", "fox"], ["fox"], ["", "fox"]),
        ([], ["fox"], ["fox"]),
    ]
    async with page_of(stack) as page, tab(browser, page) as opened:
        for tokens, texts, parts in cases:
            found = await opened.evaluate(
                """async ([tokens, texts]) => {
                  const { Speller } = await import("/ui/tokens.js"), parts = [];
                  const speller = new Speller((token, part) => parts.push(part));
                  speller.tokens(tokens.map((text) => ({ text })));
                  for (const text of texts) speller.text(text);
                  const rest = speller.finish();
                  return rest ? [...parts, rest] : parts;
                }""",
                [tokens, texts],
            )
            assert found == parts, tokens
            assert "".join(found) == "".join(texts)


async def test_all_of_it_can_be_used_with_the_keyboard(browser: Browser, stack: Stack) -> None:
    """From the prompt by Tab to every control in turn, through the rounds by arrows, and to a request of the list."""
    async with page_of(stack) as page, tab(browser, page) as opened:
        await opened.focus("#prompt")
        await tab_to(opened, "#send")
        await opened.keyboard.press("Enter")
        await opened.wait_for_selector(_DONE, timeout=_WAIT_MS)
        for control in ("#answer", "#rejected", "#compare", "#zoom", "#fit", "#save", "#open", "#lanes g.one"):
            await tab_to(opened, control)
        seen = []
        for key in ("Home", "ArrowRight", "End", "ArrowLeft"):
            await opened.keyboard.press(key)
            seen.append(await opened.locator("#details .sentence").inner_text())
            assert await opened.locator(":focus").get_attribute("aria-label") == seen[-1]
            assert await opened.locator(":focus").get_attribute("aria-selected") == "true"
        assert len(set(seen)) == len(seen)
        assert seen[0].startswith("Round 0,")
        for control in ("#all summary", "#refresh", "#recent button"):
            await tab_to(opened, control)
        await opened.keyboard.press("Enter")
        await opened.wait_for_selector("#status:has-text('is open')", timeout=_WAIT_MS)
        await opened.focus("#prompt")
        await opened.keyboard.press("Control+Enter")
        await opened.wait_for_selector(_DONE, timeout=_WAIT_MS)


async def tab_to(opened: Tab, control: str) -> None:
    """With Tab, and not far; and it can be seen where it is."""
    for _ in range(9):
        await opened.keyboard.press("Tab")
        if await opened.evaluate("control => document.activeElement.matches(control)", control):
            return
    raise AssertionError(f"Tab does not lead to {control}")


async def test_an_answer_can_be_stopped(browser: Browser, farm: Farm, llama: Path) -> None:
    async with (
        own_stack(await farm.replica("target", llama)) as stack,
        page_of(stack) as page,
        tab(browser, page) as opened,
    ):
        await opened.fill("#max", "1900")
        await opened.click("#send")
        await opened.wait_for_selector("#answer .token", timeout=_WAIT_MS)
        await opened.keyboard.press("Escape")
        await opened.wait_for_selector("#status:has-text('Stopped')", timeout=_WAIT_MS)
        cancelled = stack.pools.meters.requests
        await eventually(lambda: cancelled.total("cancelled") == 1, "it is given up")
        assert int(str(await opened.get_attribute("#lanes", "data-rounds"))) > 0
        assert await opened.is_enabled("#send")


async def test_an_error_is_said_where_screen_readers_hear_it_and_its_field_is_marked(
    browser: Browser, stack: Stack
) -> None:
    cases = [
        ("max", "0", "max_new_tokens: must be at least 1"),
        ("max", "many", "max_new_tokens: "),
        ("temperature", "-1", "sampling.temperature: "),
        ("seed", "1.5", "sampling.seed: "),
        ("prompt", "", "must not be empty"),
        ("key", "ä", "API key: "),
    ]
    async with page_of(stack) as page, tab(browser, page) as opened:
        assert await opened.get_attribute("#status", "aria-live") == "polite"
        for field, value, words in cases:
            right = await opened.input_value(f"#{field}")
            await opened.fill(f"#{field}", value)
            await opened.click("#send")
            await expect(opened.locator("#status.error")).to_contain_text(words)
            await expect(opened.locator("#send")).to_be_enabled()
            assert await opened.locator("[aria-invalid=true][aria-describedby=status]").get_attribute("id") == field
            assert await opened.locator(":focus").get_attribute("id") == field
            await opened.fill(f"#{field}", right)


async def test_where_keys_are_needed_one_can_be_given(
    browser: Browser, farm: Farm, llama: Path, tmp_path: Path
) -> None:
    """It is kept nowhere."""
    file = tmp_path / "tenants.toml"
    file.write_text('[tenants.acme]\nkeys = ["one"]\n')
    async with (
        own_stack(await farm.replica("target", llama), tenants=str(file)) as stack,
        page_of(stack, Tenants.load(str(file))) as page,
        tab(browser, page) as opened,
    ):
        await opened.wait_for_selector("#serving:has-text('API key')", timeout=_WAIT_MS)
        await opened.fill("#key", "one")
        await ask(opened, tokens=4)
        await opened.wait_for_selector("#serving:has-text('llama')", timeout=_WAIT_MS)
        await opened.wait_for_selector("#recent button", timeout=_WAIT_MS)
        kept = await opened.evaluate("[...Object.keys(localStorage), ...Object.keys(sessionStorage), document.cookie]")
        assert kept == [""]


async def test_tokens_cannot_be_anything_but_text(browser: Browser, stack: Stack, tmp_path: Path) -> None:
    """A trace may come from anybody."""
    async with page_of(stack) as page, tab(browser, page) as opened:
        await ask(opened, tokens=8, mode="OFF", done="#status:has-text('complete')")
        file = await saved(opened, tmp_path / "trace.json")
        whole = json.loads(file.read_text())
        nasty = "<img src=x onerror=alert(1)>"
        for span in whole["resourceSpans"][0]["scopeSpans"][0]["spans"]:
            for each in span.get("attributes", []):
                if each["key"] in ("outrider.round.texts", "outrider.round.mode"):
                    text = {"stringValue": nasty}
                    each["value"] = {"arrayValue": {"values": [text]}} if each["key"].endswith("texts") else text
        file.write_text(json.dumps(whole))
        await opened.set_input_files("#open", file)
        await opened.wait_for_selector("#status:has-text('is open')", timeout=_WAIT_MS)
        await opened.locator("#lanes g.one").first.focus()
        assert nasty in await text_of(opened)
        assert await opened.locator("img").count() == 0


async def test_it_fits_a_small_screen_in_light_and_dark(browser: Browser, stack: Stack) -> None:
    """Nothing is wider than 360 pixels but what scrolls by itself, and all text stands out from what is behind it."""
    small: Any = {"viewport": {"width": 360, "height": 740}}
    async with page_of(stack) as page, tab(browser, page, **small) as opened:
        await ask(opened, mode="FIXED")
        await opened.locator("#lanes g.one[tabindex='0']").focus()
        await opened.click("#all summary")
        assert await opened.evaluate("document.documentElement.scrollWidth") == 360
        behind = []
        schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
        for scheme in schemes:
            await opened.emulate_media(color_scheme=scheme)
            behind.append(await opened.evaluate("getComputedStyle(document.body).backgroundColor"))
            poor = {name: ratio for name, ratio in (await opened.evaluate(CONTRASTS)).items() if ratio < 4.5}
            assert not poor, scheme
        assert len(set(behind)) == 2

"""The live page in a real browser: it shows what was answered, by keyboard alone, in light and dark, and asks nobody
else."""

import contextlib
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Error, async_playwright
from playwright.async_api import Page as Tab

from tests.integration.test_synthetic import system
from tests.integration.web import Page, page_of
from tests.stack import Farm, Stack
from tests.tiny import save_tokenizer

_FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
          "--disable-background-networking", "--disable-component-update")  # fmt: skip
_DONE = "#compare:not([disabled])"
_WAIT_MS = 20_000
_PROMPT = "Write three short sentences about foxes."


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
async def tab(browser: Browser, page: Page, **how: object) -> AsyncIterator[Tab]:
    """The page, open; at the end nothing went wrong in it, and it asked nobody else."""
    context: BrowserContext = await browser.new_context(**how)  # type: ignore[arg-type]
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


async def ask(opened: Tab, tokens: int = 40, mode: str = "AUTO") -> None:
    await opened.fill("#prompt", _PROMPT)
    await opened.select_option("#kind", "prompt")
    await opened.fill("#max", str(tokens))
    await opened.select_option("#mode", mode)
    await opened.click("#send")
    await opened.wait_for_selector(_DONE, timeout=_WAIT_MS)


async def test_an_answer_is_shown_by_the_fate_of_its_tokens_with_a_lane_for_each_round(
    browser: Browser, stack: Stack
) -> None:
    """The text without what was rejected is the answer's; there are as many rounds as it had."""
    async with page_of(stack) as page, tab(browser, page) as opened:
        await ask(opened, mode="FIXED")
        await opened.uncheck("#rejected")
        plain = await stack.generate(_PROMPT, 0, max_new_tokens=40)
        assert await opened.inner_text("#answer") == plain.text.rstrip()
        (listed,) = [each for each in stack.service.looking.requests("").requests if each.proposed]
        assert await opened.locator("#lanes g.one").count() == listed.rounds
        assert await opened.locator("#answer .accepted").count() == await marked(opened, "accepted") > 0
        assert await opened.locator("#answer .rejected").count() == listed.proposed - listed.accepted
        assert "complete" in await opened.inner_text("#status")


async def marked(opened: Tab, fate: str) -> int:
    return await opened.locator(f"#answer [title='{fate}']").count()


async def test_the_same_answer_of_the_target_alone_is_compared_token_by_token(browser: Browser, stack: Stack) -> None:
    async with page_of(stack) as page, tab(browser, page) as opened:
        await opened.fill("#temperature", "0.8")
        await ask(opened)
        await opened.click("#compare")
        await opened.wait_for_selector("#comparison:not(:empty)", timeout=_WAIT_MS)
        assert "are identical" in await opened.inner_text("#comparison")


async def test_a_saved_trace_opens_again_with_all_its_rounds(browser: Browser, stack: Stack, tmp_path: Path) -> None:
    async with page_of(stack) as page, tab(browser, page) as opened:
        await ask(opened)
        rounds = await opened.locator("#lanes g.one").count()
        async with opened.expect_download() as saving:
            await opened.click("#save")
        file = tmp_path / "trace.json"
        await (await saving.value).save_as(file)
        assert json.loads(file.read_text())["resourceSpans"]
        async with tab(browser, page) as other:
            await other.set_input_files("#open", file)
            await other.wait_for_selector("#lanes g.one", timeout=_WAIT_MS)
            assert await other.locator("#lanes g.one").count() == rounds
            assert await other.inner_text("#answer") == await opened.inner_text("#answer")
            (tmp_path / "junk.json").write_text("no trace")
            await other.set_input_files("#open", tmp_path / "junk.json")
            await other.wait_for_selector("#status.error", timeout=_WAIT_MS)
            assert "neither JSON" in await other.inner_text("#status")


async def test_all_of_it_can_be_used_with_the_keyboard(browser: Browser, stack: Stack) -> None:
    """From the prompt by Tab to Send, through the rounds by arrows, and to a request of the list."""
    async with page_of(stack) as page, tab(browser, page) as opened:
        await opened.focus("#prompt")
        for _ in range(9):
            await opened.keyboard.press("Tab")
            if await opened.evaluate_handle("document.activeElement") and await focused(opened) == "send":
                break
        assert await focused(opened) == "send"
        await opened.keyboard.press("Enter")
        await opened.wait_for_selector(_DONE, timeout=_WAIT_MS)
        await opened.focus("#lanes")
        await opened.keyboard.press("ArrowRight")
        first = await opened.inner_text("#details")
        await opened.keyboard.press("End")
        assert first
        assert await opened.inner_text("#details") != first
        await opened.focus("#recent button")
        await opened.keyboard.press("Enter")
        await opened.wait_for_selector("#status:has-text('is open')", timeout=_WAIT_MS)


async def focused(opened: Tab) -> str:
    return str(await opened.locator(":focus").get_attribute("id"))


async def test_an_error_is_said_where_screen_readers_hear_it(browser: Browser, stack: Stack) -> None:
    async with page_of(stack) as page, tab(browser, page) as opened:
        await opened.fill("#seed", "9" * 30)
        await opened.click("#send")
        await opened.wait_for_selector("#status.error", timeout=_WAIT_MS)
        assert await opened.get_attribute("#status", "aria-live") == "polite"
        assert "sampling.seed" in await opened.inner_text("#status")
        assert await opened.is_enabled("#send")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_it_fits_a_small_screen_in_light_and_dark(browser: Browser, stack: Stack, scheme: str) -> None:
    """Nothing is wider than 360 pixels but what scrolls by itself, and text stands out from what is behind it."""
    how = {"color_scheme": scheme, "viewport": {"width": 360, "height": 740}}
    async with page_of(stack) as page, tab(browser, page, **how) as opened:
        await ask(opened)
        box = await opened.locator("main").bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= 360
        behind = luminance(await colour(opened, "body", "background-color"))
        for part in ("body", "#answer .accepted", "#answer .correction", "#answer .rejected", "#status"):
            if await opened.locator(part).count():
                assert contrast(luminance(await colour(opened, part, "color")), behind) >= 4.5, part


async def colour(opened: Tab, part: str, name: str) -> tuple[int, int, int]:
    """Red, green and blue."""
    text = await opened.locator(part).first.evaluate(f"each => getComputedStyle(each).getPropertyValue('{name}')")
    red, green, blue = (int(value) for value in text.removeprefix("rgb(").removesuffix(")").split(",")[:3])
    return red, green, blue


def luminance(colour: tuple[int, int, int]) -> float:
    """Relative luminance (WCAG 2.2)."""
    parts = [value / 255 for value in colour]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: float, other: float) -> float:
    """Contrast ratio (WCAG 2.2)."""
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)

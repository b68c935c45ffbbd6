"""A Python client of Outrider: ask one or more orchestrators, get an answer from whichever of them can give it.

    import asyncio
    from contextlib import aclosing

    from outrider.client import Ask, Client, Delta

    async def main() -> None:
        async with Client("10.0.0.1:50051", "10.0.0.2:50051", api_key="...", timeout_s=120) as client:
            answer = await client.answer(Ask.user("What is a fox?", max_new_tokens=64))
            print(answer.text, answer.finished.usage)

            async with aclosing(client.stream(Ask(prompt="Once upon a time", seed=7))) as events:
                async for event in events:
                    if isinstance(event, Delta):
                        print(event.text, end="", flush=True)

            first = await client.answer(Ask.user("My name is Reynard.", keep_session=True))
            await client.answer(Ask.user("What is my name?", session_id=first.session_id))

    asyncio.run(main())

What is worth another try is tried again, within ``timeout_s``: an orchestrator that is away, drains, breaks off or
freezes is left for the next one, and one that is full is asked again when it said. An answer that had begun goes on
where it was lost: from the journal, or, where none has it, by making the same answer of the same seed again. Tokens
that came before are compared and dropped, so each comes exactly once. Everything else is an error of
``outrider.errors``.
"""

from outrider.client.ask import Ask, Message
from outrider.client.client import Client
from outrider.client.events import (
    Answer,
    Delta,
    Drafter,
    Event,
    Finished,
    FinishReason,
    Round,
    SpeculationSummary,
    Started,
    Usage,
)
from outrider.tls import TlsPaths

__all__ = [
    "Answer",
    "Ask",
    "Client",
    "Delta",
    "Drafter",
    "Event",
    "FinishReason",
    "Finished",
    "Message",
    "Round",
    "SpeculationSummary",
    "Started",
    "TlsPaths",
    "Usage",
]

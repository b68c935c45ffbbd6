"""What the caller has been given of an answer, so that whoever tells it, and from where, nothing comes twice.

Tokens and text of an answer are the same whoever makes it, and its text is a function of its tokens: what comes again
is compared and dropped. It knows values only.
"""

from outrider.client.events import Delta
from outrider.errors import OutriderError


class Delivery:
    """Owner of the tokens and the text that were handed out, and of how far the present stream has told them."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self._text = ""
        self._told = 0
        self._told_text = 0

    def again(self) -> None:
        """A stream begins that tells the answer from its first token."""
        self._told = self._told_text = 0

    def go_on(self) -> None:
        """A stream begins that tells what follows."""
        self._told, self._told_text = len(self.tokens), len(self._text)

    def take(self, delta: Delta) -> Delta | None:
        """What of it is new, or None. Raises OutriderError when it differs from what was handed out before."""
        known = min(len(delta.token_ids), len(self.tokens) - self._told)
        known_text = min(len(delta.text), len(self._text) - self._told_text)
        self._compare(delta.token_ids[:known], delta.text[:known_text])
        self._told += len(delta.token_ids)
        self._told_text += len(delta.text)
        tokens, text = delta.token_ids[known:], delta.text[known_text:]
        self.tokens.extend(tokens)
        self._text += text
        if known == known_text == 0:
            return delta
        return Delta(text, tokens, delta.logprobs[known:]) if tokens or text else None

    def _compare(self, tokens: tuple[int, ...], text: str) -> None:
        if tokens != tuple(self.tokens[self._told : self._told + len(tokens)]):
            raise OutriderError(
                f"the answer was lost after {len(self.tokens)} tokens, and what was made again differs from them: it"
                f" has {list(tokens)} from token {self._told} on"
            )
        if text != self._text[self._told_text : self._told_text + len(text)]:
            raise OutriderError(
                f"the answer was lost after {len(self.tokens)} tokens, and the text that was made again differs"
            )

    def check_complete(self, completion_tokens: int) -> None:
        """The answer is said to have so many tokens. Raises OutriderError when others were handed out."""
        if completion_tokens != len(self.tokens) or self._told != len(self.tokens):
            raise OutriderError(f"the answer has {completion_tokens} tokens, but {len(self.tokens)} came")

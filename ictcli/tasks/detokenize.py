"""The text of tokens, one after the other."""

from collections.abc import Callable, Sequence

Decode = Callable[[Sequence[int]], str]


class Detokenizer:
    """The text that each token adds; all of it joined is the text of all tokens.

    If several tokens make one character, the last one adds it. A window of tokens is decoded at a
    time, as servers do to stream."""

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._window: list[int] = []
        """Tokens decoded again as context, and those after them whose text is held back."""
        self._context = 0

    def add(self, token: int) -> str:
        """Return the text that the next token adds."""
        self._window.append(token)
        return self._text(last=False)

    def rest(self) -> str:
        """Return the text held back, when no token follows."""
        return self._text(last=True)

    def _text(self, *, last: bool) -> str:
        before, now = self._decode(self._window[: self._context]), self._decode(self._window)
        if len(now) <= len(before) or (now.endswith("\ufffd") and not last):
            return ""
        self._window = self._window[self._context :]
        self._context = len(self._window)
        return now[len(before) :]


def token_texts(ids: Sequence[int], decode: Decode | None) -> list[str]:
    """Return the text that each token adds. Without a decoder: ids."""
    if decode is None:
        return [f"<{number}>" for number in ids]
    detokenizer = Detokenizer(decode)
    texts = [detokenizer.add(number) for number in ids]
    if texts:
        texts[-1] += detokenizer.rest()
    return texts

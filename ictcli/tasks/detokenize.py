"""Text of tokens, decoded one token at a time."""

from collections.abc import Callable, Sequence

Decode = Callable[[Sequence[int]], str]


class Detokenizer:
    """Returns the text that each token adds; these texts joined are the text of all tokens.

    If several tokens make one character, the last of them adds it. Only a window of recent tokens
    is decoded each time, as in servers that stream."""

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._window: list[int] = []
        """The last tokens whose text was returned, as context, then those whose text was not."""
        self._context = 0

    def add(self, token: int) -> str:
        """Return the text that the next token adds."""
        self._window.append(token)
        return self._text(last=False)

    def rest(self) -> str:
        """Return the text that has not been returned yet, after the last token."""
        return self._text(last=True)

    def _text(self, *, last: bool) -> str:
        before, now = self._decode(self._window[: self._context]), self._decode(self._window)
        if len(now) <= len(before) or (now.endswith("\ufffd") and not last):
            return ""
        self._window = self._window[self._context :]
        self._context = len(self._window)
        return now[len(before) :]


def token_texts(ids: Sequence[int], decode: Decode | None) -> list[str]:
    """Return the text that each token adds; without a decoder its id, as in `<17>`."""
    if decode is None:
        return [f"<{number}>" for number in ids]
    detokenizer = Detokenizer(decode)
    texts = [detokenizer.add(number) for number in ids]
    if texts:
        texts[-1] += detokenizer.rest()
    return texts

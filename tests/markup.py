"""A page as its elements."""

from html.parser import HTMLParser

UNSAFE = {"src", "srcset", "action", "data", "poster", "xlink:href"}


class Markup(HTMLParser):
    """The elements of a page, which of them are open, and every attribute that could fetch."""

    MAY_STAY_OPEN: frozenset[str]

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.fetching: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name in UNSAFE or name.startswith("on"):
                self.fetching.append(name)
            if name == "href" and not (value or "").startswith("#"):
                self.fetching.append(value or "")
        if tag not in self.MAY_STAY_OPEN:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.MAY_STAY_OPEN:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.MAY_STAY_OPEN:
            assert self.open.pop() == tag

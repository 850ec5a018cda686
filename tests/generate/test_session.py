"""Laws of `ictcli.generate`: what is streamed is what is answered. What an engine tells of tokens
as it samples them, tests/contract holds."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ictcli.engine import Engine
from ictcli.evaluation.settings import GenerateSettings, typed_settings
from ictcli.generate.session import Answer, Session, form_of
from ictcli.runs.model import find_models
from ictcli.types import Rollouts

QUESTION = "7*9-8+2*2+3*7="
MakeSession = Callable[..., Session]


def session_of(engine: Engine, folder: Path, *keys: str) -> Session:
    settings = typed_settings(GenerateSettings, "ictcli generate", keys, {})
    model = replace(find_models([str(folder)], settings)[0], build=lambda settings: engine)
    return Session(model, form_of(model, settings.reward, print, judge=False), settings)


@pytest.fixture
def session(engine: Engine, tiny_model: Path) -> MakeSession:
    return lambda *keys: session_of(engine, tiny_model, *keys)


class Silent:
    """An engine that says no tokens, as one of several processes may."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def generate(self, *arguments: Any, on_tokens: Any = None) -> Rollouts:
        return self._engine.generate(*arguments)


def streamed(session: Session, stop: Callable[[int], bool] = lambda said: False) -> tuple[Any, ...]:
    """The reply to QUESTION, and the texts that were heard, each of which ended once."""
    texts = [""] * session.settings.n
    ends = [0] * session.settings.n

    def hear(row: int, text: str, ended: bool) -> None:
        assert not ends[row], "it had ended"
        texts[row] += text
        ends[row] += ended

    reply = session.ask(QUESTION, hear, lambda: stop(sum(map(len, texts))))
    assert ends == [1] * len(ends)
    return reply, texts


def test_streamed_text_is_the_text_that_is_not_streamed(session: MakeSession) -> None:
    reply, texts = streamed(session("n=4", "max_tokens=20"))
    assert [answer.text for answer in reply.answers] == texts
    assert session("n=4", "max_tokens=20").ask(QUESTION) == reply
    assert len(set(texts)) > 1
    for answer in reply.answers:
        assert answer.finished == (answer.tokens[-1] in reply.sampling.stop_ids)
        assert answer.finished or len(answer.tokens) == 20


def test_more_answers_leave_the_first_as_it_is(session: MakeSession) -> None:
    one, four = (session(f"n={n}", "max_tokens=20").ask(QUESTION) for n in (1, 4))
    assert one.answers == four.answers[:1]
    assert session("n=1", "max_tokens=20", "seed=1").ask(QUESTION).answers != one.answers


def test_an_engine_that_says_nothing_answers_alike(engine: Engine, tiny_model: Path) -> None:
    keys = ("n=3", "max_tokens=20")
    silent = session_of(Silent(engine), tiny_model, *keys)  # pyright: ignore[reportArgumentType]
    assert streamed(silent) == streamed(session_of(engine, tiny_model, *keys))


def test_what_was_said_before_a_stop_is_kept(session: MakeSession) -> None:
    keys = ("n=3", "max_tokens=20", "seed=1")
    whole, _ = streamed(session(*keys))
    part, texts = streamed(session(*keys), lambda said: said >= 9)
    assert part.stopped and not whole.stopped
    assert [answer.text for answer in part.answers] == texts
    for some, every in zip(part.answers, whole.answers, strict=True):
        assert every.tokens[: len(some.tokens)] == some.tokens
    assert 9 <= sum(len(answer.tokens) for answer in part.answers) < 20


def test_an_answer_ends_where_the_context_does(session: MakeSession) -> None:
    reply = session("max_tokens=1000", "temperature=3").ask("1+" * 50 + "1=")
    assert reply.sampling.max_tokens == 128 - 102


def test_an_answer_is_what_the_engine_samples(engine: Engine, session: MakeSession) -> None:
    """The prompt that is shown is the one that was sampled from."""
    reply = session("max_tokens=20", "temperature=0").ask(QUESTION)
    rollouts = engine.generate([reply.prompt_tokens], 1, reply.sampling, 0)
    tokens = rollouts.tokens[0, : rollouts.lengths[0]].tolist()
    assert reply.answers == (
        Answer(engine.tokenizer.decode(tokens), tuple(tokens), bool(rollouts.finished[0])),
    )

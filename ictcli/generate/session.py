"""Asking a model questions: the form of the prompt, streamed answers and their verdicts."""

import contextlib
import signal
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

from ictcli.engine import Engine
from ictcli.errors import UnknownCodeError, UserError
from ictcli.evaluation.benchmarks import judged
from ictcli.evaluation.settings import GenerateSettings
from ictcli.evaluation.specs import ModelSpec
from ictcli.files import encodable
from ictcli.recipe import load_recipe
from ictcli.recipe.data import RewardSettings
from ictcli.rewards import Explanation, explain, find_verifier
from ictcli.rewards.verifiers import as_verifier
from ictcli.seeds import seed_of
from ictcli.tasks import BOXED, Domain, Task, builtin_task, prompts
from ictcli.tasks.detokenize import Detokenizer
from ictcli.tasks.prepare import task_alone
from ictcli.tasks.unread import lost_of
from ictcli.text import middle_cut, one_line
from ictcli.types import IntArray, Problem, Rollouts, Sampling

MAX_TOKENS = 2048
"""Maximum tokens of an answer if neither a run nor the user sets a limit."""
EXAMPLES = 16  # questions of the task, the shortest of which is shown as a hint
SHOWN = 60  # characters of a prompt in an error

Heard = Callable[[int, str, bool], None]
"""Function (row, text, ended) that gets an answer's new text, and whether the answer has ended."""


class StoppedError(KeyboardInterrupt):
    """Ends sampling early; the incomplete answers are kept."""


@dataclass(frozen=True)
class Answer:
    """A sampled response."""

    text: str
    tokens: tuple[int, ...]
    finished: bool
    """Whether the answer ended with a stop token; False: cut at max_tokens, or by Ctrl-C."""


@dataclass(frozen=True)
class Reply:
    """The answers to a question."""

    question: str
    prompt: str
    """The question as the model got it, with system prompt, examples, template and suffix."""
    prompt_tokens: tuple[int, ...]
    sampling: Sampling
    answers: tuple[Answer, ...]
    stopped: bool


@dataclass(frozen=True)
class Form:
    """How questions are put into prompts, and the verifier of the answers."""

    domain: Domain
    examples: tuple[str, ...] = ()
    """Questions of the model's task; empty if the model has no task."""

    @property
    def hint(self) -> str:
        """A hint that shows a typical prompt; empty if there are no examples."""
        if not self.examples:
            return ""
        return f"prompts look like {middle_cut(one_line(min(self.examples, key=len)), 200)}"

    def judge(
        self, question: str, answers: list[str], gold: str, say: Callable[[str], None]
    ) -> list[Explanation]:
        """Return the verdict on each answer to a question, with an explanation."""
        verifier = as_verifier(self.domain.verify)
        if not verifier.readable(gold):
            say(
                f"note: the verifier {verifier.name} cannot parse the gold: only an identical "
                "answer is correct"
            )
        return explain(
            answers,
            [gold] * len(answers),
            verifier,
            pattern=self.domain.pattern,
            questions=[question] * len(answers),
            limits=self.domain.limits,
        )


def form_of(
    model: ModelSpec, reward: RewardSettings, say: Callable[[str], None], *, judge: bool
) -> Form:
    """Return the form of the prompts for a model: for a run's or a built-in model the form of its
    task. Other models get the user's words and, if `judge`, are asked for a boxed answer."""
    task = _task_of(model, say)
    if task is None:
        suffix = BOXED if judge or model.run else ""
        domain, examples = Domain(find_verifier("math"), suffix, pattern=model.pattern), ()
    else:
        domain, questions = task.domain, task.heldout(EXAMPLES) or task.train[:EXAMPLES]
        examples = tuple(problem.prompt for problem in questions)
    domain = judged(domain, reward)
    if judge:
        hint = "leave --gold out; ictcli eval verifies answers to the problems of a data set"
        as_verifier(domain.verify).check_columns("a typed prompt", (), hint)
    return Form(domain, examples)


def _task_of(model: ModelSpec, say: Callable[[str], None]) -> Task | None:
    if model.recipe is None:
        return builtin_task(model.model)
    try:
        return task_alone(load_recipe(model.recipe))
    except UnknownCodeError:
        raise
    except UserError as error:
        say(f"note: {error.message} Prompts to {model.run} therefore ask for a boxed answer.")
        return None


class Session:
    """A loaded model that is asked questions."""

    def __init__(self, model: ModelSpec, form: Form, settings: GenerateSettings) -> None:
        self.model, self.form, self.settings = model, form, settings
        self.engine: Engine = model.load()
        self._turn = 0

    def ask(
        self,
        question: str,
        heard: Heard = lambda row, text, ended: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Reply:
        """Return `settings.n` sampled answers to a question. `heard` is called with text as it is
        sampled. Sampling ends early, after the current token, once `stop` returns True. Raises
        UserError if the question is empty, too long, or has characters the tokenizer lacks."""
        text, ids = self._encode(question)
        left = self.engine.context - len(ids)
        most = self.settings.max_tokens or self.model.max_tokens or MAX_TOKENS
        sampling = self.model.sampling(min(most, left), self.engine.stop_ids)
        n, seed = self.settings.n, seed_of(self.settings.seed, "generate", self._turn)
        self._turn += 1
        growing = Growing(self.engine.tokenizer, n, sampling, heard, stop)
        stopped = False
        try:
            rollouts = self.engine.generate([ids], n, sampling, seed, on_tokens=growing.add)
            growing.complete(rollouts)
        except StoppedError:
            stopped = True
        return Reply(question, text, tuple(ids), sampling, growing.end(), stopped)

    def _encode(self, question: str) -> tuple[str, list[int]]:
        if not question.strip():
            raise UserError("The prompt is empty.", self.form.hint)
        tokenizer, problem = self.engine.tokenizer, Problem("prompt", question, "")
        if question != encodable(question):
            raise UserError("The prompt is not UTF-8.", "type it again")
        if lost := lost_of(tokenizer, [question]):
            raise UserError(
                f"The model's tokenizer cannot encode the prompt: {middle_cut(question, SHOWN)!r} "
                f"becomes {middle_cut(lost[0][1], SHOWN)!r}.",
                self.form.hint or "use a model whose tokenizer has these characters",
            )
        text, ids = prompts.tokens_of(tokenizer, problem, self.form.domain, self.model.prompt)
        if len(ids) >= self.engine.context:
            raise UserError(
                f"The prompt has {len(ids):,} tokens, which leaves no room for an answer in the "
                f"model's context of {self.engine.context:,}.",
                "use a shorter prompt",
            )
        return text, ids


@contextlib.contextmanager
def stop_on_interrupt() -> Generator[Callable[[], bool]]:
    """Yield a function that returns whether Ctrl-C was pressed; a second Ctrl-C acts as usual."""
    received: list[int] = []
    before = signal.getsignal(signal.SIGINT)

    def receive(number: int, frame: object) -> None:
        received.append(number)
        signal.signal(signal.SIGINT, before)

    if before != signal.SIG_IGN:  # as nohup sets it
        signal.signal(signal.SIGINT, receive)
    try:
        yield lambda: bool(received)
    finally:
        signal.signal(signal.SIGINT, before)


class Growing:
    """The answers to a question while they are sampled."""

    def __init__(
        self, tokenizer: Any, n: int, sampling: Sampling, heard: Heard, stop: Callable[[], bool]
    ) -> None:
        def decode(ids: Sequence[int]) -> str:
            return tokenizer.decode(
                list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
            )

        self._decode, self._sampling = decode, sampling
        self._heard, self._stop = heard, stop
        self._tokens: list[list[int]] = [[] for _ in range(n)]
        self._texts = [Detokenizer(decode) for _ in range(n)]

    def add(self, t: int, rows: IntArray, tokens: IntArray) -> None:
        """Add newly drawn tokens, as an `OnTokens`. Raises StoppedError to end sampling early."""
        for row, token in zip(map(int, rows), map(int, tokens), strict=True):
            if t == len(self._tokens[row]):  # else drawn again, because memory ran out
                self._add(row, token)
        if self._stop():
            raise StoppedError

    def complete(self, rollouts: Rollouts) -> None:
        """Add the tokens of the finished rollouts that `add` did not get."""
        for row, length in enumerate(rollouts.lengths):
            for token in rollouts.tokens[row, len(self._tokens[row]) : length].tolist():
                self._add(row, token)

    def _add(self, row: int, token: int) -> None:
        self._tokens[row].append(token)
        text = self._texts[row].add(token)
        if self._ended(row):
            self._heard(row, text + self._texts[row].rest(), True)
        elif text:
            self._heard(row, text, False)

    def _finished(self, row: int) -> bool:
        tokens = self._tokens[row]
        return bool(tokens) and tokens[-1] in self._sampling.stop_ids

    def _ended(self, row: int) -> bool:
        return self._finished(row) or len(self._tokens[row]) == self._sampling.max_tokens

    def end(self) -> tuple[Answer, ...]:
        """Return the answers, which may be incomplete."""
        for row, text in enumerate(self._texts):
            if not self._ended(row):
                self._heard(row, text.rest(), True)
        return tuple(
            Answer(self._decode(tokens), tuple(tokens), self._finished(row))
            for row, tokens in enumerate(self._tokens)
        )

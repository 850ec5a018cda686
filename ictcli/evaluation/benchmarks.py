"""Find the benchmarks of an evaluation and check their problems, before a model is loaded."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ictcli.errors import UserError
from ictcli.evaluation.samples import CHUNK
from ictcli.evaluation.settings import EvaluationSettings, curve_of
from ictcli.evaluation.specs import BenchmarkSpec, ModelSpec
from ictcli.recipe import load_recipe
from ictcli.recipe.data import ColumnSettings, Example, HubSettings, RewardSettings
from ictcli.recipe.generator import is_gym
from ictcli.rewards import find_verifier
from ictcli.rewards.verifiers import name_of
from ictcli.rows import is_saved
from ictcli.seeds import generator, seed_of
from ictcli.tasks import Benchmark, Domain, find_benchmark
from ictcli.tasks.custom import HUB, is_custom
from ictcli.tasks.prepare import check_columns, exam_of, task_of
from ictcli.tasks.split import digest_of, key_of
from ictcli.types import Problem


def benchmark_specs(
    names: str | None, settings: EvaluationSettings, models: Sequence[ModelSpec] = ()
) -> list[BenchmarkSpec]:
    """Return the benchmarks in a comma-separated list. Without a list, return the problems that the
    first run among `models` was evaluated on. For the user's own data sets, max_tokens and the
    verifier default to those of the runs. UserError if a benchmark's problems are not available."""
    if names is None:
        return [_of_run(models, settings)]
    wanted = list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    if not wanted:
        raise UserError("--bench names no benchmark.", "--bench math500,gsm8k")
    sources = [f"{name}-train" for name in wanted if settings.eval.shots]
    files = _files(wanted, settings.data, sources)
    if settings.columns != ColumnSettings() and not any(map(is_custom, wanted)):
        raise UserError(f"columns is for your own data sets, not for {names}.", "leave columns out")
    hub_names = [name for name in wanted if name.startswith(HUB) or is_saved(Path(name))]
    if settings.hub != HubSettings() and not hub_names:
        raise UserError(f"hub is for hub:owner/name, not for {names}.", "leave hub out")
    named = (model.columns for model in models if model.columns != ColumnSettings())
    run_columns = next(named, None)
    run_tokens = max((model.max_tokens or 0 for model in models), default=0)
    reward = next((model.reward for model in models if model.run), RewardSettings())
    typed = {key: getattr(settings.reward, key) for key in settings.reward.model_fields_set}
    reward = reward.model_copy(update=typed)
    specs: list[BenchmarkSpec] = []
    for name in wanted:
        columns = settings.columns if is_custom(name) else None
        hub = settings.hub if name in hub_names else None
        verifier = reward.verifier if is_custom(name) else None
        benchmark = find_benchmark(name, files.get(name), columns, hub, run_columns, verifier)
        problems = benchmark.problems(settings.limit)
        if not problems:
            raise UserError(f"The benchmark {name} has no problems.", "check its data")
        if any(benchmark.name == spec.name for spec in specs):
            raise UserError(
                f"--bench names the benchmark {benchmark.name} twice ({name} is another name of "
                "it).",
                "leave one of them out",
            )
        examples = _drawn(benchmark, problems, settings, files)
        if examples and benchmark.shots:
            domain = replace(benchmark.domain, pattern=benchmark.shots.pattern)
            benchmark = replace(benchmark, domain=domain)
        rewarded = reward if is_custom(name) else settings.reward
        benchmark = replace(benchmark, domain=judged(benchmark.domain, rewarded))
        if is_custom(name):
            note = f"{name} is judged by the verifier {name_of(benchmark.domain.verify)}."
            benchmark = replace(benchmark, notes=(note, *benchmark.notes))
        check_columns(benchmark.name, [benchmark.domain.verify], problems)
        most = ((is_custom(name) or is_gym(name)) and run_tokens) or benchmark.max_tokens
        stem = stem_of(benchmark.name)
        while stem.casefold() in {"settings", "results", *(s.stem.casefold() for s in specs)}:
            stem += "-2"
        most = settings.max_tokens or most
        specs.append(BenchmarkSpec(benchmark, problems, most, stem, examples))
    return specs


def as_its_run(settings: EvaluationSettings, models: Sequence[ModelSpec]) -> EvaluationSettings:
    """Return the settings with n, k and the seed of the first run among the models, unless the user
    set them, so that the evaluation repeats the run's evaluation."""
    file = next((model.recipe for model in models if model.recipe), None)
    if file is None:
        return settings
    recipe, typed = load_recipe(file), settings.model_fields_set
    update: dict[str, Any] = {}
    if "seed" not in typed:
        update |= {"seed": seed_of(recipe.seed, "eval")}
    if "n" not in typed and settings.k == curve_of(settings.n):
        update |= {"n": recipe.eval.n, "k": recipe.eval.k}
    return settings.model_copy(update=update)


def _of_run(models: Sequence[ModelSpec], settings: EvaluationSettings) -> BenchmarkSpec:
    """Return, as a benchmark, the problems that the first run among the models was evaluated on in
    training. UserError if no model is a run, or if a setting needs a named benchmark."""
    model = next((model for model in models if model.recipe), None)
    if model is None or model.recipe is None:
        names = ", ".join(model.model for model in models)
        raise UserError(
            f"No benchmark is named, and none of these is a run: {names}.", "--bench math500,gsm8k"
        )
    if typed := [key for key in ("data", "columns", "hub") if key in settings.model_fields_set]:
        raise UserError(f"{typed[0]} needs a benchmark, and none is named.", "--bench NAME")
    if settings.eval.shots:
        raise UserError("eval.shots needs a benchmark, and none is named.", "--bench NAME")
    recipe = load_recipe(model.recipe)
    task, first = task_of(recipe), recipe.eval.skip
    (name, domain), most = exam_of(recipe, task), settings.limit or recipe.eval.problems
    if recipe.reward.pattern is not None:  # `BenchmarkSpec.read_by` sets each model's pattern
        domain = replace(domain, pattern=None)
    domain = judged(domain, settings.reward)
    heldout = task.heldout(first + max(most, recipe.eval.problems))[first:]
    problems, source = heldout[:most], {} if task.examined else task.source
    check_columns(name, [domain.verify], problems)
    of_run, verifier = heldout[: recipe.eval.problems], name_of(domain.verify)
    notes = tuple(_changes(model, of_run, source.get("sha256"), verifier))
    benchmark = Benchmark(name, domain, lambda n: problems[:n], source=source, notes=notes)
    most = settings.max_tokens or recipe.max_tokens
    return BenchmarkSpec(benchmark, problems, most, stem_of(name), chunk=CHUNK)


def stem_of(name: str) -> str:
    """Return the stem of a benchmark's samples file: without @, which marks a temperature there."""
    return Path(name).stem.replace("@", "-")


def _changes(
    model: ModelSpec, problems: Sequence[Problem], sha256: str | None, verifier: str
) -> Iterator[str]:
    """Yield a note if `model` is a run that was evaluated on other problems in training, or with
    another verifier. `sha256` is the checksum of the data file; benchmarks have none. A run with
    fewer problems of the same file gets no note: its tokenizer may have rejected some."""
    recorded = model.evaluated_on
    if heldout := recorded.get("heldout"):
        comparable = heldout["problems"] == len(problems) or recorded.get("sha256") != sha256
        if comparable and heldout["sha256"] != digest_of(problems):
            yield f"The data of {model.model} has changed: the run was evaluated on other problems."
    if (earlier := recorded.get("verifier")) not in (None, verifier):
        yield f"The run {model.model} was evaluated with the verifier {earlier}, not {verifier}."


def _drawn(
    benchmark: Benchmark,
    problems: Sequence[Problem],
    settings: EvaluationSettings,
    files: Mapping[str, str],
) -> tuple[Example, ...]:
    """Return `eval.shots` worked examples for a benchmark, drawn with the seed, none of them one of
    `problems`. UserError if there are too few."""
    n, shots = settings.eval.shots, benchmark.shots
    if not n:
        return ()
    if shots is None:
        raise UserError(
            f"The benchmark {benchmark.name} has no worked solutions for eval.shots.",
            "prompt.examples=FILE shows examples of your own",
        )
    if settings.prompt.examples:
        raise UserError("eval.shots and prompt.examples exclude each other.", "set one of them")
    keys = {key_of(problem.prompt) for problem in problems}
    examples = [e for e in shots.examples(files.get(shots.source)) if key_of(e.prompt) not in keys]
    if len(examples) < n:
        raise UserError(
            f"eval.shots = {n}, but {shots.source} has {len(examples)} worked examples.",
            f"eval.shots={len(examples)}",
        )
    order: list[int] = generator(settings.seed, "shots").permutation(len(examples))[:n].tolist()
    return tuple(examples[place] for place in order)


def judged(domain: Domain, reward: RewardSettings) -> Domain:
    """Return the domain with the verifier, pattern and limits that `reward` sets."""
    if reward.verifier is not None:
        domain = replace(domain, verify=find_verifier(reward.verifier))
    if reward.pattern is not None:
        domain = replace(domain, pattern=reward.pattern)
    limits = {"seconds": reward.timeout} if "timeout" in reward.model_fields_set else {}
    limits |= {"memory": reward.memory} if "memory" in reward.model_fields_set else {}
    return replace(domain, limits=replace(domain.limits, **limits))


def _files(
    names: Sequence[str], data: str | dict[str, str] | None, of_examples: Sequence[str]
) -> dict[str, str]:
    if isinstance(data, str):
        if len(names) > 1:
            raise UserError(
                f"data={data} does not say which of the {len(names)} benchmarks it is for.",
                f"data.{names[0]}={data}",
            )
        return {names[0]: data}
    if unknown := [name for name in data or () if name not in (*names, *of_examples)]:
        raise UserError(
            f"data.{unknown[0]} names none of the benchmarks {', '.join(names)}.",
            f"data.{names[0]}=FILE.jsonl",
        )
    return data or {}

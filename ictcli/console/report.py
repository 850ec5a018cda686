"""What a finished run reached, and what to do next."""

from pathlib import Path

from ictcli.console.plain import narrate
from ictcli.console.table import print_json, table
from ictcli.evaluation.report import interval
from ictcli.runs.records import Summary
from ictcli.tasks import BENCHMARKS
from ictcli.tasks.custom import is_custom


def report(summary: Summary, folder: Path, *, as_json: bool) -> None:
    """Print the figures before and after training, where the model is, and the next command."""
    if as_json:
        print_json(summary.to_json())
        return
    body: list[list[str]] = []
    for metric, after in summary.after.items():
        before = summary.before[metric]
        gain = after.value - before.value
        body.append([metric, interval(before.json()), interval(after.json()), f"{gain:+.3f}"])
    table(["", "before", "after", "change"], body)
    narrate(
        f"\n{summary.problems} held-out problems, {summary.samples_per_problem} samples each, "
        f"95 % intervals over problems. {summary.steps} steps in {summary.wall_s:.0f} s; "
        f"{summary.tokens_sampled:,} tokens sampled, {summary.tokens_kept_share:.1%} of them kept."
    )
    narrate(kept_line(summary.kept_tokens))
    model = Path(summary.model)
    narrate(f"{model.name}: {model}")
    if model.name == "adapter":
        narrate(f"whole: ictcli export {folder} --merge")
    if (best := summary.best) and best.step:
        reached = f"step {best.step} by {best.metric} ({best.value:.3f})"
        narrate(f"best:  {reached}: ictcli export {folder} --checkpoint best")
    if bench := benchmark_of(summary.task):
        narrate(f"next:  ictcli eval {folder} --bench {bench}")


def benchmark_of(task: str) -> str | None:
    """The benchmarks for a model trained on `task`; None for a custom task."""
    if is_custom(task):
        return None  # its held-out part was evaluated; the rest was trained on
    return ",".join([task, *(name for name in sorted(BENCHMARKS) if name.startswith(f"{task}-"))])


def kept_line(kept: dict[str, float]) -> str:
    """A sentence on which tokens were trained, with the figures there are."""
    parts: list[str] = []
    if "share_kept" in kept:
        parts.append(f"{kept['share_kept']:.1%} of all")
    if "kept_prob" in kept:
        parts.append(f"mean probability {kept['kept_prob']:.2f}")
    if "regime_high" in kept:
        parts.append(f"{kept['regime_high']:.0%} where raising them lowers H2")
    if "fork_recall" in kept and "fork_precision" in kept:
        parts.append(
            f"{kept['fork_recall']:.0%} of the forks, {kept['fork_precision']:.0%} of them forks "
            f"(of all tokens {kept['fork_share']:.0%} are)"
        )
    return "tokens trained (a dense warm-up aside): " + "; ".join(parts)

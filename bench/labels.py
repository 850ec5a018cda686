"""Agreement of the verifiers with labels of others, on public data.

`python bench/labels.py DATA`: a folder that holds any of gsm8k_model_solutions
(openai/grade-school-math: solutions of four models, each with is_correct; the answer by a pattern,
after `####` and in a box), gsm8k (its own solutions, against their gold and the next),
mmlu_pro_responses (TIGER-AI-Lab/MMLU-Pro: responses with the letter that its own pattern read) and
math (hendrycks/math: problems with solutions; the label is math-verify's verdict on each solution
against its own gold, and against the next problem's). Prints a table that counts the rewarded
responses, and with `--list` each row where verifier and label differ. `--save FILE` writes the
verdicts, and `--since FILE` lists the rows whose reward has changed since.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ictcli.rewards import grade
from ictcli.rewards.answers import boxed


class Row(NamedTuple):
    response: str
    ours: str
    theirs: str
    rewarded: bool


def rows(folder: Path) -> list[Any]:
    files = sorted(folder.glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]


def gsm8k(folder: Path) -> Iterator[Row]:
    solutions = [
        (each["solution"], row["ground_truth"].rpartition("A:")[2].strip(), each["is_correct"])
        for row in rows(folder)
        for each in row.values()
        if isinstance(each, dict)
    ]
    responses, golds, labels = map(list, zip(*solutions, strict=True))
    for mark, kind, pattern in (
        ("A: {}", "integer", "^A: (.*)$"),
        ("#### {}", "integer", None),
        ("The answer is $\\boxed{{{}}}$.", "math", None),
    ):
        texts = [marked(response, mark) for response in responses]
        verdicts = grade(texts, golds, kind, pattern=pattern)
        for text, verdict, label in zip(texts, verdicts, labels, strict=True):
            right = verdict.status == "correct"
            yield Row(text, correct(right), correct(label), right)


def marked(solution: str, mark: str) -> str:
    """A solution with its answer, on the last line after `A:`, marked in another way."""
    reasons, found, answer = solution.rpartition("A:")
    return reasons + mark.format(answer.strip()) if found else solution


def worked(folder: Path) -> Iterator[Row]:
    solutions = [row["answer"] for row in rows(folder)]
    golds = [solution.rpartition("####")[2].strip() for solution in solutions]
    for theirs in (golds, golds[1:] + golds[:1]):
        verdicts = grade(solutions, theirs, "integer")
        for solution, own, gold, verdict in zip(solutions, golds, theirs, verdicts, strict=True):
            right = verdict.status == "correct"
            label = correct(own.replace(",", "") == gold.replace(",", ""))
            yield Row(f"{solution} against {gold}", correct(right), label, right)


def mmlu(folder: Path) -> Iterator[Row]:
    data = rows(folder)
    verdicts = grade(
        [row["response"] for row in data],
        [row["gold"] for row in data],
        "choice",
        choices=[row["options"] for row in data],
    )
    for row, verdict in zip(data, verdicts, strict=True):
        letter = "none" if verdict.status == "unparsed" else verdict.extracted
        right = verdict.status == "correct"
        yield Row(row["response"], letter, row["regex_letter"] or "none", right)


def maths(folder: Path) -> Iterator[Row]:
    data = rows(folder)
    solutions = [row["solution"] for row in data]
    golds = [boxed(solution) or "" for solution in solutions]
    for theirs in (golds, golds[1:] + golds[:1]):
        pair = [grade(solutions, theirs, kind) for kind in ("math", "math-verify")]
        for solution, gold, *verdicts in zip(solutions, theirs, *pair, strict=True):
            ours, label = (correct(verdict.status == "correct") for verdict in verdicts)
            yield Row(f"{solution} against {gold}", ours, label, ours == "correct")


def correct(right: bool) -> str:
    return "correct" if right else "wrong"


SETS: dict[str, tuple[str, Callable[[Path], Iterator[Row]]]] = {
    "gsm8k_model_solutions": ("is_correct", gsm8k),
    "gsm8k": ("the gold", worked),
    "mmlu_pro_responses": ("the letter of a pattern", mmlu),
    "math": ("math-verify", maths),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--since", type=Path)
    options = parser.parse_args()
    print(f"{'data':24} {'label':24} {'rows':>6} {'agree':>6} {'differ':>6} {'rewarded':>8}")
    rewards: dict[str, list[bool]] = {}
    before = json.loads(options.since.read_text("utf-8")) if options.since else {}
    for name, (label, read) in SETS.items():
        if not (options.data / name).is_dir():
            continue
        found = list(read(options.data / name))
        rewards[name] = [row.rewarded for row in found]
        differing = [row for row in found if row.ours != row.theirs]
        agree = len(found) - len(differing)
        figures = f"{len(found):6} {agree:6} {len(differing):6} {sum(rewards[name]):8}"
        print(f"{name:24} {label:24} {figures}")
        for row in differing if options.list else ():
            print(f"  ours {row.ours}, label {row.theirs}: {row.response[-300:]!r}")
        for row, old in zip(found, before.get(name, rewards[name]), strict=True):
            if row.rewarded != old:
                print(f"  {'lost' if old else 'gained'}: {row.response[-300:]!r}")
    if options.save:
        options.save.write_text(json.dumps(rewards), "utf-8")


if __name__ == "__main__":
    main()

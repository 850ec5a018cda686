"""Real responses that the verifier `choice` reads, and reads right.

`python bench/choices.py DATA [--out letters.json] [--before letters.json]`: a folder that holds
mmlu_pro_responses (TIGER-AI-Lab/MMLU-Pro: responses of two models, with the gold and the letter
that a pattern of theirs read). Prints, for each file, how many responses are read right, wrong and
not at all. `--out` keeps the letters, and `--before` names those of another version of ictcli: the
responses that only one of the two reads right are counted, and the lost ones printed.
"""

import argparse
import json
from pathlib import Path

from ictcli.rewards import grade


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--before", type=Path)
    options = parser.parse_args()
    before = json.loads(options.before.read_text("utf-8")) if options.before else {}
    letters: dict[str, list[str]] = {}
    print(f"{'file':32} {'rows':>5} {'right':>5} {'wrong':>5} {'none':>5} {'theirs':>6}")
    for file in sorted((options.data / "mmlu_pro_responses").glob("*.jsonl")):
        rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        golds = [row["gold"] for row in rows]
        verdicts = grade(
            [row["response"] for row in rows],
            golds,
            "choice",
            choices=[row["options"] for row in rows],
        )
        found = ["" if one.status == "unparsed" else one.extracted for one in verdicts]
        letters[file.name] = found
        right, none = sum(map(str.__eq__, found, golds)), found.count("")
        theirs = sum(row["regex_letter"] == row["gold"] for row in rows)
        wrong = len(rows) - right - none
        print(f"{file.stem:32} {len(rows):5} {right:5} {wrong:5} {none:5} {theirs:6}")
        if file.name in before:
            pairs = list(zip(before[file.name], found, rows, strict=True))
            lost = [row for old, new, row in pairs if old == row["gold"] != new]
            gained = sum(new == row["gold"] != old for old, new, row in pairs)
            print(f"  {len(lost)} lost, {gained} gained")
            for row in lost:
                print(f"    {row['gold']}: {row['response'][-200:]!r}")
    if options.out:
        options.out.write_text(json.dumps(letters), encoding="utf-8")


if __name__ == "__main__":
    main()

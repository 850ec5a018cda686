"""That training trains: the first steps of the quickstart on the model that ships."""

import json
from pathlib import Path

from processes import Processes


def test_the_first_steps_of_the_quickstart_make_the_model_better(
    ictcli: Processes, tmp_path: Path
) -> None:
    short = ("steps=10", "eval.problems=64", "eval.n=4", "record.rollouts_every=0", "--run", "run")
    ended = ictcli.run("train", "quickstart", *short, "--json", folder=tmp_path)
    summary = json.loads(ended.out)
    for score in ("pass@1", "greedy"):
        before, after = (summary[when][score]["value"] for when in ("before", "after"))
        assert before <= 0.45 and after > before + 0.1, (score, before, after)

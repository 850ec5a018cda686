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
    before, after = (summary[when]["pass@1"]["value"] for when in ("before", "after"))
    assert 0.4 <= before <= 0.65
    assert after > before + 0.1  # 0.37 when the recipe was made

"""Recall of the forks of `ledger` by score and share kept, on samples of the built-in model.

    python bench/ledger_forks.py

A row a task and share: of each response's tokens that share of the highest uniqueness u, entropy
H1, their product, or u with reference context:4; blind choice finds as much as its share.
"""

import torch

from ictcli.algorithm.selection import top_share
from ictcli.engine import build_engine
from ictcli.recipe.tables import EngineSettings, OptimizerSettings
from ictcli.tasks import find_task
from ictcli.tasks.forks import fork_mask
from ictcli.tasks.ledger.problem import SETTINGS
from ictcli.types import Sampling

PROBLEMS, SAMPLES = 32, 8
SHARES = (0.03, 0.05, 0.1, 0.2)


def main() -> None:
    torch.set_num_threads(1)
    settings = EngineSettings(backend="torch", device="cpu", threads=1)
    engine = build_engine("builtin:ledger", settings, OptimizerSettings())
    sampling = Sampling(300, stop_ids=engine.stop_ids)
    print(f"{'task':14}{'kept':>6}{'u':>7}{'H1':>7}{'u * H1':>8}{'context:4':>11}")
    for name in SETTINGS:
        task = find_task(name)
        asked = task.heldout(PROBLEMS)
        prompts = [engine.tokenizer(problem.prompt)["input_ids"] for problem in asked]
        rollouts = engine.generate(
            prompts, SAMPLES, sampling, seed=1, wanted=("uniqueness", "entropy")
        )
        forks = fork_mask(task, asked, rollouts, engine.tokenizer)
        like = engine.score(rollouts, ("context:4",))["context:4"]
        u, H1 = rollouts.stats["uniqueness"], rollouts.stats["entropy"]
        for share in SHARES:
            found = [
                top_share(score, rollouts.valid, share)[forks].mean()
                for score in (u, H1, u * H1, like)
            ]
            print(
                f"{name:14}{share:6.2f}{found[0]:7.2f}{found[1]:7.2f}{found[2]:8.2f}{found[3]:11.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()

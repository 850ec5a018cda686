"""The paper's own numbers (arXiv 2606.19771), to stand beside ours where the recipe is its own."""

import re

from ictcli.compare.comparison import PaperTable
from ictcli.recipe import Recipe

BENCHMARKS = ("MATH-500", "GSM8K", "MMLU-STEM", "GPQA", "AIME23", "AIME24", "AIME25")
METHODS = ("(before)", "grpo", "entropy20", "stapo", "ict")
TABLE = {
    "0.5B": """
        11.05/21.20 13.88/38.62 11.22/30.98 4.56/12.49 0.86/3.45 0/0 0/0
        11.70/23.20 42.87/63.15 12.52/32.27 5.11/8.44 0.86/3.45 0.56/2.25 0/0
        11.35/22.40 30.38/50.50 11.51/31.10 3.98/10.75 0.86/3.45 0/0 0/0
        10.23/21.50 40.88/64.50 12.34/32.20 2.78/8.37 0/0 0.57/2.27 0/0
        12.15/24.80 40.27/65.40 16.85/40.62 5.95/15.69 0.86/3.45 0.57/2.27 0/0""",
    "1.5B": """
        17.25/31.40 43.10/77.29 33.95/64.80 14.02/28.70 3.45/6.90 1.42/6.82 1.67/6.67
        17.90/33.80 61.51/81.71 29.70/61.40 13.84/28.91 4.11/10.21 0.28/4.56 0.21/2.47
        17.95/31.60 59.50/82.12 36.12/65.17 11.77/23.56 4.31/10.34 0.57/2.27 0.43/2.11
        18.05/32.80 62.31/80.15 35.24/59.24 16.65/29.34 4.45/11.21 1.71/4.55 0.83/3.33
        23.55/37.60 66.23/85.31 37.80/69.40 16.40/29.71 5.02/13.41 2.84/13.64 1.67/6.67""",
    "7B": """
        72.55/92.40 67.66/90.98 73.00/90.52 31.57/67.68 4.66/8.47 10/20 5/16.67
        73.25/93.20 84.70/94.39 74.31/90.26 30.54/64.14 5.51/6.78 5/16.67 2.5/6.67
        73.30/93.20 70.32/91.81 72.04/89.31 31.94/65.15 6.78/13.56 6.67/13.33 1.67/6.67
        78.05/93.60 85.24/93.93 76.03/90.10 30.18/64.14 7.20/13.56 10/20 4.17/13.33
        82.25/95.20 86.68/94.47 74.25/90.74 33.84/70.71 8.05/16.95 10.83/23.33 5/17.17""",
}
"""pass@1 / pass@4 in %, a line a method, a column a benchmark."""


def paper_table(recipe: Recipe) -> PaperTable | None:
    """The paper's rows for this size of model; None unless a Qwen2.5 learns GSM8K or MATH."""
    size = re.search(r"Qwen2\.5-(0\.5B|1\.5B|7B)(?!-)", recipe.model)
    if size is None or recipe.task not in ("gsm8k", "math"):
        return None
    lines = TABLE[size[1]].strip().splitlines()
    return PaperTable(
        note="Its models were trained on GSM8K and on MATH apart; pass@1 / pass@4 in %.",
        rows=[
            {"method": method, **dict(zip(BENCHMARKS, line.split(), strict=True))}
            for method, line in zip(METHODS, lines, strict=True)
        ],
    )

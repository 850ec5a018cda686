"""The hub data sets behind the named tasks and benchmarks, each at a pinned commit."""

from dataclasses import dataclass


@dataclass(frozen=True)
class HubSource:
    """A data set of the hub: one split of each config, in order."""

    path: str
    revision: str | None
    """Commit, branch or tag to load; None = the newest commit."""
    configs: tuple[str, ...]
    """Empty name = the only config."""
    split: str
    rows: int | None
    """Total number of rows at that commit; None for a custom data set."""
    gated: bool = False
    """Whether a user must accept its terms on its page before loading it."""

    @property
    def page(self) -> str:
        """Its page on the hub."""
        return f"https://huggingface.co/datasets/{self.path}"


MMLU_STEM = (
    *("abstract_algebra", "astronomy", "college_biology", "college_chemistry"),
    *("college_computer_science", "college_mathematics", "college_physics", "computer_security"),
    *("conceptual_physics", "electrical_engineering", "elementary_mathematics"),
    *("high_school_biology", "high_school_chemistry", "high_school_computer_science"),
    *("high_school_mathematics", "high_school_physics", "high_school_statistics"),
    "machine_learning",
)
_GSM8K = ("openai/gsm8k", "740312add88f781978c0658806c59bc2815b9866")
_GPQA = ("Idavidrein/gpqa", "633f5ee89ab8ad4522a9f850766b73f62147ffdd")
_MATH = ("DigitalLearningGmbH/MATH-lighteval", "0530c78699ea5e8eb5530600900e1f328b48acad")
_MATH500 = ("HuggingFaceH4/MATH-500", "6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be")
_MMLU = ("cais/mmlu", "c30699e8356da336a370243923dbaf21066bb9fe")
_AIMO = ("AI-MO/aimo-validation-aime", "13f9e12f613e720c2a2b2f345dd04b998a29494d")
_AIME24 = ("HuggingFaceH4/aime_2024", "2fe88a2f1091d5048c0f36abc874fb997b3dd99a")
_AIME25 = ("opencompass/AIME2025", "a6ad95f611d72cf628a80b58bd0432ef6638f958")

SOURCES = {
    "gsm8k-train": HubSource(*_GSM8K, ("main",), "train", 7473),
    "math-train": HubSource(*_MATH, ("default",), "train", 7500),
    "math500": HubSource(*_MATH500, ("default",), "test", 500),
    "gsm8k": HubSource(*_GSM8K, ("main",), "test", 1319),
    "mmlu_stem": HubSource(*_MMLU, MMLU_STEM, "test", 3018),
    "gpqa": HubSource(*_GPQA, ("gpqa_main",), "train", 448, gated=True),
    "gpqa_diamond": HubSource(*_GPQA, ("gpqa_diamond",), "train", 198, gated=True),
    "aime23": HubSource(*_AIMO, ("default",), "train", 90),
    "aime24": HubSource(*_AIME24, ("default",), "train", 30),
    "aime25": HubSource(*_AIME25, ("AIME2025-I", "AIME2025-II"), "test", 30),
}

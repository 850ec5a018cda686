"""What a user may set for `ictcli generate`, named as in a recipe."""

from pydantic import Field

from ictcli.evaluation.settings import ModelSettings


class GenerateSettings(ModelSettings):
    """How a model is asked, and how often."""

    n: int = Field(default=1, ge=1)
    """Answers to a prompt."""

"""What a run on TRL is planned and refused by. Imports no torch."""

from ictcli_torch.plan import PACKS_ON, held, sampling, updating

from ictcli.errors import UserError
from ictcli.recipe import Recipe

__all__ = ["PACKS_ON", "check", "held", "inexpressible", "sampling", "updating"]


def inexpressible(term: str) -> tuple[str, str]:
    """Message and hint for a term of the loss that TRL does not have."""
    return f"TRL's loss has no place for {term}.", "--backend torch has, in one process"


def check(recipe: Recipe) -> None:
    """Entry point `ictcli.checks`: refuse a recipe whose loss is not one of TRL's.

    TRL takes the mean of an entropy at the sampling temperature over a pass; ictcli's bonus is a
    weighted sum of entropies at temperature 1.
    """
    if recipe.entropy:
        raise UserError(*inexpressible("the entropy bonus"))
    if recipe.rule.name == "kl_cov":
        raise UserError(*inexpressible("the KL to the old policy, which kl_cov adds"))

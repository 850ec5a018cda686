"""Methods that train whole responses and differ in how the ratio pi / pi_old is clipped.

With one optimiser update a batch the ratio is 1, and that makes no difference.
"""

from pydantic import Field

from ictcli.algorithm.objective import LIKELIHOOD, Clip
from ictcli.algorithm.registry import Choice, Options, Scored, register


class GspoOptions(Options):
    low: float = Field(default=3e-4, ge=0, le=1)
    """Clip distance below 1 of the ratio of a response; 1 is off."""
    high: float = Field(default=4e-4, ge=0)
    """Clip distance above 1."""


@register("arXiv 2507.18071, Eq. 5 to 7", options=GspoOptions, clips=True)
def gspo(batch: Scored, options: GspoOptions) -> Choice:
    """Every token, with the ratio of its whole response, exp(mean log pi / pi_old), clipped.

    A response beyond the clip is not trained at all. After the first update of a batch this takes
    another pass over the responses in each.
    """
    return Choice(batch.valid, clip=Clip("sequence", options.low, options.high))


class CispoOptions(Options):
    low: float = Field(default=1.0, ge=0, le=1)
    """Clip distance of the weight below 1; 1, the paper's, is off."""
    high: float = Field(default=4.0, ge=0)
    """Clip distance above 1: a token weighs 1 + high at most. Ours: the paper gives no value; 5 is
    that of ScaleRL (arXiv 2510.13786)."""


@register("arXiv 2506.13585, Eq. 4", options=CispoOptions, normalisation="tokens", clips=True)
def cispo(batch: Scored, options: CispoOptions) -> Choice:
    """Every token, by the ratio as a clipped weight of log pi: none loses its gradient.

    Ours: the mean is over the tokens of the batch, where the paper's is over a group's.
    """
    return Choice(batch.valid, clip=Clip("weight", options.low, options.high))


@register("arXiv 2308.01825", normalisation="kept", clips=True, of_correct=True)
def rft(batch: Scored, options: Options) -> Choice:
    """The likelihood of correct responses, and nothing else: the mean of -log pi over their tokens.

    Rejection-sampling fine-tuning, one step's samples at a time (as RAFT, arXiv 2304.06767, keeps
    the best ones). Neither the group nor the ratio counts: its weight is clipped to exactly 1.
    Ours: duplicate responses are kept, and pi is taken at the sampling temperature."""
    return Choice(batch.valid & batch.correct[:, None], clip=LIKELIHOOD)

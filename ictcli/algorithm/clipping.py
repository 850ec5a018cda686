"""Methods that train whole responses and differ in how the ratio pi / pi_old is clipped.

With one optimiser update per batch the ratio is 1, and clipping has no effect.
"""

from pydantic import Field

from ictcli.algorithm.objective import LIKELIHOOD, Clip
from ictcli.algorithm.registry import Choice, Options, Scored, register


class GspoOptions(Options):
    low: float = Field(default=3e-4, ge=0, le=1)
    """How far below 1 a response's ratio is clipped; 1 is off."""
    high: float = Field(default=4e-4, ge=0)
    """How far above 1 a response's ratio is clipped."""


@register("arXiv 2507.18071, Eq. 5 to 7", options=GspoOptions, clips=True)
def gspo(batch: Scored, options: GspoOptions) -> Choice:
    """Every token; the ratio is that of the whole response, exp(mean log pi / pi_old), clipped.

    A response whose ratio is clipped gets no gradient. Each update of a batch after the first needs
    one more forward pass over the responses."""
    return Choice(batch.valid, clip=Clip("sequence", options.low, options.high))


class CispoOptions(Options):
    low: float = Field(default=1.0, ge=0, le=1)
    """How far below 1 a token's weight is clipped; 1 is off, as in the paper."""
    high: float = Field(default=4.0, ge=0)
    """How far above 1 a token's weight is clipped: the weight is at most 1 + high. Ours: the paper
    gives no value; ScaleRL (arXiv 2510.13786) has 1 + high = 5."""


@register("arXiv 2506.13585, Eq. 4", options=CispoOptions, normalisation="tokens", clips=True)
def cispo(batch: Scored, options: CispoOptions) -> Choice:
    """Every token; the clipped ratio is a weight of log pi, so that no token loses its gradient.

    Ours: the mean is over the tokens of the batch; the paper's is over those of a group."""
    return Choice(batch.valid, clip=Clip("weight", options.low, options.high))


@register("arXiv 2308.01825", normalisation="kept", clips=True, of_correct=True)
def rft(batch: Scored, options: Options) -> Choice:
    """Only correct responses: the loss is the mean of -log pi over their tokens.

    Rejection-sampling fine-tuning on the samples of each step (RAFT, arXiv 2304.06767, keeps the
    best samples). Responses are not compared with their group, and the ratio is clipped to a weight
    of 1. Ours: duplicate responses are kept, and pi is taken at the sampling temperature."""
    return Choice(batch.valid & batch.correct[:, None], clip=LIKELIHOOD)

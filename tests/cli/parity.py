"""A plugin: a verifier that about half of all responses satisfy, so that a model of random weights
has groups with a signal."""

from ictcli.rewards import Verdict, register_verifier


@register_verifier("parity")
def parity(response: str, gold: str) -> Verdict:
    return Verdict("wrong" if len(response) % 2 else "correct", str(len(response)))

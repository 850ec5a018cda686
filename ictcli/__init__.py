"""ictcli: train small reasoning models with verifiable rewards, and see which tokens did it."""

__version__ = "0.1.0"

"""Verifiers, which compare a response with its gold answer and return a verdict.

`grade` judges one response or many; `explain` also says how the response and the gold were parsed.
To add a verifier, call `register_verifier(name)` in a plugin file, or name a function as
`my_rewards.py:grade`: docs/extending.md."""

from ictcli.rewards import builtin as builtin  # registers the built-in verifiers
from ictcli.rewards.explanations import Explanation as Explanation
from ictcli.rewards.explanations import Reading as Reading
from ictcli.rewards.grading import LIMITS as LIMITS
from ictcli.rewards.grading import Limits as Limits
from ictcli.rewards.grading import explain as explain
from ictcli.rewards.grading import grade as grade
from ictcli.rewards.verifiers import VERIFIERS as VERIFIERS
from ictcli.rewards.verifiers import Judge as Judge
from ictcli.rewards.verifiers import Status as Status
from ictcli.rewards.verifiers import Verdict as Verdict
from ictcli.rewards.verifiers import Verifier as Verifier
from ictcli.rewards.verifiers import as_verifier as as_verifier
from ictcli.rewards.verifiers import find_verifier as find_verifier
from ictcli.rewards.verifiers import register_verifier as register_verifier

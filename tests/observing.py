"""An observer that writes down what it is told of a run."""

from ictcli.evaluation.record import Evaluation
from ictcli.runs.observer import Observer, Step


class Notes(Observer):
    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.evaluations: list[str] = []
        self.warnings: list[str] = []
        self.label = ""  # of the evaluation under way
        self.done = 0  # samples of it

    def evaluating(self, label: str, done: int, total: int) -> None:
        self.label, self.done = label, done

    def evaluated(self, label: str, evaluation: Evaluation) -> None:
        self.evaluations.append(label)
        self.label = ""

    def stepped(self, step: Step) -> None:
        self.steps.append(step)

    def warned(self, message: str) -> None:
        self.warnings.append(message)

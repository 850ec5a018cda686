"""A module `wandb` of our own, and an evaluation to track."""

from ictcli.evaluation.passk import Interval
from ictcli.evaluation.record import Evaluation, SampleSettings

FAKE = """
import json, os, time
import os.path as path
kind = os.environ["FAKE_WANDB"]
if kind == "import":
    raise ImportError("no module of that name")
print("a library that prints")

class Settings:
    def __init__(self, **given):
        assert given["console"] == "off" and given["disable_git"] and given["x_disable_meta"]

class init:
    def __init__(self, **given):
        if kind == "init":
            raise OSError("no server")
        self.out = open(path.join(given["dir"], "fake.jsonl"), "a")
        self.write({"id": given["id"], "mode": given["mode"], "resume": given["resume"]})
    def write(self, data):
        self.out.write(json.dumps(data) + "\\n")
        self.out.flush()
    def log(self, values, step):
        if kind == "log" and step == 2:
            raise ValueError("not this step")
        if kind == "hang":
            time.sleep(600)
        self.write({"step": step, **values})
    def finish(self):
        if kind == "finish":
            time.sleep(600)
"""


EVALUATION = Evaluation(
    benchmark="b",
    problems=1,
    n=4,
    scores={"pass@1": Interval(0.5, 0.25, 0.75), "maj@4": None},
    accuracy=0.5,
    truncated=0.0,
    unparsed=0.0,
    timed_out=0.0,
    tokens=8,
    tokens_per_response=2.0,
    seconds=3.0,
    tokens_per_second=None,
    settings=SampleSettings(
        max_tokens=8,
        temperature=1.0,
        top_p=1.0,
        top_k=0,
        stop_ids=(),
        prompt={},
        seed=0,
    ),
    correct=(2,),
    majority=None,
)

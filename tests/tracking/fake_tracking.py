"""A module `wandb` of our own, and an evaluation to track."""

from made_runs import evaluation

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


EVALUATION = evaluation({"pass@1": 0.5, "maj@4": None})

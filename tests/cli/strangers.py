"""What comes from others: commands on a run, and a world in which every name and text is hostile: a
model, its tokens, data, a plugin, a run."""

import json
import shutil
from pathlib import Path
from typing import Any, cast

COMMANDS = {
    "resume": ("resume", "run"),
    "eval": ("eval", "run", "--bench", "chain", "--limit", "1", "--n", "1", "-k", "1"),
    "generate": ("generate", "run", "1+2="),
    "inspect": ("inspect", "run", "--plain"),
    "export": ("export", "run", "--out", "out"),
    "compare": ("compare", "run/recipe.toml", "--methods", "ict,random", "--seeds", "1"),
    "train": ("train", "run/recipe.toml", "--dry-run"),
}
"""Each begins to read the run in `run`."""
RECIPE = 'model = "builtin:chain"\ntask = "chain"\nmethod = "ict"\nsteps = 2\ntemperature = 1.0\n'

ESCAPES = "\x1b[95;105m\x1b]0;pwned\x07\x9b2J\x9d\x08\x7f\r\x0b\x85\u202e\u2066\u200b\u2028\ue000"
FORGED = "\nerror: forged\n\nhint: forged\n# forged\n---\n| forged |\n"
MARKUP = (
    "[red][/nope][link=x]`|*b*[a](javascript:pwn)![i](x)&amp;'\"<!--</script>"
    '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>'
)
HOSTILE = f"{ESCAPES}{FORGED}{MARKUP}漢字 🙂 é"
NAME = "\x1b[95;105m\x9b\x07\r\u202e\nhint: forged\n[/red]`|<img src=x onerror='window.pwned=1'>"
"""Of files and folders, which have no slash and are not as long."""
NAME = NAME.replace("/", "")

PLUGIN = f"""
from ictcli.algorithm.methods import Choice, Options, register
from ictcli.rewards import Verdict, register_verifier

class Hostile(Options):
    note: str = {HOSTILE!r}

def rule(batch, options):
    return Choice(batch.valid)

rule.__name__ = rule.__doc__ = {HOSTILE!r}
register({HOSTILE!r}, options=Hostile)(rule)

@register_verifier({HOSTILE!r})
def verifier(response, gold):
    return Verdict("wrong" if len(response) % 2 else "correct", {HOSTILE!r}, {HOSTILE!r})
"""


class World:
    """Files in `folder`, whose names are hostile, and the place of a run of them."""

    def __init__(self, folder: Path, tiny_model: Path) -> None:
        self.folder = folder / NAME
        self.model, self.run = self.folder / f"{NAME}m", self.folder / f"{NAME}r"
        self.data, self.plugin = self.folder / f"{NAME}.jsonl", self.folder / f"{NAME}.py"
        shutil.copytree(tiny_model, self.model)
        self.plugin.write_text(PLUGIN, "utf-8")
        row = {"gold": HOSTILE, "response": HOSTILE}
        rows = [{**row, "prompt": f"1+{i}={HOSTILE}", "id": f"{HOSTILE}{i}"} for i in range(40)]
        self.bench = self.folder / f"{NAME}b.jsonl"
        for path, golds in ((self.data, {}), (self.bench, {"gold": "7"})):
            path.write_text("".join(json.dumps({**row, **golds}) + "\n" for row in rows))
        tokenizer = self.model / "tokenizer.json"
        found = json.loads(tokenizer.read_text())
        vocabulary = found["model"]["vocab"]
        vocabulary[HOSTILE] = id_ = vocabulary.pop("*")
        plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
        found["added_tokens"].append({"id": id_, "content": HOSTILE, **plain})
        tokenizer.write_text(json.dumps(found))

    @property
    def keys(self) -> tuple[str, ...]:
        """Of a recipe of it all."""
        return (
            *(f"model={self.model}", f"task={self.data}", f"reward={HOSTILE}"),
            *(f"plugins={json.dumps([str(self.plugin)])}", "prompts=2", "group=2"),
            *("max_tokens=12", "eval.problems=2", "eval.n=2", "eval.k=[1,2]", "steps=2"),
            *("warmup=0", "record.rollouts_every=1", "checkpoint.every=1"),
        )

    def spoil(self) -> None:
        """Make the texts of the run's JSON hostile."""
        for name in ("environment.json", "summary.json"):
            path = self.run / name
            path.write_text(json.dumps(hostile(json.loads(path.read_text()))), "utf-8")


def hostile(value: Any, key: str = "") -> Any:
    """The same JSON with HOSTILE after every text but checksums and what a command opens."""
    if isinstance(value, dict):
        table = cast(dict[str, Any], value)
        return {name: hostile(item, name) for name, item in table.items()}
    if isinstance(value, list):
        return [hostile(item, key) for item in cast(list[Any], value)]
    kept = "sha256" in key or key in ("model", "task", "metric", "path", "file", "name")
    return f"{value}{HOSTILE}" if isinstance(value, str) and not kept else value

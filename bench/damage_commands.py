"""The commands of damage.py, and the folders that they run on."""

from dataclasses import dataclass

from run_folders import COMPARE, EVALUATE


@dataclass(frozen=True)
class Command:
    """A command, on which of the folders it runs, and how often it is drawn."""

    name: str
    arguments: tuple[str, ...]
    on: str = "finished"
    share: int = 4
    files: str = "**/*"


EVAL = ("eval", "run", "--bench", "chain", "--limit", "2", "--n", "1", "-k", "1")
GENERATE = ("generate", "run/model", "1+2=", "max_tokens=4", "--json")
PLAN = ("train", "chain", "--dry-run", "--json")
COMMANDS = (
    Command("ls", ("runs", "ls", ".", "--json"), share=6),
    Command("ls", ("runs", "ls", "."), share=2),
    Command("check", ("runs", "check", "run", "--json")),
    Command("gc", ("runs", "gc", "run", "--finished", "--json"), share=2),
    Command("show", ("runs", "show", "run", "--json")),
    Command("show", ("runs", "show", "run")),
    Command("diff", ("runs", "diff", "run", "other", "--json")),
    Command("diff", ("runs", "diff", "run", "other")),
    Command("inspect", ("inspect", "run", "--json")),
    Command("inspect", ("inspect", "run", "--plain", "--step", "4"), files="[!c]*/*"),
    Command("inspect", ("inspect", "run", "--branches", "--json"), files="r*/*"),
    Command("inspect", ("inspect", "run", "--html", "page.html"), share=2),
    Command("resume", ("resume", "run", "--json"), "stopped"),
    Command("resume", ("resume", "run"), share=1),
    Command("eval", EVAL, share=2),
    Command("eval", EVAL, files="model/*"),
    Command("export", ("export", "run", "--merge", "--out", "out"), share=2),
    Command("export", ("export", "run", "--checkpoint", "4", "--out", "out")),
    Command("gather", COMPARE, "comparison"),
    Command("plan", ("train", "run/recipe.toml", "--dry-run", "--json"), share=2, files="*.toml"),
    Command("generate", GENERATE, share=2, files="model/*"),
    Command("again", EVALUATE, "evaluation"),
    Command("plan", (*PLAN, "model=run/model"), share=2, files="model/*"),
    Command("grade", ("grade", "run/data.jsonl", "--json"), "data"),
    Command("data", (*PLAN, "task=run/data.jsonl"), "data"),
)

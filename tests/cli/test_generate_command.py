"""`ictcli generate` as users call it: one prompt, a pipe, a chat on a terminal."""

import json
import re
import shutil
import signal
from pathlib import Path

import pytest
from processes import Processes, wait_until
from terminal import Terminal

QUESTION = "3+4*2-5="
GREEDY = "7*2-5;7*7;9#"
"""What the built-in model answers at temperature 0."""
CHAIN = ("generate", "builtin:chain", QUESTION, "--temperature", "0")


@pytest.fixture(scope="session")
def endless(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose answers end at max_tokens alone."""
    folder = shutil.copytree(tiny_model, tmp_path_factory.mktemp("endless") / "model")
    for name in ("config.json", "generation_config.json"):
        config = json.loads((folder / name).read_text())
        config |= {"eos_token_id": None, "max_position_embeddings": 1 << 20}
        (folder / name).write_text(json.dumps(config))
    return folder


def test_the_answer_is_on_stdout_and_the_rest_on_stderr(ictcli: Processes) -> None:
    ended = ictcli.run(*CHAIN, "--backend", "torch")
    assert (ended.code, ended.out) == (0, GREEDY + "\n")
    assert ended.err.count("\n") == 2 and "builtin-chain: 335,136 parameters, torch" in ended.err


def test_a_run_answers_as_its_recipe_says_every_time(ictcli: Processes, trained: Path) -> None:
    asked = ("generate", trained, QUESTION, "--n", "3", "--seed", "5")
    plain, told = ictcli.done(*asked), ictcli.json(*asked)
    assert plain.out == "".join(
        f"[{number} of 3]\n{answer['text']}\n" for number, answer in enumerate(told["answers"], 1)
    )
    assert told["settings"] | {"n": 3, "seed": 5, "max_tokens": 24} == told["settings"]
    assert told["question"] == told["prompt"] == QUESTION
    assert len(told["sha256"]) == 64
    for answer in told["answers"]:
        assert 0 < len(answer["text"]) <= len(answer["tokens"]) <= 24
        assert answer["finished"] == answer["text"].endswith("#")
    early = ictcli.json(*asked, "--checkpoint", "4")
    assert early["name"] == "run-step-000004" and early["sha256"] != told["sha256"]


def test_a_prompt_is_read_from_stdin(ictcli: Processes, tmp_path: Path) -> None:
    (tmp_path / "prompt.txt").write_text("3+4\n")
    for typed in ((), ("-",)):
        asked = ("generate", "builtin:chain", *typed, "temperature=0")
        ended = ictcli.done(*asked, stdin=tmp_path / "prompt.txt")
        assert ended.out.strip()


def test_a_gold_gives_a_verdict_with_its_grounds(ictcli: Processes) -> None:
    for keys, verdict, answer in ((), "correct", "9"), (("max_tokens=4",), "unparsed", "none"):
        asked = (*CHAIN, "--gold", "9", *keys)
        ended = ictcli.run(*asked)
        lines = [line.split()[:2] for line in ended.out.splitlines()[1:]]
        expected = [["verdict:", verdict], ["answer", answer], ["gold", "9"]]
        assert [[name, word.strip(",")] for name, word in lines] == expected
        assert ("cut at 4 tokens; max_tokens=8 allows more" in ended.err) == bool(keys)
        told = ictcli.json(*asked)
        assert (told["gold"], told["answers"][0]["verdict"]["status"]) == ("9", verdict)


def test_ctrl_c_keeps_what_is_there(ictcli: Processes, endless: Path) -> None:
    asked = ("generate", endless, QUESTION, "--n", "2", "max_tokens=100000")
    running = ictcli.start(*asked)
    wait_until(lambda: len(running.out.read_text()) > 40)  # written while it goes on
    running.send(signal.SIGINT)
    ended = running.wait()
    assert ended.code == 130
    assert re.search(r"note: stopped by Ctrl-C after [\d,]+ tokens\.\n\Z", ended.err)
    assert re.fullmatch(r"\[1 of 2\]\n.{20,}\n\[2 of 2\]\n.{20,}\n", ended.out)


def chat(ictcli: Processes, folder: Path, *args: str | Path) -> Terminal:
    return Terminal(ictcli, folder, "generate", *args, TERM="dumb", NO_COLOR="1")


def test_a_chat_answers_until_it_is_left(ictcli: Processes, tmp_path: Path) -> None:
    with chat(ictcli, tmp_path, "builtin:chain", "temperature=0") as terminal:
        text = terminal.see(r"> \Z")
        assert "The model does not see earlier prompts" in text and "Prompts look like " in text
        terminal.press(f"{QUESTION}\n", f"{re.escape(GREEDY)}\n> ")
        terminal.press("What is 3?\n", r"becomes '3'.\nhint: prompts look like ")
        terminal.press("\x04")
        assert terminal.end() == 0

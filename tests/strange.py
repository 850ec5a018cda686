"""A model's folder as a stranger may fill it: every kind of file that has no place in one."""

import json
import shutil
from pathlib import Path

PYTHON = "import pathlib\npathlib.Path('/tmp/ictcli-ran-a-stranger-s-code').touch()\n"
EXTRA = {
    "pytorch_model.bin": "gASVHQAAAAAAAACMBXBvc2l4", "modeling_x.py": PYTHON, "conftest.py": PYTHON,
    "tokenization_x.py": PYTHON, "install.sh": "rm -rf ~", ".env": "TOKEN=SECRET", "lib.so": "\x7f",
    "weights.pt": "x", "credentials.json": "{}", "aws_config.json": "{}", ".tokenizer.json": "{}",
    ".git/config": "url=SECRET", "nested/config.json": "{}", "nested/x.py": PYTHON,
    "nested/model.safetensors": "", "custom_generate/generate.py": PYTHON, "id_rsa": "SECRET",
    "additional_chat_templates/x.py": PYTHON, "LICENSE.py": PYTHON, "README.md.sh": "x",
    "config.json.bak": "{}", "tokenizer.json.pkl": "x", "optimizer.pt": "x", "notes.txt": "SECRET",
    ".env.tiktoken": "SECRET", "additional_chat_templates/.x.jinja": "SECRET",
    "sitecustomize.py": PYTHON, "requirements.txt": "evil", "training_args.bin": "x",
}  # fmt: skip
STRANGE = {*EXTRA}
MAP = {"AutoConfig": "modeling_x.C", "AutoModelForCausalLM": "evil/hub--modeling_x.M"}


def strange(model: Path, folder: Path) -> Path:
    """A copy of a model with such files beside it, and settings that name the code."""
    shutil.copytree(model, folder)
    texts = {"LICENSE": "Free.", "merges.txt": "#version: 0.2\n"}
    texts |= {"additional_chat_templates/tools.jinja": "{{ messages }}"}
    for name, text in (EXTRA | texts).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    for name in ("config.json", "tokenizer_config.json"):
        settings = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(settings | {"auto_map": MAP}))
    return folder

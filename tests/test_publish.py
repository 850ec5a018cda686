"""What is published says what is tested."""

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = {path.stem: path.read_text("utf-8") for path in (ROOT / ".github").glob("*/*.yml")}


def test_classifiers_name_the_pythons_that_are_tested() -> None:
    jobs = yaml.safe_load(WORKFLOWS["tests"])["jobs"]
    steps = [step for job in jobs.values() for step in job["steps"]]
    tested = {step["with"]["python-version"] for step in steps if "setup-python" in str(step)}
    tested = {version for version in tested if "matrix" not in version}
    tested |= set(jobs["linux"]["strategy"]["matrix"]["python"])
    named = re.findall(r":: (3\.\d+)$", "\n".join(PROJECT["classifiers"]), re.M)
    assert sorted(tested) == sorted(named)
    assert f">={min(named)}" == PROJECT["requires-python"]


def test_actions_are_pinned_by_digest() -> None:
    for uses in re.findall(r"uses: (.*)", "".join(WORKFLOWS.values())):
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", uses), uses


def test_the_citation_is_of_this_version() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert [cited[key] for key in ("title", "version", "license")] == [
        PROJECT[key] for key in ("name", "version", "license")
    ]

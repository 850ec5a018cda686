"""Which number format engine.dtype = "auto" takes."""

import itertools
from pathlib import Path

import pytest

from ictcli.engine import dtype

FLAGS = "processor\t: 0\nflags\t\t: fpu sse2 {}\nbugs\t\t:\n"


@pytest.mark.parametrize("flag", ["avx512_bf16", "amx_bf16"])
def test_a_cpu_that_multiplies_bfloat16_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flag: str
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(dtype, "CPUINFO", tmp_path / "cpuinfo")
    answers = list[bool]()
    for text in (FLAGS.format(flag), FLAGS.format("avx512f"), None):
        (tmp_path / "cpuinfo").unlink(missing_ok=True)
        if text is not None:
            (tmp_path / "cpuinfo").write_text(text)
        dtype.multiplies_bfloat16.cache_clear()
        answers.append(dtype.multiplies_bfloat16())
    dtype.multiplies_bfloat16.cache_clear()
    assert answers == [True, False, False]


@pytest.mark.parametrize("native", [True, False])
def test_auto_leaves_16_bits_below_adapters_alone(
    monkeypatch: pytest.MonkeyPatch, native: bool
) -> None:
    monkeypatch.setattr(dtype, "multiplies_bfloat16", lambda: native)
    stored = ("bfloat16", "float16", "float32", "")
    for kind, gpu, full in itertools.product(stored, (False, True), (False, True)):
        chosen = dtype.in_bfloat16("auto", kind, gpu=gpu, trains_weights=full)
        assert chosen == (gpu or (native and kind == "bfloat16" and not full))
        for setting in ("float32", "bfloat16"):
            chosen = dtype.in_bfloat16(setting, kind, gpu=gpu, trains_weights=full)
            assert chosen == (setting == "bfloat16")

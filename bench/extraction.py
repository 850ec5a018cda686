"""Seconds to judge 10 MB of special characters: the whole of what tests/rewards samples.

`python bench/extraction.py [--size 10000000] [--around '\\boxed{*}']`: every ASCII character that
is no letter or digit, and every pair of them, repeated to the size, judged as math, integer and
choice, and as integer with a pattern. `--around` puts text around it, at the star. Prints the
slowest texts and exits with 1 if one took a second of CPU time or more.
"""

import argparse
import sys
import time

from ictcli.rewards import grade

SPECIAL = [chr(code) for code in range(128) if not chr(code).isalnum()]
KINDS = (("math", None), ("integer", None), ("choice", None), ("integer", "^A: (.*)$"))
SECONDS = 1.0
SHOWN = 10


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=10_000_000)
    parser.add_argument("--around", default="*")
    options = parser.parse_args()
    before, _, after = options.around.partition("*")
    units = [*SPECIAL, *(a + b for a in SPECIAL for b in SPECIAL if a != b)]
    results: list[tuple[float, str, str]] = []
    for number, unit in enumerate(units, 1):
        text = before + unit * (options.size // len(unit)) + after
        for kind, pattern in KINDS:
            started = time.process_time()
            grade(text, "A" if kind == "choice" else "7", kind, pattern=pattern)
            name = kind if pattern is None else f"{kind}, pattern"
            results.append((time.process_time() - started, unit, name))
        if sys.stderr.isatty():
            print(f"\r{number}/{len(units)}", end="", file=sys.stderr)
    results.sort(reverse=True)
    slow = sum(seconds >= SECONDS for seconds, _, _ in results)
    print(
        f"{len(units)} texts of {options.size:,} characters, {len(results)} verdicts: {slow} slow"
    )
    for seconds, unit, name in results[:SHOWN]:
        print(f"{seconds:6.3f} s  {unit!r:8}  {name}")
    return int(slow > 0)


if __name__ == "__main__":
    sys.exit(main())

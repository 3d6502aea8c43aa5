#!/usr/bin/env python3
"""Which lines of the CUDA code do the tests on the simulated GPU run?

    tests/cuda_reports/coverage.py

Builds build/coverage, in which only the code for CUDA is counted (kernels/cuda, core/cuda_*, comm/nccl_*), and runs its
tests. Prints each file's share and every line that no test runs, with the reason that uncovered.json has for it; fails
below BAR percent, and where a line of uncovered.json is no longer in its file. Counted by gcov, read by gcovr (Debian
has both).
"""

import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "coverage"
FILES = "(kernels/cuda/|core/cuda_|comm/nccl_)"
BAR = 95.0


def run(*arguments, **more):
    return subprocess.run(list(map(str, arguments)), cwd=ROOT, check=True, text=True, **more)


def count():
    """gcovr's report of a fresh run of the tests."""
    include = pathlib.Path(__file__).with_suffix(".cmake")
    run("scripts/build", "cudasim", f"-DCMAKE_PROJECT_INCLUDE={include}", "-DCMAKE_EXE_LINKER_FLAGS=--coverage", "--",
        "test_cudasim", "test_cuda", "nvtx_tool", "kernel_bench", "step_bench", "resnet_train",
        env={**os.environ, "BUILD_NAME": "coverage"})
    for counts in BUILD.rglob("*.gcda"):
        counts.unlink()
    run("ctest", "-j", "2", "--test-dir", BUILD, "--no-tests=error", "--output-on-failure", "-R", "^cudasim(|_device|_programs)$")
    return json.loads(run("gcovr", "--root", ROOT, "--filter", FILES, "--json", "-", BUILD, stdout=subprocess.PIPE).stdout)


def main():
    reasons = json.loads((pathlib.Path(__file__).parent / "uncovered.json").read_text())
    wrong = [f"uncovered.json: {name} has no line {text!r}" for name, lines in reasons.items() for text in lines
             if text not in [line.strip() for line in (ROOT / name).read_text().splitlines()]]
    total = covered = 0
    missed = []
    for file in count()["files"]:
        # A header is seen through the build's link to its folder.
        name = re.sub(r"^build/coverage/include_roots/\w+/", "", file["file"])
        lines = [line for line in file["lines"] if not line.get("gcovr/noncode")]
        if not lines:
            continue
        hit = sum(line["count"] > 0 for line in lines)
        total, covered = total + len(lines), covered + hit
        print(f"{name:45} {hit:5} of {len(lines):5}  {100 * hit / len(lines):6.2f}%")
        source = (ROOT / name).read_text().splitlines()
        for line in lines:
            if line["count"] == 0:
                text = source[line["line_number"] - 1].strip()
                reason = reasons.get(name, {}).get(text, "no reason is known")
                missed.append(f"{name}:{line['line_number']}: {text}\n    {reason}")
    print("\nnot run:", *missed, *wrong, sep="\n")
    share = 100 * covered / total if total else 0
    print(f"coverage of the CUDA code: {share:.2f}% of {total} lines, {len(missed)} are not run; the bar is {BAR:.0f}%")
    return 1 if wrong or share < BAR else 0


if __name__ == "__main__":
    sys.exit(main())

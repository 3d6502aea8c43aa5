#!/usr/bin/env python3
"""How many bytes each op of the CUDA backend moves, over the least that it can do with.

    tests/cuda_reports/bytes_moved.py build/cudasim/bin/cuda_bytes_moved [--write]

Fails where the table in docs/results/cuda_kernels.md is out of date; --write writes it.
"""

import subprocess
import sys

import table


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--write"]):
        sys.exit(__doc__)
    rows = subprocess.run([sys.argv[1]], check=True, capture_output=True, text=True).stdout.splitlines()
    titles = ["op", "bf16: moved", "bf16: asked for", "f32: moved", "f32: asked for"]
    text = table.markdown(titles, [[cell.strip() for cell in row.strip("|").split("|")] for row in rows])
    print(text)
    problems = table.check("bytes", text, bool(sys.argv[2:]), f"{sys.argv[0]} {sys.argv[1]} --write")
    print("\n".join(problems))
    return 1 if problems or len(rows) < 10 else 0


if __name__ == "__main__":
    sys.exit(main())

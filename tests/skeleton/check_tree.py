#!/usr/bin/env python3
"""Checks the tree itself: a README in each folder, scripts that parse, no local paths.

usage: check_tree.py ROOT
"""

import pathlib
import re
import shutil
import subprocess
import sys

FOLDERS_WITH_README = [
    "core", "kernels", "kernels/reference", "kernels/cpu", "kernels/cuda", "layers", "models", "comm", "data",
    "apps", "tests", "bench", "docs", "scripts",
]
README_LINES = 60
IGNORED = {".git", "build", ".venv", ".cuda", "runs", "__pycache__"}
TEXT = {".h", ".cpp", ".cu", ".cuh", ".md", ".py", ".txt", ".cmake", ".json", ".yml", ""}
# Paths of one person's machine. Written in pieces, so that this file does not contain them.
LOCAL_PATH = re.compile(r"(?<![\w.~$}])/(?:" + "|".join(["wor" + "k", "hom" + "e", "roo" + "t", "Use" + "rs"]) + r")/[\w.]+")


def files(root):
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if path.is_file() and not IGNORED.intersection(relative.parts):
            yield path, relative


def is_bash(path):
    with path.open("rb") as stream:
        return re.match(rb"#!.*\bbash\b", stream.readline()) is not None


def check_readmes(root):
    for folder in FOLDERS_WITH_README:
        readme = root / folder / "README.md"
        if not readme.is_file():
            yield f"{folder}/ has no README.md"
        elif len(readme.read_text().splitlines()) > README_LINES:
            yield f"{folder}/README.md has more than {README_LINES} lines"


def check_local_paths(root):
    for path, relative in files(root):
        if path.suffix not in TEXT or relative.parts[0] == "LICENSE":
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            match = LOCAL_PATH.search(line)
            if match:
                yield f"{relative}:{number}: a path of one machine: {match.group()}"


def check_scripts(root):
    scripts = [path for path, _ in files(root) if is_bash(path)]
    if not scripts:
        yield "no bash script found"
    for path in scripts:
        run = subprocess.run(["bash", "-n", str(path)], capture_output=True, text=True)
        if run.returncode != 0:
            yield run.stderr.strip()
        if not path.stat().st_mode & 0o100:
            yield f"{path.relative_to(root)} is not executable"
    if shutil.which("shellcheck"):
        run = subprocess.run(["shellcheck", "--severity=warning", "--format=gcc", *map(str, scripts)], capture_output=True, text=True)
        yield from run.stdout.splitlines()
    else:
        print("shellcheck is not installed: only bash -n was run")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[1]).resolve()
    wrong = [*check_readmes(root), *check_local_paths(root), *check_scripts(root)]
    for line in wrong:
        print(line)
    print(f"{len(wrong)} findings")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

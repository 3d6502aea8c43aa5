#!/usr/bin/env python3
"""Proves that the direction of dependence is a compile error: a folder cannot include what it may not see.

usage: check_dependence.py --compiler CXX --source ROOT FOLDER=DIR[,DIR...]...

Each FOLDER comes with the include directories that its target really compiles with. For every pair of folders a file
with one #include is preprocessed: it must work where docs/design.md allows it, and must not be found elsewhere.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

ALLOWED = {
    "core": {"core"},
    "kernels": {"kernels", "core"},
    "layers": {"layers", "kernels", "core"},
    "models": {"models", "layers", "kernels", "core"},
    "comm": {"comm", "core"},
    "data": {"data", "core"},
    "apps": {"apps", "models", "layers", "kernels", "comm", "data", "core"},
}


def some_header(source, folder):
    headers = sorted((source / folder).rglob("*.h"))
    return headers[0].relative_to(source).as_posix() if headers else None


def found(compiler, directories, header):
    """Whether the preprocessor finds `header` (-MG is off, so a missing one is an error)."""
    with tempfile.TemporaryDirectory() as scratch:
        probe = pathlib.Path(scratch) / "probe.cpp"
        # __has_include sees exactly the search path and needs no library header to be valid.
        probe.write_text(f'#if !__has_include("{header}")\n#error not found\n#endif\n')
        command = [compiler, "-std=c++20", "-E", "-o", "/dev/null", str(probe)]
        command += [f"-I{directory}" for directory in directories]
        run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0 and "not found" not in run.stderr:
        sys.exit(f"{' '.join(command)}\n{run.stderr}")
    return run.returncode == 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("folders", nargs="+", metavar="FOLDER=DIR,...")
    arguments = parser.parse_args()
    directories = dict(item.split("=", 1) for item in arguments.folders)
    if set(directories) != set(ALLOWED):
        sys.exit(f"the build has the folders {sorted(directories)}, the design {sorted(ALLOWED)}")

    wrong = []
    checked = 0
    for folder, allowed in ALLOWED.items():
        for other in ALLOWED:
            header = some_header(arguments.source, other)
            if header is None:
                sys.exit(f"{other}/ has no header to test with")
            checked += 1
            if found(arguments.compiler, directories[folder].split(","), header) != (other in allowed):
                verb = "cannot" if other in allowed else "can"
                wrong.append(f"{folder}/ {verb} include {header}")
    for line in wrong:
        print(line)
    print(f"{checked - len(wrong)} of {checked} pairs as docs/design.md says")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

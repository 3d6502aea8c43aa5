#!/usr/bin/env python3
"""Runs every command printed in a document, and checks that the documents' links lead somewhere.

usage: run_documents.py ROOT PRESET [DOCUMENT...]        default: every *.md of the tree

Where a document says build/release or --preset release, PRESET is what is run: the one that the tests have built.

Each ```bash block is run by `bash -euo pipefail` with ROOT as working directory; $SCRATCH names a folder that is
removed at the end. Output goes into ```text blocks, which are not run; a block without a language is an error. A
comment right before a block changes what is done with it:

  <!-- test: with ARGUMENTS -->     appends ARGUMENTS to each command of the block (smaller limits, for example)
  <!-- test: replace A B -->        runs it with A replaced by B (a folder that only the reader has)
  <!-- test: covered by FILE -->    does not run it. FILE must exist and hold each command's first word, so the test
                                    that does run it is named and cannot vanish unseen.

Every block is parsed by `bash -n`, whether it is run or not. The last line is "documents: N passed, N failed".
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

IGNORED = {".git", "build", ".venv", ".cuda", "runs", "__pycache__"}
MARKER = re.compile(r"<!--\s*test:\s*(with|replace|covered by)\s+(.*?)\s*-->")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
COMMAND = re.compile(r"(\$ )?(scripts/|build/|bench/|tests/|cmake |ctest |mpirun )")
TIMEOUT_SECONDS = 600


class Block:
    def __init__(self, document, line, language, markers):
        self.document, self.line, self.language, self.markers = document, line, language, markers
        self.lines = []

    def commands(self):
        """Logical lines, continuation lines joined, comments and blank ones left out."""
        text = re.sub(r"\\\n\s*", "", "\n".join(self.lines))
        return [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def blocks(document, text):
    """Fenced blocks with the markers of the paragraph right above them."""
    markers, block = [], None
    for number, line in enumerate(text.splitlines(), 1):
        if block is not None:
            if line.strip() == "```":
                yield block
                markers, block = [], None
            else:
                block.lines.append(line)
        elif line.startswith("```"):
            block = Block(document, number, line[3:].strip(), markers)
        elif MARKER.search(line):
            markers.append(MARKER.search(line).groups())
        elif line.strip():
            markers = []
    if block is not None:
        block.language = "never closed"
        yield block


def covered(root, command, name):
    """An empty text if FILE runs this command, else what is wrong."""
    file = root / name
    if not file.is_file():
        return f"covered by {name}, which does not exist"
    word = command.split()[0]
    return "" if word in file.read_text() else f"{name} does not run {word}"


def run(root, preset, scratch, block):
    """Yields one (what, error) for each thing that was checked; error is empty where all is well."""
    commands = block.commands()
    parsed = subprocess.run(["bash", "-n"], input="\n".join(block.lines), capture_output=True, text=True)
    if parsed.returncode != 0:
        yield "syntax", parsed.stderr.strip()
        return
    for kind, argument in block.markers:
        if kind == "with":
            commands = [f"{command} {argument}" for command in commands]
        elif kind == "replace":
            before, _, after = argument.partition(" ")
            if not any(before in command for command in commands):
                yield f"replace {argument}", f"'{before}' is not in the block"
            commands = [command.replace(before, after) for command in commands]
        else:
            for command in commands:
                yield command, covered(root, command, argument)
            return
    script = re.sub(r"(build/|--preset )release\b", rf"\g<1>{preset}", "\n".join(commands))
    started = time.monotonic()
    try:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script], cwd=root, timeout=TIMEOUT_SECONDS,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "SCRATCH": scratch},
        )
        error = "" if done.returncode == 0 else f"exit code {done.returncode}\n{done.stdout[-3000:]}"
    except subprocess.TimeoutExpired as expired:
        error = f"not done after {TIMEOUT_SECONDS} s\n{(expired.stdout or b'').decode(errors='replace')[-3000:]}"
    yield f"{script} ({time.monotonic() - started:.0f} s)", error


def check_links(root, document, text):
    outside_code = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    for target in LINK.findall(outside_code):
        if not re.match(r"[a-z]+:|#", target):
            path = (root / document).parent / target.split("#")[0]
            yield f"link {target}", "" if path.exists() else "leads nowhere"


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    root, preset = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    documents = [pathlib.Path(name) for name in sys.argv[3:]]
    if not documents:
        found = (path.relative_to(root) for path in root.rglob("*.md"))
        documents = sorted(path for path in found if not IGNORED.intersection(path.parts))
    passed = failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        for document in documents:
            text = (root / document).read_text()
            checks = [(document, *check) for check in check_links(root, document, text)]
            for block in blocks(document, text):
                where = f"{document}:{block.line}"
                if block.language in ("", "never closed"):
                    checks.append((where, "block", "says no language (bash is run, text is not), or is never closed"))
                elif block.language != "bash" and block.lines and COMMAND.match(block.lines[0]):
                    checks.append((where, "block", "begins with a command: call it bash, so that it is run"))
                elif block.language == "bash":
                    checks += [(where, *check) for check in run(root, preset, scratch, block)]
            for where, what, error in checks:
                print(f"{'FAILED' if error else 'ok'}  {where}: {what}{': ' + error if error else ''}", flush=True)
                passed, failed = passed + (not error), failed + bool(error)
    print(f"documents: {passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())

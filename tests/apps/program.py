"""What the tests of whole programs share: starting one on N ranks, its files, small data sets.

A test file is run as `FILE BIN_DIRECTORY [unittest arguments]`; BIN_DIRECTORY holds the built programs.
"""

import json
import os
import pathlib
import random
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MPI = str(ROOT / "scripts" / "mpi")
BIN = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
TIMEOUT = 120
# These are tests of the CPU backend, on a machine with a GPU too.
os.environ["CUDA_VISIBLE_DEVICES"] = ""


def small(model="resnet18", samples=64, batch=8, epochs=2, threads=1, channels=16):
    """Options of a run of a second: eight steps an epoch on one rank, four on two."""
    return ["--model", model, "--channels", str(channels), "--limit-train", str(samples), "--limit-test", "17", "--batch-size", str(batch),
            "--epochs", str(epochs), "--threads", str(threads)]


SMALL = small()


class Result:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def __str__(self):
        return f"exit code {self.code}\n--- stdout\n{self.out[-3000:]}\n--- stderr\n{self.err[-3000:]}"


def one_each(lines):
    """The command that runs the first line as rank 0, the second as rank 1, and so on. Not by mpirun's own `A : B`:
    Debian 13's mpirun crashes there (open-mpi/ompi#13303)."""
    cases = [f"{rank}) exec {shlex.join(map(str, line))};;" for rank, line in enumerate(lines)]
    return [MPI, "-np", str(len(cases)), "sh", "-c", f"case $OMPI_COMM_WORLD_RANK in {' '.join(cases)} esac"]


def command(ranks, arguments, program="resnet_train"):
    """ranks 0: without mpirun. arguments: one list, or one list a rank."""
    path = str(BIN / program)
    if ranks == 0:
        return [path, *arguments]
    if arguments and isinstance(arguments[0], list):
        return one_each([path, *part] for part in arguments)
    return [MPI, "-np", str(ranks), path, *arguments]


def signals_of(process, thread=None):
    """{"SigBlk": the signals that the thread (the first one) blocks, "SigCgt": that the process has handlers of,
    "ShdPnd": that have come, and that no thread has taken yet}."""
    status = pathlib.Path(f"/proc/{process}/task/{thread or process}/status").read_text()
    masks = {name: int(re.search(rf"^{name}:\s*(\w+)", status, re.M)[1], 16) for name in ("SigBlk", "SigCgt", "ShdPnd")}
    return {name: {number for number in signal.Signals if mask >> (number - 1) & 1} for name, mask in masks.items()}


def run(ranks, arguments, program="resnet_train", **options):
    return run_line(command(ranks, arguments, program), **options)


def run_line(line, **options):
    done = subprocess.run([str(part) for part in line], capture_output=True, text=True, timeout=TIMEOUT,
                          stdin=subprocess.DEVNULL, **options)
    return Result(done.returncode, done.stdout, done.stderr)


class Running:
    """A job in the background."""

    def __init__(self, ranks, arguments, program="resnet_train"):
        self.program = program
        self.process = subprocess.Popen([str(part) for part in command(ranks, arguments, program)], text=True,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def tree(self):
        """{process id: name} of the job, launcher included."""
        found, queue = {}, [self.process.pid]
        while queue:
            pid = queue.pop()
            try:
                found[pid] = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
                queue += [int(c) for c in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
            except OSError:
                continue
        return found

    def programs(self):
        """The process ids of the ranks."""
        return sorted(pid for pid, name in self.tree().items() if name == self.program)

    def wait_for_signals(self, ranks):
        """Until each of the ranks takes signals."""
        def takes_signals(pid):
            try:
                return signal.SIGUSR1 in signals_of(pid)["SigBlk"]
            except OSError:
                return False

        limit = time.monotonic() + TIMEOUT
        while time.monotonic() < limit:
            if self.process.poll() is not None:
                raise AssertionError(f"the job ended too early:\n{self.finish()}")
            programs = self.programs()
            if len(programs) == ranks and all(takes_signals(pid) for pid in programs):
                return
            time.sleep(0.01)
        self.kill()
        raise AssertionError("the job does not start")

    def wait_for_steps(self, metrics, steps):
        """Until the metrics file has that many step lines."""
        limit = time.monotonic() + TIMEOUT
        while time.monotonic() < limit:
            if self.process.poll() is not None:
                raise AssertionError(f"the job ended too early:\n{self.finish()}")
            if pathlib.Path(metrics).exists() and len(step_lines(metrics)) >= steps:
                return
            time.sleep(0.01)
        self.kill()
        raise AssertionError("the job makes no progress")

    def kill(self):
        """kill -9 of the whole job, launcher included."""
        for pid in self.tree():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return self.finish()

    def finish(self):
        out, err = self.process.communicate(timeout=TIMEOUT)
        return Result(self.process.returncode, out, err)


def lines_of(metrics):
    lines = []
    for text in pathlib.Path(metrics).read_text().splitlines():
        try:
            lines.append(json.loads(text))
        except ValueError:  # a line that is being written
            pass
    return lines


def step_lines(metrics):
    return [line for line in lines_of(metrics) if "step" in line]


def epoch_lines(metrics):
    return [line for line in lines_of(metrics) if "step" not in line]


def without_times(metrics):
    """The lines as written, less what the clock decides: equal exactly where every digit is equal."""
    text = pathlib.Path(metrics).read_text()
    return re.sub(r',"(images_per_second|seconds)":[^,}]*', "", text)


def checksums(result):
    """{epoch: [the checksums of each rank]}"""
    found = {}
    for line in result.out.splitlines():
        match = re.match(r"checksum epoch=(\d+) rank=(\d+) (weights=[0-9a-f]{16} buffers=[0-9a-f]{16} "
                         r"optimizer=[0-9a-f]{16})$", line)
        if match:
            found.setdefault(int(match[1]), {})[int(match[2])] = match[3]
    return {epoch: [ranks[r] for r in sorted(ranks)] for epoch, ranks in found.items()}


def write_cifar(directory, records=16, seed=1):
    """Random pictures as CIFAR-10's binary files, `records` in each."""
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    source = random.Random(seed)
    for name in [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]:
        data = b"".join(bytes([i % 10]) + source.randbytes(3072) for i in range(records))
        (directory / name).write_bytes(data)
    return directory


class ProgramTest(unittest.TestCase):
    maxDiff = 2000

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="lockstep-")
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)

    def path(self, name):
        return self.scratch / name

    def good(self, result):
        self.assertEqual(result.code, 0, str(result))
        return result

    def refused(self, result, code, *parts):
        """The exit code, one message that holds all parts, and nothing that looks like a crash."""
        self.assertEqual(result.code, code, str(result))
        errors = [line for line in result.err.splitlines() if "error: " in line]
        self.assertEqual(len(errors), 1, str(result))
        for part in parts:
            self.assertIn(part, errors[0], str(result))
        return result


def main():
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)

#!/usr/bin/env python3
"""Runs that are interrupted: kill -9 of the whole job, SIGINT and SIGTERM, and how they go on."""

import functools
import os
import pathlib
import signal
import tempfile
import time

from program import ProgramTest, Running, main, run, checksums, signals_of, without_times, small, step_lines

# Twenty steps of the whole network an epoch on two ranks: a signal meant for the first epoch does not arrive after it,
# even on a machine that stops for a moment.
LONG = [*small(samples=320, channels=64), "--checksums"]
STEPS = 40


@functools.cache
def uninterrupted():
    """What the metrics file and the last checksums of LONG are."""
    with tempfile.TemporaryDirectory(prefix="lockstep-") as scratch:
        metrics = pathlib.Path(scratch) / "m.jsonl"
        result = run(2, [*LONG, "--metrics", metrics])
        if result.code != 0:
            raise AssertionError(str(result))
        return without_times(metrics), checksums(result)[1]


class Interrupted(ProgramTest):
    def setUp(self):
        super().setUp()
        self.metrics, self.directory = self.path("m.jsonl"), self.path("checkpoints")
        self.line = [*LONG, "--metrics", self.metrics, "--checkpoint-dir", self.directory]

    def test_kill_9_in_the_middle_of_an_epoch(self):
        expected, sums = uninterrupted()
        line = [*self.line, "--checkpoint-interval", "4", "--resume", "auto"]
        for steps in (3, 10, 26):  # before the first checkpoint; in the first epoch; in the second
            job = Running(2, line)
            job.wait_for_steps(self.metrics, steps)
            job.kill()
        result = self.good(run(2, line))
        self.assertIn("resumed from", result.out)
        self.assertEqual(without_times(self.metrics), expected)
        self.assertEqual(checksums(result)[1], sums)

    def stop_by(self, number, code, whom):
        expected, sums = uninterrupted()
        job = Running(2, [*self.line, "--checkpoint-interval", "100"])
        job.wait_for_steps(self.metrics, 5)
        os.kill(whom(job), number)
        result = job.finish()
        self.assertEqual(result.code, code, str(result))
        self.assertIn(f"stopped by {number.name}", result.out)
        self.assertIn(f"go on with --resume {self.directory}/step-", result.out)
        steps = len(step_lines(self.metrics))
        self.assertEqual([f.name for f in self.directory.glob("*.ckpt")], [f"step-{steps:08}.ckpt"])
        self.assertLess(steps, STEPS)
        result = self.good(run(2, [*self.line, "--resume", "auto"]))
        self.assertEqual(without_times(self.metrics), expected)
        self.assertEqual(checksums(result)[1], sums)

    def test_sigint_at_one_rank(self):
        self.stop_by(signal.SIGINT, 130, lambda job: job.programs()[-1])

    def test_sigterm_at_one_rank(self):
        self.stop_by(signal.SIGTERM, 143, lambda job: job.programs()[0])

    def test_sigint_at_the_launcher(self):
        self.stop_by(signal.SIGINT, 130, lambda job: job.process.pid)

    def test_sigterm_at_the_launcher(self):
        self.stop_by(signal.SIGTERM, 143, lambda job: job.process.pid)

    def stop_at_start(self, line, ranks=2):
        job = Running(ranks, line)
        while "trace" not in job.process.stdout.readline():  # the last line of the configuration
            pass
        os.kill(job.programs()[-1], signal.SIGUSR2)
        result = job.finish()
        self.assertEqual(result.code, 143, str(result))
        self.assertIn("stopped by SIGTERM", result.out)

    def test_during_start_up(self):
        expected, sums = uninterrupted()
        self.stop_at_start(self.line)
        result = self.good(run(2, [*self.line, "--resume", "auto"]))
        self.assertEqual(without_times(self.metrics), expected)
        self.assertEqual(checksums(result)[1], sums)

    def test_no_computation_is_interrupted(self):
        """A handler would run on the stack of what it interrupts, and oneDNN's products use the heap for one."""
        job = Running(2, [*small(samples=320, threads=2, channels=64), "--metrics", self.metrics])
        self.addCleanup(job.kill)
        job.wait_for_steps(self.metrics, 1)
        ours = {signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2}
        for pid in job.programs():
            self.assertEqual(ours & signals_of(pid)["SigCgt"], set())
            tasks = pathlib.Path(f"/proc/{pid}/task").iterdir()
            threads = {int(task.name): (task / "comm").read_text().strip() for task in tasks}
            self.assertGreater(len(threads), 4, threads)
            for thread, name in threads.items():
                if name != "ls-signals":
                    self.assertLessEqual(ours, signals_of(pid, thread)["SigBlk"], name)

    def test_a_second_sigint_ends_at_once(self):
        # Steps of seconds: both come in one.
        job = Running(0, [*small("resnet50", samples=512, batch=128, channels=64), "--metrics", self.metrics])
        job.wait_for_steps(self.metrics, 1)
        os.kill(job.process.pid, signal.SIGINT)
        while signal.SIGINT in signals_of(job.process.pid)["ShdPnd"]:  # two that wait would be one
            time.sleep(0.01)
        os.kill(job.process.pid, signal.SIGINT)
        self.assertEqual(job.finish().code, -signal.SIGINT)

    def test_in_an_evaluation(self):
        directory = self.path("evaluated")
        line = ["--model", "resnet18", "--threads", "1", "--epochs", "1", "--limit-train", "64", "--batch-size", "8",
                "--checkpoint-dir", directory]
        self.good(run(2, [*line, "--limit-test", "17"]))
        # All 2,000 pictures: seconds, so that the signal comes in time.
        self.stop_at_start([*line, "--resume", "auto", "--evaluate-only"])

    def test_one_process_in_bf16(self):
        expected = self.path("uninterrupted.jsonl")
        line = [*small(samples=160, channels=64), "--dtype", "bf16"]  # twenty steps an epoch here too
        saved = [*line, "--metrics", self.metrics, "--checkpoint-dir", self.directory]
        self.good(run(0, [*line, "--metrics", expected]))
        job = Running(0, saved)
        job.wait_for_steps(self.metrics, 2)
        os.kill(job.process.pid, signal.SIGINT)
        result = job.finish()
        self.assertEqual(result.code, 130, str(result))
        self.assertEqual(len(list(self.directory.glob("*.ckpt"))), 1)
        self.good(run(0, [*saved, "--resume", "auto"]))
        self.assertEqual(without_times(self.metrics), without_times(expected))


class BenchInterrupted(ProgramTest):
    """step_bench writes no result, and ends as resnet_train does."""

    def start(self, *more):
        self.json = self.path("bench.json")
        job = Running(2, [*small(), "--steps", "1000000", "--json", self.json, *more], "step_bench")
        job.wait_for_signals(2)
        return job

    def stopped(self, job, number, code):
        result = job.finish()
        self.assertEqual(result.code, code, str(result))
        self.assertEqual(result.out.splitlines(), [f"stopped by {number.name}: no result"], str(result))
        self.assertNotIn("error:", result.err, str(result))
        self.assertFalse(self.json.exists())

    def test_sigint_and_sigterm_at_the_launcher(self):
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            for warmup in ("0", "1000000"):
                with self.subTest(number, warmup=warmup):
                    job = self.start("--warmup", warmup)
                    os.kill(job.process.pid, number)
                    self.stopped(job, number, code)

    def test_sigterm_at_one_rank(self):
        job = self.start()
        os.kill(job.programs()[-1], signal.SIGTERM)
        self.stopped(job, signal.SIGTERM, 143)

    def test_a_rank_that_hangs_ends_the_others(self):
        job = self.start("--timeout", "2")
        hanging = job.programs()[-1]
        os.kill(hanging, signal.SIGSTOP)
        try:
            self.assertEqual(job.finish().code, 5)
        finally:
            job.kill()


if __name__ == "__main__":
    main()

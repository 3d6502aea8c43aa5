#!/usr/bin/env python3
"""Whole programs on the simulated GPU: `programs.py BIN_DIRECTORY` of a build that has it."""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "apps"))
from kernel_bench import check_run  # noqa: E402
from program import ProgramTest, epoch_lines, main, run, step_lines  # noqa: E402

# Damped, so that rounding does not grow from step to step: last gamma of each block 0.1, small learning rate.
LINE = ["--model", "resnet18", "--stem", "cifar", "--batch-size", "4", "--residual-gamma", "0.1", "--lr", "1e-3",
        "--limit-train", "16", "--limit-test", "6", "--epochs", "1", "--threads", "1"]


class Training(ProgramTest):
    def losses(self, device, simulator="", *more):
        metrics = self.path("m.jsonl")
        environment = {**os.environ, "CUDASIM": simulator}
        result = self.good(run(0, [*LINE, "--device", device, "--metrics", metrics, *more], env=environment))
        epoch = epoch_lines(metrics)[0]
        return [line["loss"] for line in step_lines(metrics)] + [epoch["test_loss"]], result

    def test_the_losses_are_those_of_the_cpu(self):
        expected, _ = self.losses("cpu")
        for simulator in ("hidden=1", "eager=1 order=random seed=5"):
            with self.subTest(simulator):
                actual, _ = self.losses("cuda", simulator)
                self.assertEqual(len(actual), len(expected))
                for ours, theirs in zip(actual, expected):
                    self.assertLess(abs(ours - theirs), 1e-4)


class KernelBench(ProgramTest):
    def test_every_op_agrees_with_the_reference(self):
        for dtype in ("fp32", "bf16"):
            with self.subTest(dtype):
                check_run(self, "cuda", "--dtype", dtype)


class Errors(ProgramTest):
    def refused_with(self, simulator, code, *parts):
        self.refused(run(0, [*LINE, "--device", "cuda"], env={**os.environ, "CUDASIM": simulator}), code, *parts)

    def test_no_device(self):
        self.refused_with("devices=0", 6, "--device cpu")

    def test_too_little_memory(self):
        self.refused_with("memory=100000000", 7, "--batch-size")

    def test_a_call_that_fails_in_the_middle(self):
        for call in ("cudaLaunchKernelEx:500:719", "cudaMemcpyAsync:20:700", "cudaStreamSynchronize:3:719"):
            with self.subTest(call):
                self.refused_with(f"fail={call}", 6, "failed")


if __name__ == "__main__":
    main()

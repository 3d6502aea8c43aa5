#!/usr/bin/env python3
"""Whole programs on the simulated GPU: `programs.py BIN_DIRECTORY` of a build that has it."""

import os
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "apps"))
from program import (BIN, ProgramTest, Running, checksums, epoch_lines, main, one_each, run, run_line,
                     step_lines)  # noqa: E402

# Damped, so that rounding does not grow from step to step: last gamma of each block 0.1, small learning rate.
LINE = ["--model", "resnet18", "--stem", "cifar", "--batch-size", "4", "--residual-gamma", "0.1", "--lr", "1e-3",
        "--limit-test", "6", "--threads", "1"]
SHORT = [*LINE, "--limit-train", "16", "--epochs", "1"]


class Training(ProgramTest):
    def losses(self, ranks, device, simulator, *more):
        metrics = self.path("m.jsonl")
        line = [*LINE, "--limit-train", str(16 * max(1, ranks)), "--epochs", "1", "--device", device, "--metrics", metrics,
                *more]
        self.good(run(ranks, line, env={**os.environ, "CUDASIM": simulator}))
        return [line["loss"] for line in step_lines(metrics)] + [line["test_loss"] for line in epoch_lines(metrics)]

    def close(self, actual, expected, bar):
        self.assertEqual(len(actual), len(expected))
        for ours, theirs in zip(actual, expected):
            self.assertLess(abs(ours - theirs), bar)

    def test_the_losses_of_one_process_are_those_of_the_cpu(self):
        self.compare(0, [("hidden=1", []), ("eager=1 order=random seed=5", ["--cuda-graph"])])

    def test_the_losses_of_two_ranks_are_those_of_the_cpu(self):
        self.compare(2, [("eager=1 order=random seed=7", []), ("order=random seed=6", ["--cuda-graph"]),
                         ("hidden=1", ["--cuda-graph"]), ("", ["--no-overlap", "--bucket-cap-mb", "1"])])

    def test_a_profiler_sees_layers_and_buckets(self):
        ranges = self.path("ranges")
        tool = BIN.parent / "tests" / "cudasim" / "test" / "libnvtx_tool.so"
        self.good(run(2, [*SHORT, "--device", "cuda"],
                      env={**os.environ, "NVTX_INJECTION64_PATH": str(tool), "NVTX_TOOL_OUTPUT": ranges}))
        names = pathlib.Path(ranges).read_text().splitlines()
        for name in ("forward", "layer1.0.conv1", "backward", "fc", "update"):
            self.assertIn(name, names)
        self.assertTrue(any(name.startswith("all_reduce of bucket 0 (fc.") for name in names), names)

    def compare(self, ranks, cases):
        expected = self.losses(ranks, "cpu", "")
        for simulator, more in cases:
            with self.subTest(simulator=simulator, more=more):
                self.close(self.losses(ranks, "cuda", simulator, *more), expected, 1e-4)

    def test_a_run_that_was_stopped_goes_on_to_the_bit(self):
        whole = [*LINE, "--device", "cuda", "--limit-train", "16", "--epochs", "2", "--checksums"]
        expected = self.good(run(2, whole))
        directory = self.path("checkpoints")
        self.good(run(2, [*whole, "--checkpoint-dir", directory, "--checkpoint-interval", "3"]))
        resumed = self.good(run(2, [*whole, "--resume", f"{directory}/step-00000003.ckpt", "--cuda-graph"]))
        self.assertEqual(checksums(resumed)[1], checksums(expected)[1])


class Errors(ProgramTest):
    def refused_with(self, simulator, code, *parts):
        self.refused(run(0, [*SHORT, "--device", "cuda"], env={**os.environ, "CUDASIM": simulator}), code, *parts)

    def test_no_device(self):
        self.refused_with("devices=0", 6, "--device cpu")

    def test_too_little_memory(self):
        self.refused_with("memory=100000000", 7, "--batch-size")

    def test_a_graph_of_what_cannot_be_one(self):
        self.refused(run(0, [*SHORT, "--device", "cuda", "--cuda-graph", "--trace", self.path("t")]), 2, "--trace")
        self.refused(run(0, [*SHORT, "--device", "cpu", "--cuda-graph"]), 2, "--device cuda")

    def test_ranks_and_devices_that_do_not_fit(self):
        self.refused(run(3, [*SHORT, "--device", "cuda"]), 6, "3 ranks run on this host", "CUDA_VISIBLE_DEVICES")
        line = ["env", "CUDASIM=name=NVIDIA_A100", BIN / "resnet_train", *SHORT, "--device", "cuda"]
        other = [BIN / "resnet_train", *SHORT, "--device", "cuda"]
        self.refused(run_line(one_each([other, line])), 6, "NVIDIA_H200", "rank 1", "NVIDIA_A100")

    def test_nccl_that_fails_on_a_rank(self):
        good = [BIN / "resnet_train", *SHORT, "--device", "cuda"]
        for order in ("ncclCommInitRankConfig:1:2", "ncclAllReduce:5:3"):
            with self.subTest(order):
                bad = ["env", f"CUDASIM=fail={order}", *good]
                self.refused(run_line(one_each([good, bad])), 5, "NCCL failed in", "NCCL_DEBUG=INFO")

    def test_a_rank_that_is_killed(self):
        metrics = self.path("m.jsonl")
        job = Running(2, [*LINE, "--limit-train", "64", "--epochs", "50", "--device", "cuda", "--metrics", metrics])
        self.addCleanup(job.kill)
        job.wait_for_steps(metrics, 2)
        os.kill(job.programs()[1], signal.SIGKILL)
        self.assertNotEqual(job.finish().code, 0)

    def test_a_call_that_fails_in_the_middle(self):
        for call in ("cudaLaunchKernelEx:500:719", "cudaMemcpyAsync:20:700", "cudaStreamSynchronize:3:719"):
            with self.subTest(call):
                self.refused_with(f"fail={call}", 6, "failed")


if __name__ == "__main__":
    main()

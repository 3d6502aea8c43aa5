#!/usr/bin/env python3
"""Whole programs on the simulated GPU: `programs.py BIN_DIRECTORY` of a build that has it."""

import os
import pathlib
import re
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "apps"))
from kernel_bench import check_run  # noqa: E402
from program import (BIN, ProgramTest, Running, checksums, epoch_lines, main, one_each, run, run_line,
                     step_lines)  # noqa: E402

# Damped, so that rounding does not grow from step to step: last gamma of each block 0.1, small learning rate. Few
# channels: the simulator takes a call or more for each of a kernel's threads.
LINE = ["--model", "resnet18", "--channels", "16", "--stem", "cifar", "--residual-gamma", "0.1", "--lr", "1e-3",
        "--limit-test", "6", "--threads", "1"]
SHORT = [*LINE, "--batch-size", "4", "--limit-train", "16", "--epochs", "1"]


class Training(ProgramTest):
    def losses(self, ranks, device, simulator, *more):
        metrics = self.path("m.jsonl")
        line = [*LINE, "--batch-size", "4", "--limit-train", str(16 * max(1, ranks)), "--epochs", "1", "--device", device,
                "--metrics", metrics, *more]
        self.good(run(ranks, line, env={**os.environ, "CUDASIM": simulator}))
        return [line["loss"] for line in step_lines(metrics)] + [line["test_loss"] for line in epoch_lines(metrics)]

    def close(self, actual, expected, bar):
        self.assertEqual(len(actual), len(expected))
        for ours, theirs in zip(actual, expected):
            self.assertLess(abs(ours - theirs), bar)

    def test_the_losses_of_one_process_are_those_of_the_cpu(self):
        self.compare(0, [("hidden=1", ["--autotune"]), ("eager=1 order=random seed=5", ["--cuda-graph"])])

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
        # fp16 begins with a loss scale at which this network overflows: steps are skipped, on both ranks alike.
        for dtype in ("fp32", "fp16"):
            with self.subTest(dtype):
                whole = [*LINE, "--batch-size", "4", "--device", "cuda", "--limit-train", "16", "--epochs", "3", "--checksums",
                         "--dtype", dtype]
                expected = self.good(run(2, whole))
                directory = self.path(dtype)
                self.good(run(2, [*whole, "--checkpoint-dir", directory, "--checkpoint-interval", "3"]))
                resumed = self.good(run(2, [*whole, "--resume", f"{directory}/step-00000003.ckpt", "--cuda-graph"]))
                last = checksums(expected)[2]
                self.assertEqual(checksums(resumed)[2], last)
                self.assertEqual([rank.split()[0] for rank in last], [last[0].split()[0]] * 2)  # equal weights

    def test_16_bit_and_tf32_losses_are_off_by_no_more_than_rounding_moves_them(self):
        """Two correct bf16 runs round at the same places, but sum in another order, and now and then land on neighbouring
        values. How far rounding moves this run's losses is measured: fp32 against bf16 on the CPU. Both bf16 runs lie
        within such a distance of fp32, so of each other within twice that. A type with 2^-10 instead of 2^-7 between
        neighbours (fp16, TF32) moves the losses by an eighth of it; each of its steps is held to fp32 by a quarter."""
        exact = self.losses(0, "cpu", "")
        bf16 = self.losses(0, "cpu", "", "--dtype", "bf16")
        moved = max(abs(a - b) for a, b in zip(exact, bf16))
        self.assertGreater(moved, 1e-4)  # more than fp32's own differences, or this would show nothing
        self.assertLess(moved, 0.05)
        for dtype, expected, limit in (("bf16", bf16, 2 * moved), ("fp16", exact, moved / 4), ("tf32", exact, moved / 4)):
            with self.subTest(dtype):
                actual = self.losses(0, "cuda", "", "--dtype", dtype)
                self.assertEqual(len(actual), len(expected))
                largest = max(abs(a - b) for a, b in zip(actual, expected))
                self.assertLess(largest, limit)
                self.assertGreater(max(abs(a - b) for a, b in zip(actual, exact)), 0)  # it is not fp32


TOO_OLD_DRIVER = "fail=cudaGetDeviceCount:1:35"  # what CUDA also says of a driver that is missing
STUB = "fail=cudaGetDeviceCount:1:34"


def with_simulator(simulator, **variables):
    """The environment less the devices that these tests hide from the programs of the CPU."""
    environment = {**os.environ, "CUDASIM": simulator, **variables}
    if "CUDA_VISIBLE_DEVICES" not in variables:
        environment.pop("CUDA_VISIBLE_DEVICES", None)
    return environment


class Device(ProgramTest):
    """Each machine without a device that can be used: `--device cuda` says why and what to do, `auto` takes the CPU."""

    def without_a_device(self, ranks, simulator, *parts, **variables):
        environment = with_simulator(simulator, **variables)
        self.refused(run(ranks, [*SHORT, "--device", "cuda"], env=environment), 6, "--device cuda: ", "--device cpu", *parts)
        line = self.device_line(ranks, environment)
        self.assertTrue(line.startswith("device: cpu (no CUDA device: "), line)
        for part in parts:
            self.assertIn(part, line)

    def device_line(self, ranks, environment):
        result = self.good(run(ranks, SHORT, env=environment))
        lines = [line for line in result.err.splitlines() if line.startswith("device: ")]
        self.assertEqual(len(lines), 1, str(result))
        self.assertEqual(lines[0].split(" ")[1], re.search("^device = '(.*)'$", result.out, re.M)[1])
        return lines[0]

    def test_no_driver(self):
        self.without_a_device(0, TOO_OLD_DRIVER, "there is no NVIDIA driver", "libcuda.so.1", "install one for CUDA 1")

    def test_a_driver_that_is_too_old(self):
        self.without_a_device(0, TOO_OLD_DRIVER, "driver is too old", "knows CUDA 12.4", "install a newer driver",
                              "Toolkit 12.4", LD_LIBRARY_PATH=str(BIN.parent / "old_driver"))

    def test_the_stub_of_the_toolkit(self):
        self.without_a_device(0, STUB, "stub", "LD_LIBRARY_PATH")

    def test_a_driver_and_no_device(self):
        self.without_a_device(0, "devices=0", "finds no GPU", "nvidia-smi")

    def test_hidden_devices(self):
        self.without_a_device(0, "devices=0", 'CUDA_VISIBLE_DEVICES="7"', "unset it", CUDA_VISIBLE_DEVICES="7")

    def test_a_device_older_than_the_kernels(self):
        self.without_a_device(0, "architecture=75 name=T4", "T4 has compute capability 7.5", "need 9.0",
                              "-DCMAKE_CUDA_ARCHITECTURES=75")

    def test_more_ranks_than_devices(self):
        self.without_a_device(2, "devices=1", "on rank 0: 2 ranks run on this host", "sees 1", "at most 1 on a host")

    def test_auto_takes_the_devices_that_are_there(self):
        for ranks in (0, 2):
            with self.subTest(ranks=ranks):
                self.assertEqual(self.device_line(ranks, with_simulator("")), "device: cuda")

    def test_ranks_that_ask_for_different_devices(self):
        lines = [[*SHORT, "--device", device] for device in ("cpu", "auto")]
        self.refused(run(2, lines, env=with_simulator("")), 5, "--device", "'cpu' on rank 0", "'auto' on rank 1")


class KernelBench(ProgramTest):
    def test_every_op_agrees_with_the_reference(self):
        for dtype in ("fp32", "tf32", "bf16", "fp16"):
            with self.subTest(dtype):
                check_run(self, "cuda", "--dtype", dtype)


class Errors(ProgramTest):
    def refused_with(self, simulator, code, *parts):
        self.refused(run(0, [*SHORT, "--device", "cuda"], env=with_simulator(simulator)), code, *parts)

    def test_a_driver_that_fails(self):
        # Not a device that is missing: `auto` does not go on without it either.
        environment = with_simulator("fail=cudaGetDeviceCount:1:999")
        for device in ("cuda", "auto"):
            with self.subTest(device):
                self.refused(run(0, [*SHORT, "--device", device], env=environment), 6, "cudaGetDeviceCount", "nvidia-smi")

    def test_kernels_of_another_architecture(self):
        self.refused_with("fail=cudaLaunchKernelEx:1:209", 6, "CMAKE_CUDA_ARCHITECTURES")

    def test_too_little_memory(self):
        self.refused_with("memory=6000000", 7, "--batch-size")
        line = [*LINE, "--epochs", "1", "--device", "cuda"]
        environment = {**os.environ, "CUDASIM": "memory=60000000"}
        result = self.refused(run(0, [*line, "--batch-size", "500", "--limit-train", "2000"], env=environment), 7,
                              "CUDA device 0", "--batch-size 500")
        fits = re.search(r"--batch-size (\d+) does", result.err)[1]
        self.assertGreater(int(fits), 4)
        job = [*line, "--batch-size", fits, "--limit-train", fits]
        self.assertIn("memory:", self.good(run(0, job, env=environment)).out)

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
        job = Running(2, [*LINE, "--batch-size", "4", "--limit-train", "64", "--epochs", "50", "--device", "cuda", "--metrics", metrics])
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

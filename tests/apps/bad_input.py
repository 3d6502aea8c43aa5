#!/usr/bin/env python3
"""Bad input, on one and two ranks: the message, the exit code of the table, no hang, nothing overwritten."""

import os
import resource
import shlex
import signal
import subprocess

from program import (ProgramTest, Result, Running, main, run, run_line, command, write_cifar, epoch_lines, step_lines, small,
                     one_each, SMALL, BIN, TIMEOUT)


class Usage(ProgramTest):
    def test_what_is_refused_before_anything_starts(self):
        cases = [
            (["--bogus"], ["--bogus", "--help"]),
            (["--model", "resnet19"], ["--model resnet19", "resnet50"]),
            (["--channels", "4"], ["--channels 4", "8 to 1024"]),
            (["--channels", "12"], ["--channels 12", "multiple of 8"]),
            (["--lr", "fast"], ["--lr"]),
            (["--batch-size", "0"], ["--batch-size 0", "1 to 1000000000"]),
            (["--epochs", "0"], ["--epochs 0"]),
            (["--config", "/nowhere.toml"], ["/nowhere.toml"]),
            (["--batch-size", "8", "--global-batch", "9999"], ["--global-batch"]),
            (["--resume", "auto"], ["--checkpoint-dir"]),
            (["--nesterov", "--momentum", "0"], ["--nesterov"]),
            (["--limit-train", "1000000"], ["--limit-train 1000000", "10000"]),
            (["--limit-train", "0"], ["--limit-train 0"]),
            (["--timeout", "0"], ["--timeout 0"]),
            (["--device", "cpu", "--allreduce", "nccl"], ["--allreduce nccl", "--device cpu", "shm, ring"]),
            (["--lr", ""], ["--lr", "empty"]),
            (["--checkpoint-dir", ""], ["--checkpoint-dir", "empty"]),
            (["--metrics", "same", "--trace", "./same"], ["--metrics and --trace", "same"]),
            (["--resume", "a.ckpt", "--evaluate-only", "--metrics", "a.ckpt"], ["--metrics and --resume", "a.ckpt"]),
        ]
        for arguments, parts in cases:
            with self.subTest(arguments):
                self.refused(run(0, arguments), 2, *parts)

    def test_all_ranks_say_it_once(self):
        self.refused(run(2, ["--bogus"]), 2, "--bogus")
        self.refused(run(3, ["--global-batch", "64"]), 2, "64", "3 ranks")
        self.refused(run(2, ["--timeout", "0"]), 2, "--timeout 0", "out of range")
        self.refused(run(2, ["--channels", "12"]), 2, "--channels 12", "multiple of 8")

    def test_one_rank_alone(self):
        self.refused(run(2, [[*SMALL], [*SMALL, "--bogus"]]), 2, "rank 1", "--bogus")

    def test_other_options_on_another_rank(self):
        self.refused(run(2, [[*SMALL, "--lr", "0.1"], [*SMALL, "--lr", "0.2"]]), 5, "--lr", "'0.1'", "'0.2'", "rank 1")
        self.refused(run(2, [[*SMALL], [*SMALL, "--no-overlap"]]), 5, "--overlap", "rank 1")
        self.refused(run(2, [[*SMALL], [*SMALL, "--allreduce", "ring"]]), 5, "--allreduce", "rank 1")

    def test_another_build_on_another_rank(self):
        result = run_line(one_each([[BIN / "resnet_train", *SMALL], [BIN / "step_bench"]]))
        self.assertEqual(result.code, 5, str(result))
        self.assertIn("rank 1", result.err)
        self.assertIn("another binary", result.err)


class BatchNorm(ProgramTest):
    """One value a channel in a batch norm has no variance."""

    def setUp(self):
        super().setUp()
        self.small = ["--model", "resnet18", "--epochs", "1", "--limit-test", "8", "--threads", "1"]

    def test_refused_with_the_remedy(self):
        for ranks, arguments in [(0, ["--limit-train", "8", "--batch-size", "1"]),
                                 (0, ["--limit-train", "9", "--batch-size", "8"]),  # the last batch is 1
                                 (2, ["--limit-train", "16", "--batch-size", "1"]),
                                 (2, ["--limit-train", "17", "--batch-size", "8"]),
                                 (2, ["--limit-train", "1", "--batch-size", "8"])]:
            with self.subTest(arguments):
                self.refused(run(ranks, [*self.small, *arguments]), 2, "batch norm", "choose a batch size")

    def test_larger_pictures_inside_the_network_allow_it(self):
        self.good(run(0, [*self.small, "--stem", "cifar", "--limit-train", "1", "--batch-size", "8"]))

    def test_fewer_samples_than_ranks_are_padded(self):
        metrics = self.path("m.jsonl")
        self.good(run(3, [*self.small, "--stem", "cifar", "--limit-train", "1", "--batch-size", "8", "--metrics", metrics]))
        self.assertEqual(len(step_lines(metrics)), 1)
        self.assertEqual(epoch_lines(metrics)[0]["test_total"], 8)


class Data(ProgramTest):
    def setUp(self):
        super().setUp()
        self.small = ["--model", "resnet18", "--epochs", "1", "--batch-size", "8", "--threads", "1"]

    def refused_data(self, directory, *parts):
        metrics = self.path("m.jsonl")
        metrics.write_text("an earlier run\n")
        for ranks in (0, 2):
            with self.subTest(ranks=ranks):
                self.refused(run(ranks, [*self.small, "--data", directory, "--metrics", metrics]), 3, *parts)
                self.assertEqual(metrics.read_text(), "an earlier run\n")

    def test_missing(self):
        self.refused_data(self.path("nowhere"), str(self.path("nowhere")))

    def test_damaged_files(self):
        directory = write_cifar(self.path("data"))
        file = directory / "data_batch_3.bin"
        whole = file.read_bytes()
        label = bytearray(whole)
        label[2 * 3073] = 17
        damages = {
            "one byte short": (whole[:-1], []),
            "one record short": (whole[:-3073], []),
            "a label above 9": (bytes(label), [str(2 * 3073)]),
            "a page instead of data": (b"<!DOCTYPE html><html><body>404</body></html>", []),
            "empty": (b"", []),
        }
        for name, (content, parts) in damages.items():
            with self.subTest(name):
                file.write_bytes(content)
                self.refused_data(directory, "data_batch_3.bin", *parts)

    def test_unreadable_on_one_rank_only(self):
        write_cifar(self.path("host0/data"))
        self.path("host1").mkdir()
        script = self.path("on_its_own_host")
        script.write_text(f'#!/bin/sh\ncd "{self.scratch}/host$OMPI_COMM_WORLD_RANK" && exec "$@"\n')
        script.chmod(0o755)
        line = command(2, [*self.small, "--data", "data"])
        result = run_line([*line[:3], script, *line[3:]])
        self.refused(result, 3, "rank 1", "data")

    def test_other_contents_on_another_rank(self):
        one, other = write_cifar(self.path("one")), write_cifar(self.path("other"), seed=2)
        result = run(2, [[*self.small, "--data", one], [*self.small, "--data", other]])
        self.refused(result, 5, "training contents")


class Checkpoints(ProgramTest):
    def setUp(self):
        super().setUp()
        self.directory = self.path("checkpoints")
        self.run_once = [*SMALL, "--checkpoint-dir", self.directory, "--checkpoint-interval", "3"]

    def test_damaged_checkpoints(self):
        self.good(run(0, self.run_once))
        files = sorted(self.directory.glob("step-*.ckpt"))
        self.assertEqual([f.name for f in files], ["step-00000012.ckpt", "step-00000015.ckpt", "step-00000016.ckpt"])
        newest, older = files[-1], files[-2]
        whole = newest.read_bytes()
        flipped = bytearray(whole)
        flipped[len(whole) // 2] ^= 1
        for name, content, part in [("empty", b"", "empty"), ("truncated", whole[:len(whole) // 2], "truncated"),
                                    ("a flipped byte", bytes(flipped), "damaged")]:
            newest.write_bytes(content)
            for ranks in (0, 2):
                with self.subTest(name, ranks=ranks):
                    self.refused(run(ranks, [*SMALL, "--resume", newest]), 4, str(newest), part)
        result = self.good(run(0, [*self.run_once, "--resume", "auto"]))
        self.assertIn(f"skips checkpoint {newest}", result.err)
        self.assertIn(f"resumed from {older}", result.out)

    def test_a_fresh_run_in_the_directory_of_another(self):
        self.good(run(0, [*small(epochs=1), "--checkpoint-dir", self.directory]))
        other = self.path("other")
        self.good(run(0, [*small(epochs=1), "--checkpoint-dir", other]))
        before = {f.name: f.read_bytes() for f in self.directory.iterdir()}
        files = [self.path(name) for name in ("m.jsonl", "indices.json", "trace.json")]
        line = [*small(epochs=1), "--checkpoint-dir", self.directory, "--metrics", files[0], "--dump-indices", files[1],
                "--trace", files[2]]
        for ranks in (0, 2):
            for more in ([], ["--resume", other / "step-00000008.ckpt"]):
                with self.subTest(ranks=ranks, more=more):
                    self.refused(run(ranks, [*line, *more]), 4, str(self.directory), "--resume auto", "another directory")
        self.assertEqual({f.name: f.read_bytes() for f in self.directory.iterdir()}, before)
        self.assertEqual([f for f in files if f.exists()], [])

    def test_a_run_in_the_directory_of_one_that_goes_on(self):
        metrics, line = self.path("m.jsonl"), ["--checkpoint-dir", self.directory]
        job = Running(0, [*small(samples=2000, channels=64), *line, "--metrics", metrics])
        job.wait_for_steps(metrics, 1)
        for more in ([], ["--resume", "auto"]):
            self.refused(run(0, [*small(), *line, *more]), 4, str(self.directory), "another run")
        job.kill()
        self.good(run(0, [*small(epochs=1), *line]))

    def test_directory_for_a_file(self):
        self.directory.mkdir()
        self.refused(run(0, [*SMALL, "--resume", self.directory]), 4, str(self.directory), "--resume auto")

    def test_another_model(self):
        self.good(run(0, [*small(epochs=1), "--checkpoint-dir", self.directory]))
        files = sorted(self.directory.iterdir())
        other = [*small(model="resnet34"), "--checkpoint-dir", self.directory, "--resume"]
        for ranks in (0, 2):
            self.refused(run(ranks, [*other, "auto"]), 4, "resnet18", "resnet34")
        wider = [*small(channels=24), "--checkpoint-dir", self.directory, "--resume", "auto"]
        self.refused(run(0, wider), 4, "give --model resnet18 --stem imagenet --channels 16", "24 channels")
        self.assertEqual(sorted(self.directory.iterdir()), files)

    def test_missing(self):
        self.refused(run(2, [*SMALL, "--resume", "/nowhere/a.ckpt"]), 4, "/nowhere/a.ckpt")

    def test_auto_without_any_starts_fresh_and_says_so(self):
        result = self.good(run(0, [*self.run_once, "--resume", "auto"]))
        self.assertIn("starts fresh", result.out)

    def test_a_directory_that_cannot_be_written(self):
        self.directory.write_text("a file\n")
        result = self.good(run(2, self.run_once))
        self.assertIn("no checkpoint at step 3", result.err)
        self.assertIn("Training goes on", result.err)
        self.assertEqual(self.directory.read_text(), "a file\n")

    def test_a_full_disk_keeps_the_previous_checkpoint(self):
        self.good(run(0, [*small(epochs=1), "--checkpoint-dir", self.directory]))
        before = {f.name: f.read_bytes() for f in self.directory.glob("*.ckpt")}

        def small_files_only():  # a write beyond the limit fails, as on a full disk
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20, 2 << 20))

        result = self.good(run(0, [*self.run_once, "--resume", "auto"], preexec_fn=small_files_only))
        self.assertIn("no checkpoint at step 9", result.err)
        self.assertIn("the previous one stays", result.err)
        self.assertEqual({f.name: f.read_bytes() for f in self.directory.glob("*.ckpt*")}, before)

    def test_another_number_of_ranks(self):
        self.good(run(2, self.run_once))  # checkpoints at 3, 6 and 8; an epoch has 4 steps
        inside = self.directory / "step-00000006.ckpt"
        self.refused(run(1, [*SMALL, "--resume", inside]), 4, "ranks: 2", "this run has 1")
        between = self.directory / "step-00000008.ckpt"
        result = self.good(run(0, [*small(epochs=3), "--resume", between]))
        self.assertIn("epoch 3/3", result.out)


class Device(ProgramTest):
    def test_cuda_is_refused_by_all_ranks(self):
        for ranks in (0, 2):
            for program in ("resnet_train", "step_bench"):
                with self.subTest(ranks=ranks, program=program):
                    self.refused(run(ranks, ["--device", "cuda"], program), 6, "CUDA", "--device cpu")


class Memory(ProgramTest):
    def test_too_little(self):
        def little():
            resource.setrlimit(resource.RLIMIT_AS, (600 << 20, 600 << 20))

        result = run(0, ["--batch-size", "512", "--threads", "1"], preexec_fn=little)
        self.refused(result, 7, "memory")


class Trace(ProgramTest):
    def test_a_file_that_cannot_be_made_ends_the_run_before_its_first_step(self):
        metrics = self.path("m.jsonl")
        line = [*SMALL, "--metrics", metrics, "--trace"]
        self.refused(run(2, [[*line, self.path("t.json")], [*line, "/nowhere/t.json"]]), 3, "rank 1", "/nowhere/t.rank1.json")
        self.assertEqual(step_lines(metrics) if metrics.exists() else [], [])

    def test_a_disk_that_is_full_at_the_end_loses_the_trace_only(self):
        result = self.good(run(0, [*SMALL, "--trace", "/dev/full"]))
        self.assertIn("cannot write the trace file /dev/full", result.err)


class StandardOutput(ProgramTest):
    def run_without_reader(self, arguments, program="resnet_train"):
        reader, writer = os.pipe()
        os.close(reader)
        line = [str(word) for word in command(0, arguments, program)]
        done = subprocess.run(line, stdin=subprocess.DEVNULL, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT)
        os.close(writer)
        return Result(done.returncode, "", done.stderr)

    def test_a_run_goes_on_without_a_reader_of_its_log(self):
        checkpoints = self.path("checkpoints")
        self.good(self.run_without_reader([*SMALL, "--checkpoint-dir", checkpoints]))
        self.assertEqual(len(list(checkpoints.glob("*.ckpt"))), 2)

    def test_a_result_that_is_lost_is_an_error(self):
        line = [*SMALL, "--steps", "1", "--warmup", "0"]
        self.refused(self.run_without_reader(line, "step_bench"), 3, "standard output", "Broken pipe")
        full = shlex.join(command(0, line, "step_bench")) + " >/dev/full"
        self.refused(run_line(["bash", "-c", full]), 3, "standard output", "No space left")


class NonFinite(ProgramTest):
    def test_a_learning_rate_that_explodes(self):
        for ranks in (0, 2):
            metrics = self.path(f"m{ranks}.jsonl")
            result = run(ranks, [*SMALL, "--lr", "1e38", "--max-skipped-steps", "2", "--metrics", metrics])
            with self.subTest(ranks=ranks):
                self.refused(result, 8, "2 steps in a row", "first tensor that is not finite", "--lr")
                self.assertIn("every rank skips the step", result.err)
                losses = [line["loss"] for line in step_lines(metrics)]
                self.assertEqual(losses[-2:], [None, None])
                self.assertIsNotNone(losses[0])


if __name__ == "__main__":
    main()

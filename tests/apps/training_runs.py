#!/usr/bin/env python3
"""Whole runs: ranks in lockstep, the same bits twice, files, resume, the bench's loss."""

import json
import math
import re

from program import (ProgramTest, main, run, checksums, without_times, lines_of, step_lines, epoch_lines, small, SMALL)


class Lockstep(ProgramTest):
    def test_all_ranks_hold_the_same_bits_after_every_epoch(self):
        for ranks in (1, 2, 4, 8):
            with self.subTest(ranks=ranks):
                metrics = self.path(f"m{ranks}.jsonl")
                result = self.good(run(ranks, [*small(batch=4), "--checksums", "--metrics", metrics]))
                found = checksums(result)
                self.assertEqual(sorted(found), [0, 1], str(result))
                for epoch in found.values():
                    self.assertEqual(len(epoch), ranks)
                    self.assertEqual(len(set(epoch)), 1, epoch)
                self.assertNotEqual(found[0][0], found[1][0])
                self.assertEqual([line["test_total"] for line in epoch_lines(metrics)], [17, 17])
                self.assertEqual(len(step_lines(metrics)), 2 * math.ceil(64 / (4 * ranks)))

    def test_equal_runs_and_overlap_give_equal_bits(self):
        outcomes = []
        for name, more in [("a", []), ("b", []), ("c", ["--no-overlap"]), ("d", ["--bucket-cap-mb", "0.5"])]:
            metrics = self.path(f"{name}.jsonl")
            result = self.good(run(2, [*SMALL, "--checksums", "--metrics", metrics, *more]))
            outcomes.append((without_times(metrics), checksums(result)))
        for other in outcomes[1:]:
            self.assertEqual(other, outcomes[0])

    def test_each_way_to_reduce(self):
        """Two addends have one sum, whoever adds them: at two ranks every way gives the same bits."""
        expected = None
        for way in ("shm", "ring", "tree", "doubling", "mpi"):
            metrics = self.path(f"{way}.jsonl")
            result = self.good(run(2, [*SMALL, "--allreduce", way, "--checksums", "--metrics", metrics]))
            self.assertRegex(result.out, rf"(?m)^communicator: {way}$")
            found = (without_times(metrics), checksums(result))
            expected = expected or found
            self.assertEqual(found, expected)
            self.good(run(3, [*SMALL, "--allreduce", way]))

    def test_bf16(self):
        found = checksums(self.good(run(2, [*SMALL, "--dtype", "bf16", "--checksums"])))
        self.assertEqual(len(set(found[1])), 1)

    def test_fewer_test_samples_than_ranks(self):
        metrics = self.path("m.jsonl")
        self.good(run(4, ["--model", "resnet18", "--limit-train", "16", "--limit-test", "3", "--batch-size", "2",
                          "--epochs", "1", "--threads", "1", "--metrics", metrics]))
        self.assertEqual(epoch_lines(metrics)[0]["test_total"], 3)


class Files(ProgramTest):
    def test_metrics(self):
        metrics = self.path("m.jsonl")
        metrics.write_text("an earlier run\n")
        self.good(run(2, [*SMALL, "--metrics", metrics]))
        lines = lines_of(metrics)
        self.assertEqual([line.get("step", "epoch") for line in lines], [0, 1, 2, 3, "epoch", 4, 5, 6, 7, "epoch"])
        for line in lines:
            keys = ["epoch", "step", "loss", "lr", "images_per_second"] if "step" in line else [
                "epoch", "train_loss", "test_loss", "test_accuracy", "test_correct", "test_total", "seconds"]
            self.assertEqual(list(line), keys)
        first = lines[4]
        self.assertEqual(first["test_accuracy"], first["test_correct"] / first["test_total"])
        self.assertAlmostEqual(first["train_loss"], sum(line["loss"] for line in lines[:4]) / 4, places=12)
        self.assertEqual([line["lr"] for line in step_lines(metrics)],
                         sorted((line["lr"] for line in step_lines(metrics)), reverse=True))

    def test_indices(self):
        path = self.path("indices.json")
        self.good(run(2, ["--model", "resnet18", "--limit-train", "13", "--limit-test", "4", "--batch-size", "4",
                          "--epochs", "2", "--threads", "1", "--dump-indices", path]))
        entries = json.loads(path.read_text())
        self.assertEqual([(e["epoch"], e["rank"]) for e in entries], [(0, 0), (0, 1), (1, 0), (1, 1)])
        for epoch in (0, 1):
            both = [e["indices"] for e in entries if e["epoch"] == epoch]
            self.assertEqual([len(part) for part in both], [7, 7])
            self.assertEqual(set(both[0] + both[1]), set(range(13)))
        self.assertNotEqual(entries[0]["indices"], entries[2]["indices"])

    def test_trace(self):
        path = self.path("trace.json")
        self.good(run(2, [*SMALL, "--trace", path]))
        for rank, name in enumerate(["trace.json", "trace.rank1.json"]):
            events = json.loads(self.path(name).read_text())["traceEvents"]
            names = {event.get("name") for event in events}
            self.assertTrue({"forward", "backward", "update", "evaluate"} <= names, names)
            self.assertEqual({event["pid"] for event in events}, {rank})

    def test_plain_lines_where_there_is_no_terminal(self):
        result = self.good(run(2, SMALL))
        self.assertNotIn("\r", result.out)
        self.assertRegex(result.out, r"epoch 1/2  step 1/4  loss [0-9.]+  lr [0-9.]+  \d+ images/s \(\d+ a rank\)")
        self.assertRegex(result.out, r"start-up [0-9.]+ s: program [0-9.]+, MPI_Init [0-9.]+, .*first step [0-9.]+")
        self.assertEqual(len(re.findall(r"test accuracy", result.out)), 2)

    def test_the_printed_configuration_runs_again(self):
        first, second = self.path("a.jsonl"), self.path("b.jsonl")
        directory = self.path("checkpoints")
        result = self.good(run(2, [*SMALL, "--lr", "0.03", "--nesterov", "--metrics", first, "--checkpoint-dir", directory]))
        printed = result.out[:result.out.index("epoch 1/")]
        self.assertEqual(printed, (directory / "config.toml").read_text())
        config = self.path("again.toml")
        config.write_text(printed)
        self.good(run(2, ["--config", config, "--metrics", second, "--checkpoint-dir", self.path("others")]))
        self.assertEqual(without_times(second), without_times(first))


class Resume(ProgramTest):
    def test_evaluation_only(self):
        metrics, directory = self.path("m.jsonl"), self.path("checkpoints")
        self.good(run(2, [*SMALL, "--metrics", metrics, "--checkpoint-dir", directory]))
        before = metrics.read_text()
        self.good(run(2, [*SMALL, "--metrics", metrics, "--checkpoint-dir", directory, "--resume", "auto",
                          "--evaluate-only"]))
        self.assertTrue(metrics.read_text().startswith(before))
        trained, evaluated = epoch_lines(metrics)[1:]
        self.assertIsNone(evaluated["train_loss"])
        for key in ("test_loss", "test_correct", "test_total"):
            self.assertEqual(evaluated[key], trained[key])

    def test_a_complete_run_has_nothing_left(self):
        metrics, directory = self.path("m.jsonl"), self.path("checkpoints")
        line = [*SMALL, "--metrics", metrics, "--checkpoint-dir", directory]
        self.good(run(0, line))
        before = metrics.read_text()
        self.assertIn("complete", self.good(run(0, [*line, "--resume", "auto"])).out)
        self.assertEqual(metrics.read_text(), before)

    def test_the_interval_of_checkpoints_changes_nothing(self):
        outcomes = []
        for interval in (1, 3, 100):
            metrics = self.path(f"m{interval}.jsonl")
            self.good(run(2, [*SMALL, "--metrics", metrics, "--checkpoint-dir", self.path(f"c{interval}"),
                              "--checkpoint-interval", str(interval)]))
            outcomes.append(without_times(metrics))
        self.assertEqual(len(set(outcomes)), 1)


class Bench(ProgramTest):
    def test_other_steps_on_another_rank(self):
        result = run(2, [[*SMALL, "--steps", "2"], [*SMALL, "--steps", "3"]], "step_bench")
        self.refused(result, 5, "--steps", "'2'", "'3'", "rank 1")

    def test_a_result_that_cannot_be_written(self):
        for ranks in (0, 2):
            result = run(ranks, [*SMALL, "--warmup", "0", "--steps", "1", "--json", "/nowhere/bench.json"], "step_bench")
            self.refused(result, 3, "--json /nowhere/bench.json")

    def test_it_takes_the_steps_of_the_trainer(self):
        for ranks in (0, 2):
            for dtype in ("fp32", "bf16"):
                with self.subTest(ranks=ranks, dtype=dtype):
                    shared = ["--model", "resnet18", "--limit-train", "64", "--batch-size", "8", "--threads", "1",
                              "--dtype", dtype, "--seed", "3"]
                    metrics, out = self.path("m.jsonl"), self.path("bench.json")
                    # Crosses the end of an epoch: eight steps on one rank, four on two.
                    self.good(run(ranks, [*shared, "--warmup", "2", "--steps", "8", "--json", out], "step_bench"))
                    self.good(run(ranks, [*shared, "--limit-test", "8", "--metrics", metrics]))
                    result = json.loads(out.read_text())
                    self.assertEqual(list(result), [
                        "model", "stem", "channels", "batch_size", "dtype", "threads", "ranks", "ms_step", "ms_forward",
                        "ms_backward", "ms_optimizer", "ms_exposed_comm", "images_per_second", "last_loss"])
                    self.assertEqual(result["last_loss"], step_lines(metrics)[9]["loss"])
                    self.assertEqual(result["ranks"], max(1, ranks))
                    parts = result["ms_forward"] + result["ms_backward"] + result["ms_optimizer"]
                    self.assertGreater(parts, 0)
                    self.assertEqual(result["ms_exposed_comm"] == 0, ranks == 0)


if __name__ == "__main__":
    main()

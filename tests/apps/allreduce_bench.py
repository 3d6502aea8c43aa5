#!/usr/bin/env python3
"""allreduce_bench as a program: every operation and algorithm is right, its files can be read, bad input is refused."""

import csv
import json

from program import ProgramTest, main, run

QUICK = ["--device", "cpu", "--min-bytes", "4", "--max-bytes", "1M", "--factor", "512", "--samples", "1", "--warmup", "1"]
KEYS = ["operation", "algorithm", "ranks", "bytes", "in_place", "buffer", "us_median", "us_p99", "algbw_gbps", "busbw_gbps",
        "wrong"]
FACTORS = {"all_reduce": lambda n: 2 * (n - 1) / n, "reduce_scatter": lambda n: (n - 1) / n,
           "all_gather": lambda n: (n - 1) / n, "broadcast": lambda n: 1}
FORMS = {"ring": set(FACTORS), "shm": set(FACTORS), "mpi": set(FACTORS), "tree": {"all_reduce", "broadcast"},
         "doubling": {"all_reduce"}}


class AllReduceBench(ProgramTest):
    def rows(self, ranks, *more):
        path = self.path("rows.json")
        result = self.good(run(ranks, [*QUICK, *more, "--json", path], "allreduce_bench"))
        rows = json.loads(path.read_text())
        for row in rows:
            self.assertEqual(list(row), KEYS)
            self.assertEqual((row["ranks"], row["wrong"]), (ranks or 1, 0))
            self.assertGreaterEqual(row["us_p99"], row["us_median"])
        return result, rows

    def test_every_operation_and_algorithm(self):
        for ranks in (2, 3):
            result, rows = self.rows(ranks, "--operation", "all", "--algorithm", "all")
            found = {}
            for row in rows:
                found.setdefault(row["algorithm"], set()).add(row["operation"])
                self.assertEqual(row["buffer"], "window" if row["algorithm"] == "shm" else "heap")
                self.assertAlmostEqual(row["algbw_gbps"], row["bytes"] / row["us_median"] / 1000)
                self.assertAlmostEqual(row["busbw_gbps"], row["algbw_gbps"] * FACTORS[row["operation"]](ranks))
                self.assertIn(f"# {row['operation']} by {row['algorithm']}, {ranks} ranks, buffer", result.out)
            self.assertEqual(found, FORMS)
            self.assertEqual([row["in_place"] for row in rows], [True, False] * (len(rows) // 2))

    def test_defaults_and_csv(self):
        path = self.path("rows.csv")
        _, rows = self.rows(2, "--csv", path)
        self.assertEqual({(row["operation"], row["algorithm"], row["buffer"]) for row in rows},
                         {("all_reduce", "shm", "window")})
        self.assertEqual([row["bytes"] for row in rows[::2]], [4, 2048, 1 << 20])
        with path.open(newline="") as stream:
            table = list(csv.DictReader(stream))
        self.assertEqual([list(row) for row in table], [KEYS] * len(rows))
        self.assertEqual([float(row["us_median"]) for row in table], [row["us_median"] for row in rows])

    def test_each_rank_its_own_memory(self):
        _, rows = self.rows(2, "--buffer", "heap")
        self.assertEqual({(row["algorithm"], row["buffer"]) for row in rows}, {("shm", "heap")})

    def test_one_rank_has_no_bus_bandwidth(self):
        for ranks in (0, 1):
            result, rows = self.rows(ranks, "--algorithm", "all")
            self.assertEqual({row["busbw_gbps"] for row in rows}, {None})
            self.assertIn("one rank has no bus: no busbw", result.out)

    def test_what_is_refused(self):
        for arguments, code, parts in [
            (["--bogus"], 2, ["--bogus", "--help"]),
            (["--operation", "gather"], 2, ["--operation gather", "reduce_scatter"]),
            (["--algorithm", "star"], 2, ["--algorithm star", "ring"]),
            (["--algorithm", "nccl"], 2, ["--algorithm nccl", "ring, tree"]),
            (["--algorithm", "doubling", "--operation", "broadcast"], 2, ["doubling has no broadcast", "--algorithm ring"]),
            (["--buffer", "stack"], 2, ["--buffer stack", "window, heap"]),
            (["--min-bytes", "0"], 2, ["--min-bytes 0"]),
            (["--min-bytes", "8K", "--max-bytes", "4K"], 2, ["--min-bytes 8192", "--max-bytes 4096"]),
            (["--factor", "1"], 2, ["--factor 1"]),
            (["--samples", "0"], 2, ["--samples 0"]),
            (["--lr", "1"], 2, ["--lr"]),
            (["--csv", "same", "--json", "same"], 2, ["--csv and --json", "same"]),
            (["--json", "/nowhere/a.json"], 3, ["--json /nowhere/a.json", "No such file"]),
        ]:
            with self.subTest(arguments):
                self.refused(run(2, ["--device", "cpu", *arguments], "allreduce_bench"), code, *parts)
        one_alone = [["--device", "cpu", "--max-bytes", "8"], ["--device", "cpu", "--max-bytes", "16"]]
        self.refused(run(2, one_alone, "allreduce_bench"), 5, "--max-bytes", "rank 1")


if __name__ == "__main__":
    main()

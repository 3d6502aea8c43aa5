#!/usr/bin/env python3
"""Tests of scripts/download_cifar10: small archives, from files and from a server in this process."""

import hashlib
import http.server
import io
import pathlib
import signal
import subprocess
import tarfile
import tempfile
import threading
import time
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "download_cifar10"
NAMES = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]
FOLDER = "cifar-10-batches-bin"


def batch(name, records=4):
    # Does not compress, so that half of an archive lacks half of its files.
    block = b"".join(hashlib.sha256(f"{name} {i}".encode()).digest() for i in range(97))[:3072]
    return (bytes([3]) + block) * records


def archive_of(contents):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name, data in contents.items():
            member = tarfile.TarInfo(f"{FOLDER}/{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return stream.getvalue()


def md5(data):
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


class Server:
    """Serves `data` at any path. stop_after: closes the connection there. Waits for `go` before the first byte."""

    def __init__(self, data, stop_after=None, status=200, go=None):
        self.requests = 0
        self.asked = threading.Event()
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                server.requests += 1
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                server.asked.set()
                if go is not None:
                    go.wait(60)
                try:
                    self.wfile.write(data[:stop_after])
                except OSError:
                    pass  # the client was killed by the test

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/cifar.tar.gz"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()


class DownloadTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="lockstep-download-")
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name)
        self.directory = self.root / "new" / "data"
        self.contents = {name: batch(name) for name in NAMES} | {"batches.meta.txt": b"airplane\n"}
        self.good = archive_of(self.contents)

    def start(self, source, checksum):
        return subprocess.Popen([str(SCRIPT), str(self.directory), "--from", str(source), "--md5", checksum],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run_script(self, source, checksum):
        process = self.start(source, checksum)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def file(self, data, name="archive.tar.gz"):
        path = self.root / name
        path.write_bytes(data)
        return path

    def serve(self, *arguments, **options):
        server = Server(*arguments, **options)
        self.addCleanup(server.close)
        return server

    def check_complete(self):
        for name, data in self.contents.items():
            self.assertEqual((self.directory / FOLDER / name).read_bytes(), data)
        self.check_only([".download_cifar10.lock", FOLDER])

    def check_only(self, names):
        self.assertEqual(sorted(path.name for path in self.directory.iterdir()), sorted(names))

    def check_refused(self, result, *parts):
        code, out, err = result
        self.assertEqual(code, 3, out + err)
        for part in parts:
            self.assertIn(part, err)
        self.check_only([".download_cifar10.lock"])

    def test_good_file(self):
        code, out, err = self.run_script(self.file(self.good), md5(self.good))
        self.assertEqual(code, 0, err)
        self.check_complete()

    def test_good_server_and_again(self):
        server = self.serve(self.good)
        code, out, err = self.run_script(server.url, md5(self.good).upper())
        self.assertEqual(code, 0, err)
        self.assertIn("MiB", out)
        self.check_complete()
        code, out, err = self.run_script(server.url, md5(self.good))
        self.assertEqual(code, 0, err)
        self.assertIn("there already", out)
        self.assertEqual(server.requests, 1)

    def test_wrong_checksum(self):
        self.check_refused(self.run_script(self.file(self.good), "0" * 32), md5(self.good), "0" * 32)

    def test_the_official_checksum_is_the_default(self):
        run = subprocess.run([str(SCRIPT), str(self.directory), "--from", str(self.file(self.good))],
                             capture_output=True, text=True)
        self.check_refused((run.returncode, run.stdout, run.stderr), "c32a1d4ab5d03f1284b67883e8d87530")

    def test_connection_that_breaks(self):
        server = self.serve(self.good, stop_after=len(self.good) // 2)
        self.check_refused(self.run_script(server.url, md5(self.good)), str(len(self.good)))

    def test_truncated_archive(self):
        half = self.good[:len(self.good) // 2]
        self.check_refused(self.run_script(self.file(half), md5(half)))

    def test_truncated_archive_against_the_checksum_of_the_whole(self):
        self.check_refused(self.run_script(self.file(self.good[:-1]), md5(self.good)), "incomplete")

    def test_archive_without_a_file(self):
        del self.contents["data_batch_4.bin"]
        data = archive_of(self.contents)
        self.check_refused(self.run_script(self.file(data), md5(data)), "data_batch_4.bin", "missing")

    def test_archive_with_half_a_record(self):
        self.contents["test_batch.bin"] = self.contents["test_batch.bin"][:-1]
        data = archive_of(self.contents)
        self.check_refused(self.run_script(self.file(data), md5(data)), "test_batch.bin", "12291 bytes")

    def test_page_instead_of_an_archive(self):
        page = b"<html>moved</html>"
        self.check_refused(self.run_script(self.file(page), md5(page)))

    def test_server_that_says_no(self):
        server = self.serve(b"gone", status=404)
        self.check_refused(self.run_script(server.url, md5(self.good)), "404")

    def test_missing_archive(self):
        self.check_refused(self.run_script(self.root / "nothing.tar.gz", md5(self.good)), "nothing.tar.gz")

    def test_incomplete_data_set_is_not_overwritten(self):
        (self.directory / FOLDER).mkdir(parents=True)
        kept = self.directory / FOLDER / "data_batch_1.bin"
        kept.write_bytes(b"mine")
        code, out, err = self.run_script(self.file(self.good), md5(self.good))
        self.assertEqual(code, 3)
        self.assertIn("Remove", err)
        self.assertEqual(kept.read_bytes(), b"mine")

    def test_two_at_once(self):
        go = threading.Event()
        server = self.serve(self.good, go=go)
        first = self.start(server.url, md5(self.good))
        self.assertTrue(server.asked.wait(60))
        second = self.start(server.url, md5(self.good))
        self.assertIn("waiting", second.stdout.readline())
        go.set()
        for process in (first, second):
            out, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, err)
        self.assertEqual(server.requests, 1)
        self.check_complete()

    def test_killed_in_the_middle(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            server = self.serve(self.good, go=threading.Event())
            process = self.start(server.url, md5(self.good))
            self.assertTrue(server.asked.wait(60))
            while not list(self.directory.glob(".cifar-10-partial-*/archive.tar.gz")):
                time.sleep(0.01)
            process.send_signal(number)
            process.communicate(timeout=60)
            self.assertNotEqual(process.returncode, 0)
            self.assertFalse((self.directory / FOLDER).exists())
            if number != signal.SIGKILL:
                self.check_only([".download_cifar10.lock"])
        code, _, err = self.run_script(self.file(self.good), md5(self.good))
        self.assertEqual(code, 0, err)
        self.check_complete()


if __name__ == "__main__":
    unittest.main()

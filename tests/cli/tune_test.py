#!/usr/bin/python3 -B
"""`tilewright tune`: what it finds is kept and used, asking again is free, and an interrupt loses nothing."""

import json
import os
import pty
import signal
import subprocess
import time

import cli

SHAPE = "300,64,900"
PLOT = os.path.abspath("tools/plot_tuning")


class TuneTest(cli.CliTest):
    def setUp(self):
        super().setUp()
        self.cache = self.path("cache")
        self.environment["TILEWRIGHT_CACHE_DIR"] = self.cache

    def records(self):
        with open(os.path.join(self.cache, "tuning-v3.json")) as file:
            return json.load(file)["records"]

    def tune(self, *words):
        done = self.tilewright("tune", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.decode(), done.stderr.decode()

    def test_tunes_several_shapes_once(self):
        words = ("--shape", SHAPE, "--shape", "64,32,500", "--dtype", "bf16", "--limit", 8)
        out, progress = self.tune(*words, "--json", "p.json")
        for title in ("300x64x900 bf16", "64x32x500 bf16"):
            self.assertIn(title + " (", out)
            self.assertIn(title + ": ", progress)
        self.assertNotIn("failed", out)
        self.assertNotIn("\r", progress)
        self.assertIn("8 configurations tried", out)
        records = self.records()
        self.assertEqual(sorted(record["problem"]["rows"] for record in records), [64, 512])
        for record in records:
            self.assertTrue(record["complete"])
            self.assertGreater(len(record["winners"]), 0)
        with open(self.path("p.json")) as file:
            searches = json.load(file)
        self.assertEqual([(s["rows"], s["hidden"], s["classes"], s["dtype"]) for s in searches],
                         [(300, 64, 900, "bf16"), (64, 32, 500, "bf16")])
        for search in searches:
            self.assertIn({name: search[name] for name in records[0]}, records)
        for record in records:
            self.assertLessEqual({"forward", "dx", "dw"}, {part["part"] for part in record["parts"]})

        begin = time.monotonic()
        out, progress = self.tune(*words, "--json", "again.json")
        self.assertLess(time.monotonic() - begin, 1)
        self.assertEqual(out.count("known already"), 2)
        self.assertEqual(progress, "")
        self.assertEqual(open(self.path("p.json")).read(), open(self.path("again.json")).read())
        self.assertEqual(self.records(), records)

    def plot(self, *words, **environment):
        return subprocess.run([PLOT, *words], cwd=self.folder, env={**self.environment, **environment}, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=200)

    def test_what_was_measured_can_be_drawn(self):
        self.tune("--shape", "8,8,64", "--limit", 2, "--json", "p.json")
        done = self.plot("p.json", "p.svg")
        if b"matplotlib is not installed" in done.stderr:
            self.assertEqual(done.returncode, 1)
            self.skipTest("no matplotlib on this machine")
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        with open(self.path("p.svg")) as file:
            self.assertIn("<svg", file.read(2000))

    def test_what_is_no_measurement_is_not_drawn(self):
        self.write("other.json", b"[{}]")
        for name in ("absent.json", "other.json"):
            done = self.plot(name, "p.svg")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(b"expected a file that `tilewright tune --json` wrote, found", done.stderr)

    def run_case(self, **environment):
        self.write("x.npy", cli.npy_bytes([0.01 * (i % 37) for i in range(300 * 64)], [300, 64]))
        self.write("w.npy", cli.npy_bytes([0.02 * (i % 41) - 0.4 for i in range(900 * 64)], [900, 64]))
        self.write("y.npy", cli.npy_bytes([i % 900 for i in range(300)], [300], "<i8"))
        done = self.tilewright("run", "--hidden", "x.npy", "--weight", "w.npy", "--labels", "y.npy", "--out", "out", **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("out/metrics.json")) as file:
            return json.load(file), done.stderr.decode()

    def test_run_uses_what_was_found(self):
        planned = self.run_case()[0]["configuration"]
        self.tune("--shape", SHAPE, "--limit", 3)
        record = self.records()[0]
        # Another winner than planning would choose, whatever was fastest here.
        configuration = {**record["winners"][0]["configuration"], "forward_rows": 40, "forward_columns": 96}
        record["winners"] = [{**record["winners"][0], "configuration": configuration}]
        with open(os.path.join(self.cache, "tuning-v3.json"), "w") as file:
            json.dump({"format": "tilewright tuning", "version": 3, "records": [record]}, file)
        self.assertIn("forward 40x96", self.run_case()[0]["configuration"])
        self.assertEqual(self.run_case(TILEWRIGHT_AUTOTUNE="off")[0]["configuration"], planned)

        with open(os.path.join(self.cache, "tuning-v3.json"), "w") as file:
            file.write("{\"records\": [")
        metrics, said = self.run_case()
        self.assertEqual(metrics["configuration"], planned)
        self.assertEqual(said.count("\n"), 1)
        self.assertIn("tuning-v3.json are not used", said)

    def test_write_tunes_at_the_first_call(self):
        self.run_case(TILEWRIGHT_AUTOTUNE="write")
        self.assertEqual(len(self.records()), 1)

    def test_an_interrupt_keeps_what_was_measured(self):
        command = subprocess.Popen([cli.PROGRAM, "tune", "--shape", "1024,256,8000", "--limit", "500"], cwd=self.folder,
                                   env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while b"best" not in command.stderr.readline():
            self.assertIsNone(command.poll())
        command.send_signal(signal.SIGINT)
        out, err = command.communicate(timeout=60)
        self.assertEqual(command.returncode, 1, err)
        self.assertIn(b"interrupted", err.splitlines()[-1])
        self.assertIn(b"search interrupted", out)
        record = self.records()[0]
        self.assertFalse(record["complete"])
        self.assertGreater(len(record["winners"]), 0)
        self.assertEqual(os.listdir(self.cache).count("tuning-v3.json"), 1)

    def test_a_terminal_sees_a_bar(self):
        master, slave = pty.openpty()
        done = subprocess.run([cli.PROGRAM, "tune", "--shape", "8,8,64", "--limit", "3"], cwd=self.folder, env=self.environment,
                              stdout=subprocess.PIPE, stderr=slave, timeout=100)
        os.close(slave)
        shown = os.read(master, 65536).decode()
        os.close(master)
        self.assertEqual(done.returncode, 0)
        self.assertIn("\r8x8x64 f32 [####", shown)
        self.assertIn("best ", shown)

    def test_records_travel(self):
        self.tune("--shape", "8,8,64", "--limit", 2)
        self.assertIn("wrote 1 tuning records", self.succeed("cache", "export", "records.json"))
        self.assertIn("tuned: linear_cross_entropy rows=8", self.succeed("cache", "list"))
        other = {"TILEWRIGHT_CACHE_DIR": self.path("other")}
        self.assertIn("added 1 tuning records", self.succeed("cache", "import", "records.json", **other))
        self.assertIn("added 0 tuning records", self.succeed("cache", "import", "records.json", **other))
        self.write("bad.json", b"[" * 100000)
        self.refuse("bad.json", "cache", "import", "bad.json", **other)

    def test_mistakes(self):
        self.refuse("expected --shape N,H,V, found none", "tune")
        self.refuse("--shape", "tune", "--shape", "1,2")
        self.refuse("in a folder that exists", "tune", "--shape", SHAPE, "--json", "absent/file")
        self.refuse("expected --limit from 1 to 1000, found 0", "tune", "--shape", SHAPE, "--limit", 0)
        self.refuse("--dtype", "tune", "--shape", SHAPE, "--dtype", "f64")
        self.refuse("expected a cache folder", "tune", "--shape", SHAPE, TILEWRIGHT_CACHE_DIR="off")
        self.refuse("TILEWRIGHT_AUTOTUNE", "tune", "--shape", SHAPE, TILEWRIGHT_AUTOTUNE="on")


if __name__ == "__main__":
    cli.main()

#!/usr/bin/python3 -B
"""`tilewright run` on good input: every form, type and reduction against a reference in Python's floats."""

import json
import math
import os
import random
import struct

import cli

ROWS, HIDDEN, CLASSES = 7, 5, 11


def rounded(value, dtype):
    """As float32, float16 or bfloat16."""
    if dtype == "f16":
        return struct.unpack("<e", struct.pack("<e", value))[0]
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    if dtype == "bf16":
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return struct.unpack("<f", struct.pack("<I", bits))[0]


class RunTest(cli.CliTest):
    def setUp(self):
        super().setUp()
        draw = random.Random(3)
        self.hidden = [draw.gauss(0, 1) for _ in range(ROWS * HIDDEN)]
        self.weight = [draw.gauss(0, 1) for _ in range(CLASSES * HIDDEN)]
        self.logits = [draw.gauss(0, 2) for _ in range(ROWS * CLASSES)]
        self.labels = [3, 0, 10, -100, 3, 7, -100]
        self.write_inputs()

    def write_inputs(self, descr="<f8", labels="<i8", fortran=False):
        self.write("x.npy", cli.npy_bytes(self.hidden, [ROWS, HIDDEN], descr, fortran))
        self.write("w.npy", cli.npy_bytes(self.weight, [CLASSES, HIDDEN], descr, fortran))
        self.write("z.npy", cli.npy_bytes(self.logits, [ROWS, CLASSES], descr, fortran))
        self.write("y.npy", cli.npy_bytes(self.labels, [ROWS], labels))

    def linear(self, *words, out="out"):
        self.succeed("run", "--hidden", "x.npy", "--weight", "w.npy", "--labels", "y.npy", "--out", out, *words)

    def over_logits(self, *words, out="out"):
        self.succeed("run", "--logits", "z.npy", "--labels", "y.npy", "--out", out, *words)

    def result(self, name, out="out"):
        return cli.read_npy(os.path.join(self.path(out), name))

    def reference(self, dtype="f32", factors=None, ignore=-100):
        """Row losses, lse, dX, dW, dZ; `factors` are the rows' upstream gradients (default: of the mean)."""
        def matrix(values, rows, columns):
            return [[rounded(v, dtype) for v in values[i * columns:(i + 1) * columns]] for i in range(rows)]
        x, w = matrix(self.hidden, ROWS, HIDDEN), matrix(self.weight, CLASSES, HIDDEN)
        valid = sum(label != ignore for label in self.labels)
        factors = factors or [1 / valid] * ROWS
        def scaled(gradients):
            return [[f * g for g in row] for f, row in zip(factors, gradients)]
        linear = cli.cross_entropy_rows(cli.product(x, cli.transposed(w)), self.labels, ignore)
        over = cli.cross_entropy_rows(matrix(self.logits, ROWS, CLASSES), self.labels, ignore)
        dz = scaled(linear[2])
        return {"losses": linear[0], "lse": linear[1], "dx": cli.flat(cli.product(dz, w)),
                "dw": cli.flat(cli.product(cli.transposed(dz), x)), "over_losses": over[0], "over_lse": over[1],
                "dlogits": cli.flat(scaled(over[2])), "valid": valid}

    def test_mean_of_each_type(self):
        for dtype, tolerance in (("f32", 2e-5), ("tf32", 4e-3), ("bf16", 4e-3), ("f16", 4e-3)):
            with self.subTest(dtype):
                expected = self.reference(dtype)
                self.linear("--dtype", dtype)
                shape, loss = self.result("loss.npy")
                self.assertEqual(shape, ())
                self.assertAlmostEqual(loss[0], sum(expected["losses"]) / expected["valid"],
                                       delta=2e-3 if dtype == "tf32" else 1e-5)
                self.assert_close(self.result("lse.npy")[1], expected["lse"], 2e-3 if dtype == "tf32" else 1e-5)
                self.assert_close(self.result("dx.npy")[1], expected["dx"], tolerance)
                self.assert_close(self.result("dw.npy")[1], expected["dw"], tolerance)
                self.assertEqual(self.result("dx.npy")[0], (ROWS, HIDDEN))
                self.assertEqual(self.result("dw.npy")[0], (CLASSES, HIDDEN))

    def test_over_logits(self):
        for dtype, tolerance in (("f32", 2e-5), ("bf16", 4e-3), ("f16", 4e-3)):
            with self.subTest(dtype):
                expected = self.reference(dtype)
                self.over_logits("--dtype", dtype)
                self.assertAlmostEqual(self.result("loss.npy")[1][0], sum(expected["over_losses"]) / expected["valid"],
                                       delta=1e-5)
                self.assert_close(self.result("lse.npy")[1], expected["over_lse"], 1e-5)
                self.assert_close(self.result("dlogits.npy")[1], expected["dlogits"], tolerance)
                self.assertEqual(sorted(os.listdir(self.path("out"))), ["dlogits.npy", "loss.npy", "lse.npy", "metrics.json"])

    def test_sum_and_none_with_an_upstream_gradient(self):
        self.write("g.npy", cli.npy_bytes([2.5], [1], "<f8"))
        expected = self.reference(factors=[2.5] * ROWS)
        self.linear("--reduction", "sum", "--grad-output", "g.npy")
        self.assertAlmostEqual(self.result("loss.npy")[1][0], sum(expected["losses"]), delta=1e-4)
        self.assert_close(self.result("dx.npy")[1], expected["dx"], 2e-5)
        self.assert_close(self.result("dw.npy")[1], expected["dw"], 2e-5)

        factors = [0.5, -1, 2, 9, 0, 1.5, 4]
        self.write("g.npy", cli.npy_bytes(factors, [ROWS], "<f4"))
        expected = self.reference(factors=factors)
        self.linear("--reduction", "none", "--grad-output", "g.npy")
        shape, losses = self.result("loss.npy")
        self.assertEqual(shape, (ROWS,))
        self.assert_close(losses, expected["losses"], 1e-5)
        self.assert_close(self.result("dx.npy")[1], expected["dx"], 2e-5)
        self.assert_close(self.result("dw.npy")[1], expected["dw"], 2e-5)

        self.over_logits("--reduction", "none", "--grad-output", "g.npy")
        self.assert_close(self.result("loss.npy")[1], expected["over_losses"], 1e-5)
        self.assert_close(self.result("dlogits.npy")[1], expected["dlogits"], 2e-5)

    def test_gradients_that_arrive_for_lse_and_entropy(self):
        factors = [0.5, -1, 2, 9, 0, 1.5, 4]
        self.write("none.npy", cli.npy_bytes([0] * ROWS, [ROWS], "<f4"))
        self.write("g.npy", cli.npy_bytes(factors, [ROWS], "<f4"))
        def gradients(row, factor, label):
            z = self.logits[row * CLASSES:(row + 1) * CLASSES]
            lse = math.log(sum(math.exp(v) for v in z))
            p = [math.exp(v - lse) for v in z]
            entropy = lse - sum(a * b for a, b in zip(p, z))
            live = factor if label >= 0 else 0
            return [live * a for a in p], [-live * a * (v - lse + entropy) for a, v in zip(p, z)]
        rows = [gradients(i, factors[i], label) for i, label in enumerate(self.labels)]
        for which, option in enumerate(("--grad-lse", "--grad-entropy")):
            with self.subTest(option):
                self.over_logits("--reduction", "none", "--grad-output", "none.npy", option, "g.npy")
                expected = cli.flat([row[which] for row in rows])
                self.assert_close(self.result("dlogits.npy")[1], expected, 2e-5)
                self.linear("--reduction", "none", "--grad-output", "none.npy", option, "g.npy")
                self.assertTrue(any(self.result("dw.npy")[1]))

    def test_a_scalar_file_is_an_upstream_gradient(self):
        self.write("g.npy", cli.npy_bytes([3], [], "<i4"))
        expected = self.reference(factors=[3 / 5] * ROWS)
        self.linear("--grad-output", "g.npy")
        self.assert_close(self.result("dx.npy")[1], expected["dx"], 2e-5)

    def test_storage_does_not_matter(self):
        self.hidden = [float(struct.unpack("<e", struct.pack("<e", v))[0]) for v in self.hidden]
        self.weight = [float(struct.unpack("<e", struct.pack("<e", v))[0]) for v in self.weight]
        self.write_inputs()
        self.linear(out="plain")
        for descr in ("<f2", ">f2", "<f4", ">f4", ">f8"):
            for fortran in (False, True):
                with self.subTest(descr=descr, fortran=fortran):
                    self.write_inputs(descr, fortran=fortran)
                    self.linear()
                    for name in ("loss.npy", "dx.npy", "dw.npy", "lse.npy"):
                        self.assertEqual(self.result(name), self.result(name, "plain"))

    def test_every_integer_type_of_labels(self):
        self.linear(out="plain")
        for descr in ("|i1", "<i2", "<i4", ">i4", ">i8"):
            self.write_inputs(labels=descr)
            self.linear()
            self.assertEqual(self.result("loss.npy"), self.result("loss.npy", "plain"), descr)
        self.labels = [label if label >= 0 else 200 for label in self.labels]
        for descr in ("|u1", "<u2", "<u4", ">u8"):
            self.write_inputs(labels=descr)
            self.linear("--ignore-index", 200)
            self.assertEqual(self.result("loss.npy"), self.result("loss.npy", "plain"), descr)

    def test_integers_are_numbers(self):
        self.hidden = [round(v) for v in self.hidden]
        self.weight = [round(v) for v in self.weight]
        self.write("x.npy", cli.npy_bytes(self.hidden, [ROWS, HIDDEN], "|i1"))
        self.write("w.npy", cli.npy_bytes(self.weight, [CLASSES, HIDDEN], ">i2"))
        expected = self.reference()
        self.linear()
        self.assert_close(self.result("dw.npy")[1], expected["dw"], 2e-5)

    def test_ignore_index_may_be_a_class_or_minus_one(self):
        self.labels = [3, 0, 10, -1, 3, 7, -1]
        self.write_inputs()
        expected = self.reference(ignore=-1)
        self.linear("--ignore-index", "-1")
        self.assert_close(self.result("dx.npy")[1], expected["dx"], 2e-5)
        self.labels = [3, 0, 10, 0, 3, 7, 1]
        self.write_inputs()
        expected = self.reference(ignore=3)
        self.linear("--ignore-index=3")
        self.assertAlmostEqual(self.result("loss.npy")[1][0], sum(expected["losses"]) / 5, delta=1e-5)

    def test_no_valid_row(self):
        self.labels = [-100] * ROWS
        self.write_inputs()
        for run in (self.linear, self.over_logits):
            run()
            self.assertEqual(self.result("loss.npy")[1], [0.0])
        self.assertEqual(set(self.result("dx.npy")[1]), {0.0})
        self.assertEqual(set(self.result("dw.npy")[1]), {0.0})
        self.assertEqual(set(self.result("dlogits.npy")[1]), {0.0})

    def test_one_class(self):
        self.write("w.npy", cli.npy_bytes(self.weight[:HIDDEN], [1, HIDDEN], "<f8"))
        self.write("y.npy", cli.npy_bytes([0] * ROWS, [ROWS], "<i8"))
        self.linear()
        self.assertEqual(self.result("loss.npy")[1], [0.0])
        self.assertEqual(set(self.result("dx.npy")[1]), {0.0})

    def test_variants_agree(self):
        expected = self.reference()
        for variant in ("auto", "chunked", "whole", "recompute"):
            with self.subTest(variant):
                self.linear("--variant", variant)
                self.assert_close(self.result("dw.npy")[1], expected["dw"], 2e-5)

    def test_loss_only_writes_no_gradient(self):
        for run in (self.linear, self.over_logits):
            run("--variant", "loss_only", out="alone")
            self.assertEqual(sorted(os.listdir(self.path("alone"))), ["loss.npy", "lse.npy", "metrics.json"])
        self.linear()
        self.linear("--variant", "loss_only", out="alone")
        self.assert_close(self.result("lse.npy", "alone")[1], self.result("lse.npy")[1], 1e-6)

    def test_nan_and_infinity_stay_in_their_row(self):
        for odd in (math.nan, math.inf, -math.inf):
            with self.subTest(odd):
                self.hidden[2 * HIDDEN + 1] = odd
                self.write_inputs()
                self.linear("--reduction", "none")
                losses, dx = self.result("loss.npy")[1], self.result("dx.npy")[1]
                for row in range(ROWS):
                    values = dx[row * HIDDEN:(row + 1) * HIDDEN]
                    self.assertEqual(math.isnan(losses[row]), row == 2)
                    self.assertEqual(all(map(math.isnan, values)), row == 2, values)

    def test_other_files_of_the_folder_stay(self):
        os.mkdir(self.path("out"))
        self.write("out/notes.txt", b"mine")
        self.write("out/loss.npy", b"old")
        self.linear()
        self.assertEqual(sorted(os.listdir(self.path("out"))),
                         ["dw.npy", "dx.npy", "loss.npy", "lse.npy", "metrics.json", "notes.txt"])
        self.assertEqual(open(self.path("out/notes.txt"), "rb").read(), b"mine")
        self.assertEqual(self.result("loss.npy")[0], ())

    def test_metrics_say_what_was_done(self):
        self.linear("--variant", "whole", "--workspace-limit", "256MiB")
        with open(self.path("out/metrics.json")) as file:
            metrics = json.load(file)
        self.assertEqual(metrics["variant"], "whole")
        self.assertEqual((metrics["rows"], metrics["hidden"], metrics["classes"]), (ROWS, HIDDEN, CLASSES))
        self.assertEqual(metrics["dtype"], "f32")
        self.assertLessEqual(metrics["workspace_bytes"], 256 << 20)
        for key in ("configuration", "device", "compile_ms", "run_ms"):
            self.assertIn(key, metrics)

    def test_two_runs_are_equal_to_the_bit(self):
        self.linear(out="a")
        self.environment["TILEWRIGHT_THREADS"] = "1"
        self.linear(out="b")
        for name in ("loss.npy", "dx.npy", "dw.npy", "lse.npy"):
            self.assertEqual(open(self.path("a/" + name), "rb").read(), open(self.path("b/" + name), "rb").read())


if __name__ == "__main__":
    cli.main()

#!/usr/bin/python3 -B
"""The loss options of `tilewright run` against their formulas in Python's floats."""

import json
import math
import os
import random
import struct

import cli

ROWS, HIDDEN, CLASSES, IGNORED = 7, 5, 11, -100
LABELS = [3, 0, 10, IGNORED, 3, 7, IGNORED]


def as_float32(values):
    return list(struct.unpack(f"<{len(values)}f", struct.pack(f"<{len(values)}f", *values)))


class Loss:
    """One row after the other, as the options are defined; gradients by central differences."""

    def __init__(self, reduction="mean", bias=None, weights=None, smoothing=0.0, z_loss=0.0, scale=1.0, softcap=None, lmcl=None,
                 prob=False):
        self.reduction, self.smoothing, self.z_loss, self.scale = reduction, smoothing, z_loss, scale
        self.softcap, self.lmcl, self.prob = softcap, lmcl, prob
        self.bias, self.weights = bias or [0.0] * CLASSES, weights or [1.0] * CLASSES

    def logits(self, x, w, label):
        def dot(a, b):
            return sum(p * q for p, q in zip(a, b))
        if self.lmcl:
            margin, scale = self.lmcl
            return [scale * (dot(x, row) / math.sqrt(dot(x, x) * dot(row, row)) - margin * (j == label))
                    for j, row in enumerate(w)]
        return self.final([dot(x, row) + b for row, b in zip(w, self.bias)])

    def final(self, logits):
        z = [self.scale * t for t in logits]
        return [self.softcap * math.tanh(t / self.softcap) for t in z] if self.softcap else z

    def rows(self, logits):
        """main, extra, lse, entropy, argmax and 2-norm of every row; None for an ignored one."""
        results = []
        for z, label in zip(logits, LABELS):
            if label == IGNORED:
                results.append(None)
                continue
            lse = math.log(sum(map(math.exp, z)))
            spread = sum(u * (lse - t) for u, t in zip(self.weights, z)) / CLASSES
            main = (1 - self.smoothing) * self.weights[label] * (lse - z[label]) + self.smoothing * spread
            if self.prob:
                main = -math.exp(z[label] - lse)
            entropy = sum(math.exp(t - lse) * (lse - t) for t in z)
            results.append((main, self.z_loss * lse * lse, lse, entropy, z.index(max(z)), math.sqrt(sum(t * t for t in z)), max(z)))
        return results

    def reduced(self, logits):
        rows = self.rows(logits)
        valid = [row for row in rows if row]
        if self.reduction == "none":
            return [row[0] + row[1] if row else 0.0 for row in rows]
        if self.reduction == "sum":
            return [sum(row[0] + row[1] for row in valid)]
        weight = sum(self.weights[label] for label in LABELS if label != IGNORED)
        return [sum(row[0] for row in valid) / weight + sum(row[1] for row in valid) / len(valid)]


def slopes(value, numbers, step=1e-4):
    """By the fourth-order central difference."""
    result = []
    for i, middle in enumerate(numbers):
        found = []
        for steps in (1, -1, 2, -2):
            numbers[i] = middle + steps * step
            found.append(value())
        numbers[i] = middle
        result.append((8 * (found[0] - found[1]) - (found[2] - found[3])) / (12 * step))
    return result


class LossOptionsTest(cli.CliTest):
    def setUp(self):
        super().setUp()
        draw = random.Random(5)
        self.x = as_float32([draw.gauss(0, 1) for _ in range(ROWS * HIDDEN)])
        self.w = as_float32([draw.gauss(0, 1) for _ in range(CLASSES * HIDDEN)])
        self.z = as_float32([draw.gauss(0, 2) for _ in range(ROWS * CLASSES)])
        self.bias = as_float32([draw.gauss(0, 1) for _ in range(CLASSES)])
        self.weights = as_float32([draw.uniform(0, 2) for _ in range(CLASSES)])
        self.write("x.npy", cli.npy_bytes(self.x, [ROWS, HIDDEN]))
        self.write("w.npy", cli.npy_bytes(self.w, [CLASSES, HIDDEN]))
        self.write("z.npy", cli.npy_bytes(self.z, [ROWS, CLASSES]))
        self.write("y.npy", cli.npy_bytes(LABELS, [ROWS], "<i8"))
        self.write("b.npy", cli.npy_bytes(self.bias, [CLASSES]))
        self.write("u.npy", cli.npy_bytes(self.weights, [CLASSES]))

    def run_loss(self, *words):
        done = self.tilewright("run", *words, "--labels", "y.npy", "--out", "out")
        self.assertEqual((done.returncode, done.stderr), (0, b""), words)

    def result(self, name):
        return cli.read_npy(os.path.join(self.path("out"), name))

    def check_linear(self, *words, **options):
        self.run_loss("--hidden", "x.npy", "--weight", "w.npy", *words)
        loss = Loss(**options)
        def logits():
            w = [self.w[j * HIDDEN:(j + 1) * HIDDEN] for j in range(CLASSES)]
            return [loss.logits(self.x[i * HIDDEN:(i + 1) * HIDDEN], w, label) for i, label in enumerate(LABELS)]
        def value():
            return sum(loss.reduced(logits()))
        self.assert_close(self.result("loss.npy")[1], loss.reduced(logits()), 1e-5)
        self.assert_close(self.result("lse.npy")[1], [row[2] if row else 0 for row in loss.rows(logits())], 1e-5)
        self.assert_close(self.result("dx.npy")[1], slopes(value, self.x), 2e-5)
        self.assert_close(self.result("dw.npy")[1], slopes(value, self.w), 2e-5)
        if "bias" in options:
            self.assertEqual(self.result("db.npy")[0], (CLASSES,))
            self.assert_close(self.result("db.npy")[1], slopes(value, loss.bias), 2e-5)
        return loss.rows(logits())

    def check_over_logits(self, *words, **options):
        self.run_loss("--logits", "z.npy", *words)
        loss = Loss(**options)
        def logits():
            return [loss.final(self.z[i * CLASSES:(i + 1) * CLASSES]) for i in range(ROWS)]
        self.assert_close(self.result("loss.npy")[1], loss.reduced(logits()), 1e-5)
        self.assert_close(self.result("dlogits.npy")[1], slopes(lambda: sum(loss.reduced(logits())), self.z), 2e-5)
        return loss.rows(logits())

    def check_observed(self, rows):
        valid = [row for row in rows if row]
        mean = [sum(row[k] for row in valid) / len(valid) for k in range(7)]
        expected = {"largest_logit": max(row[6] for row in valid), "mean_logit_norm": mean[5], "mean_entropy": mean[3],
                    "mean_lse_squared": sum(row[2] ** 2 for row in valid) / len(valid), "mean_lse": mean[2],
                    "accuracy": sum(row[4] == label for row, label in zip(rows, LABELS) if row) / len(valid)}
        with open(self.path("out/metrics.json")) as file:
            found = json.load(file)["monitored"]
        self.assertEqual(sorted(found), sorted(expected))
        for name, value in expected.items():
            self.assertAlmostEqual(found[name], value, delta=1e-5 * max(1, abs(value)), msg=name)
        self.assert_close(self.result("entropy.npy")[1], [row[3] if row else 0 for row in rows], 1e-5)
        self.assertEqual(self.result("argmax.npy")[1], [row[4] if row else -1 for row in rows])
        self.assertEqual(self.result("correct.npy")[1],
                         [int(row is not None and row[4] == label) for row, label in zip(rows, LABELS)])


OPTIONS = {
    "plain": ((), {}),
    "label_smoothing": (("--label-smoothing", 0.25), {"smoothing": 0.25}),
    "z_loss": (("--z-loss", 0.125), {"z_loss": 0.125}),
    "logit_scale": (("--logit-scale", 0.5), {"scale": 0.5}),
    "softcap": (("--softcap", 2.5), {"softcap": 2.5}),
    "prob": (("--objective", "prob"), {"prob": True}),
    "class_weight": (("--class-weight", "u.npy"), {"weights": "weights"}),
    "bias": (("--bias", "b.npy"), {"bias": "bias"}),
    "lmcl": (("--lmcl-margin", 0.25, "--lmcl-scale", 4), {"lmcl": (0.25, 4)}),
    "lmcl_of_margin_alone": (("--lmcl-margin", 0.25), {"lmcl": (0.25, 1)}),
    "all_of_one_call": (("--bias", "b.npy", "--class-weight", "u.npy", "--label-smoothing", 0.25, "--z-loss", 0.125, "--softcap", 2.5),
                        {"bias": "bias", "weights": "weights", "smoothing": 0.25, "z_loss": 0.125, "softcap": 2.5}),
}


def add_tests(name, words, options):
    def test(self, check, reduction):
        given = {key: getattr(self, value) if isinstance(value, str) else value for key, value in options.items()}
        return check(self, *words, "--reduction", reduction, reduction=reduction, **given)
    for reduction in ("mean", "sum", "none"):
        def linear(self, reduction=reduction):
            test(self, LossOptionsTest.check_linear, reduction)
        setattr(LossOptionsTest, f"test_linear_{name}_{reduction}", linear)
        if "bias" not in options and "lmcl" not in options:
            def over_logits(self, reduction=reduction):
                test(self, LossOptionsTest.check_over_logits, reduction)
            setattr(LossOptionsTest, f"test_over_logits_{name}_{reduction}", over_logits)


class EvalTest(LossOptionsTest):
    def check(self, words, **options):
        done = self.tilewright("run", "--hidden", "x.npy", "--weight", "w.npy", "--eval", "--out", "out", *words)
        self.assertEqual((done.returncode, done.stderr), (0, b""), words)
        self.assertEqual(sorted(os.listdir(self.path("out"))), ["logits.npy", "metrics.json"])
        w = [self.w[j * HIDDEN:(j + 1) * HIDDEN] for j in range(CLASSES)]
        loss = Loss(**options)
        expected = [z for i in range(ROWS) for z in loss.logits(self.x[i * HIDDEN:(i + 1) * HIDDEN], w, IGNORED)]
        shape, found = self.result("logits.npy")
        self.assertEqual(shape, (ROWS, CLASSES))
        self.assert_close(found, expected, 1e-5)

    def test_plain(self):
        self.check(())

    def test_options_of_the_logits(self):
        self.check(("--bias", "b.npy", "--logit-scale", 0.5, "--softcap", 2.5), bias=self.bias, scale=0.5, softcap=2.5)

    def test_lmcl(self):
        self.check(("--lmcl-scale", 4), lmcl=(0, 4))


class MetricsTest(LossOptionsTest):
    def test_linear(self):
        self.check_observed(self.check_linear("--metrics"))

    def test_over_logits(self):
        self.check_observed(self.check_over_logits("--metrics"))


if __name__ == "__main__":
    for option_name, (option_words, option_meaning) in OPTIONS.items():
        add_tests(option_name, option_words, option_meaning)
    for attribute in [name for name in dir(LossOptionsTest) if name.startswith("test_")]:
        for derived in (EvalTest, MetricsTest):
            setattr(derived, attribute, None)  # inherited, and run once
    cli.main()

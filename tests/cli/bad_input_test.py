#!/usr/bin/python3 -B
"""Mistakes: each ends with exit code 2 and one line that names it, and leaves nothing behind."""

import os
import resource
import subprocess

import cli

ROWS, HIDDEN, CLASSES = 4, 3, 6
GOOD = ("--hidden", "x.npy", "--weight", "w.npy", "--labels", "y.npy", "--out", "out")


class BadInput(cli.CliTest):
    def setUp(self):
        super().setUp()
        self.write("x.npy", cli.npy_bytes([0.5] * ROWS * HIDDEN, [ROWS, HIDDEN]))
        self.write("w.npy", cli.npy_bytes([0.25] * CLASSES * HIDDEN, [CLASSES, HIDDEN]))
        self.write("z.npy", cli.npy_bytes([0.5] * ROWS * CLASSES, [ROWS, CLASSES]))
        self.write("y.npy", cli.npy_bytes([0, 1, 2, 5], [ROWS], "<i8"))

    def refuse_run(self, expected, *words, **environment):
        return self.refuse(expected, "run", *words, **environment)

    def refuse_file(self, expected, data, name="x.npy"):
        self.write(name, data)
        message = self.refuse_run(expected, *GOOD)
        self.assertIn(name, message)


class Files(BadInput):
    def test_missing_and_foreign_files(self):
        self.refuse_run("absent.npy: expected a readable .npy file, found: No such file",
                        "--hidden", "absent.npy", *GOOD[2:])
        self.refuse_run("a directory", "--hidden", ".", *GOOD[2:])
        self.refuse_run("a device", "--hidden", "/dev/zero", *GOOD[2:])
        os.mkfifo(self.path("pipe"))
        self.refuse_run("pipe", "--hidden", "pipe", *GOOD[2:])
        os.remove(self.path("pipe"))
        self.refuse_run("No such file", "--hidden", "", *GOOD[2:])
        self.refuse_run("No such file", "--hidden", "ab\ncd\x1b[2J\xff", *GOOD[2:])
        self.refuse_file("does not begin with", b"")
        self.refuse_file("does not begin with", b"\x89PNG\r\n")
        self.refuse_file("does not begin with", b"PK\x03\x04" + bytes(100))

    def test_lying_headers(self):
        data = bytes(4 * ROWS * HIDDEN)
        for shape, expected in (((10**18, 3), "bytes of data"), ((10**18, 10**18), "more than 2^63"), ((2**62, 2**62), "more than 2^63"),
                                ((10**30, 1), "larger one"), ((0, 3), "at least 1"), ((-4, 3), "at least 1"),
                                ((-4, -3), "at least 1"), ((ROWS, HIDDEN + 1), "cut off"), ((ROWS, HIDDEN - 1), "follows the array"),
                                ((2, 2, 3), "at most 2 dimensions"), ((12,), "expected --hidden to be a matrix"), ):
            with self.subTest(shape):
                self.refuse_file(expected, cli.npy_header("<f4", shape) + data)

    def test_no_memory_is_taken_for_a_lie(self):
        self.write("x.npy", cli.npy_header("<f4", (10**10, 3)) + bytes(64))
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (1 << 31, 1 << 31))
        done = subprocess.run([cli.PROGRAM, "run", *GOOD], cwd=self.folder, env=self.environment, preexec_fn=limit,
                              stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(done.returncode, 2, done.stderr)

    def test_too_little_memory_is_an_error(self):
        elements = 64 << 20
        with open(self.path("x.npy"), "wb") as file:
            file.write(cli.npy_header("<f4", (elements // 64, 64)))
            file.truncate(file.tell() + 4 * elements)  # zeros that take no place on the disk
        self.write("w.npy", cli.npy_bytes([0.25] * 64, [1, 64]))
        with open(self.path("y.npy"), "wb") as file:
            file.write(cli.npy_header("|i1", (elements // 64,)))
            file.truncate(file.tell() + elements // 64)
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (700 << 20, 700 << 20))
        done = subprocess.run([cli.PROGRAM, "run", *GOOD], cwd=self.folder, env=self.environment, preexec_fn=limit,
                              stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(b"memory", done.stderr)
        self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)
        self.assertFalse(os.path.exists(self.path("out")))

    def test_foreign_types(self):
        for descr in ("|O", "<c8", "<U4", "|S4", "<M8", "<f16", "|b1", "<i3"):
            with self.subTest(descr):
                self.refuse_file("found elements of type", cli.npy_header(descr, (ROWS, HIDDEN)) + bytes(48))

    def test_every_truncation(self):
        whole = cli.npy_bytes([0.5] * ROWS * HIDDEN, [ROWS, HIDDEN])
        for size in list(range(0, 16)) + list(range(16, len(whole), 7)) + [len(whole) - 1]:
            self.refuse_file("expected", whole[:size])
        self.refuse_file("follows the array", whole + b"\0")

    def test_shapes_that_do_not_fit(self):
        self.write("w.npy", cli.npy_bytes([0.25] * CLASSES * 4, [CLASSES, 4]))
        self.refuse_run("expected 3 columns as in --hidden x.npy, found shape (6, 4)", *GOOD)
        self.setUp()
        for shape in ((5,), (4, 1), (1, 4), ()):
            count = 1
            for size in shape:
                count *= size
            self.write("y.npy", cli.npy_bytes([0] * count, shape, "<i8"))
            self.refuse_run("expected 4 labels, one a row: shape (4,), found shape", *GOOD)
        self.setUp()
        self.write("g.npy", cli.npy_bytes([1, 1, 1, 1], [4]))
        self.refuse_run("expected one number with --reduction mean, found shape (4,)", *GOOD, "--grad-output", "g.npy")
        self.write("g.npy", cli.npy_bytes([1], [1]))
        self.refuse_run("expected shape (4,) with --reduction none", *GOOD, "--grad-output", "g.npy", "--reduction", "none")
        self.refuse_run("computes no gradient", *GOOD, "--grad-output", "g.npy", "--variant", "loss_only")
        for option in ("--grad-lse", "--grad-entropy"):
            self.refuse_run(f"expected {option} of one number for each row: shape (4,)", *GOOD, option, "g.npy")
            self.refuse_run("computes no gradient", *GOOD, option, "g.npy", "--variant", "loss_only")


class Labels(BadInput):
    def test_labels_outside_name_their_row(self):
        for label in (-1, CLASSES, -(2**63), 2**63 - 1, -101, 2**32):
            for form in (GOOD, ("--logits", "z.npy") + GOOD[4:]):
                self.write("y.npy", cli.npy_bytes([0, -100, label, 1], [ROWS], "<i8"))
                self.refuse_run(f"y.npy: row 2: expected a label from 0 to 5 or the ignore index -100, found {label}", *form)
        self.write("y.npy", cli.npy_bytes([0, 1, -1, 2], [ROWS], "<i8"))
        self.refuse_run("row 2: expected a label from 0 to 5 or the ignore index -2, found -1", *GOOD, "--ignore-index", -2)

    def test_labels_beyond_int64(self):
        self.write("y.npy", cli.npy_bytes([0, 1, 2, 2**64 - 1], [ROWS], "<u8"))
        self.refuse_run("found 18446744073709551615 in row 3", *GOOD)

    def test_labels_must_be_integers(self):
        self.write("y.npy", cli.npy_bytes([0, 1, 2, 3], [ROWS], "<f4"))
        self.refuse_run("expected integers, found float32", *GOOD)


class Options(BadInput):
    def test_missing_and_contradicting_options(self):
        self.refuse_run("found neither", "--labels", "y.npy", "--out", "out")
        self.refuse_run("expected --weight", "--hidden", "x.npy", "--labels", "y.npy", "--out", "out")
        self.refuse_run("expected --hidden", "--weight", "w.npy", "--labels", "y.npy", "--out", "out")
        self.refuse_run("expected --labels", "--hidden", "x.npy", "--weight", "w.npy", "--out", "out")
        self.refuse_run("expected --out", *GOOD[:6])
        self.refuse_run("found both", *GOOD, "--logits", "z.npy")
        self.refuse_run("expected --variant auto or loss_only with --logits", "--logits", "z.npy", *GOOD[4:], "--variant", "whole")

    def test_values_out_of_range(self):
        for option, values in {
                "--dtype": ("f64", "", "F32", "nan"), "--reduction": ("median", ""), "--variant": ("fast", "lossOnly", ""),
                "--ignore-index": ("nan", "1.5", "", "9223372036854775808", "1e2"),
                "--workspace-limit": ("0", "-1", "-1MiB", "1.5GiB", "nan", "inf", "MiB", "99999999999TiB", "1MB", ""),
                "--device": ("tpu", "cpu:1", "cuda:x")}.items():
            for value in values:
                with self.subTest(option=option, value=value):
                    self.refuse_run("expected" if option != "--device" else "", *GOOD, option, value)
                    self.refuse_run("", *GOOD, f"{option}={value}")

    def test_unknown_doubled_and_incomplete_options(self):
        self.refuse_run("expected --hidden, found --hiden", "--hiden", "x.npy", *GOOD[2:])
        self.refuse_run("found --frobnicate", *GOOD, "--frobnicate")
        self.refuse_run("found -v", *GOOD, "-v")
        self.refuse_run("expected --out once, found it twice", *GOOD, "--out", "other")
        self.refuse_run("expected --dtype TYPE, found no value", *GOOD, "--dtype")
        self.refuse_run("expected --dtype TYPE, found no value", *GOOD, "--dtype", "--device", "cpu")
        self.refuse_run("expected an option, found 'x.npy'", *GOOD, "x.npy")

    def test_eval_computes_no_loss(self):
        files = GOOD[:4] + GOOD[6:]
        for words in (("--labels", "y.npy"), ("--reduction", "sum"), ("--label-smoothing", "0.1"), ("--metrics",),
                      ("--lmcl-margin", "0.3"), ("--variant", "whole")):
            self.refuse_run(f"expected no {words[0]} with --eval", *files, "--eval", *words)

    def test_tf32_is_for_products(self):
        self.refuse_run("with --logits, found 'tf32'", "--logits", "z.npy", *GOOD[4:], "--dtype", "tf32")

    def test_loss_options_out_of_range(self):
        for option, value, expected in (
                ("--label-smoothing", "1.5", "label smoothing must be from 0 to 1, found 1.5"),
                ("--label-smoothing", "-0.1", "label smoothing must be from 0 to 1"),
                ("--z-loss", "-1", "z-loss must be a finite number that is not negative, found -1"),
                ("--logit-scale", "0", "logit scale must be a finite number other than 0"),
                ("--softcap", "0", "softcap must be positive and finite"), ("--softcap", "-3", "softcap must be positive"),
                ("--lmcl-scale", "0", "LMCL's scale must be positive and finite, found 0"),
                ("--objective", "logits", "expected --objective to be one of log_prob, prob; found 'logits'")):
            self.refuse_run(expected, *GOOD, f"{option}={value}")
        for option in ("--label-smoothing", "--z-loss", "--logit-scale", "--softcap", "--lmcl-margin", "--lmcl-scale"):
            for value in ("nan", "inf", "-inf", "1e99", "0.5x", "", "0,5"):
                with self.subTest(option=option, value=value):
                    self.refuse_run(f"expected {option} to be a finite number, found", *GOOD, f"{option}={value}")
        self.refuse_run("expected --metrics without a value", *GOOD, "--metrics=yes")

    def test_loss_options_that_exclude_each_other(self):
        self.write("b.npy", cli.npy_bytes([0.5] * CLASSES, [CLASSES]))
        lmcl = ("--lmcl-margin", "0.3")
        self.refuse_run("LMCL goes with no bias", *GOOD, *lmcl, "--bias", "b.npy")
        self.refuse_run("LMCL goes with no softcap", *GOOD, *lmcl, "--softcap", "20")
        self.refuse_run("LMCL goes with no logit scale", *GOOD, "--lmcl-scale", "8", "--logit-scale", "2")
        self.refuse_run("objective prob goes with no label smoothing", *GOOD, "--objective", "prob", "--label-smoothing", "0.1")
        self.refuse_run("objective prob goes with no class weights", *GOOD, "--objective", "prob", "--class-weight", "b.npy")
        for words in (("--bias", "b.npy"), lmcl, ("--lmcl-scale", "8")):
            self.refuse_run(f"expected no {words[0]} with --logits", "--logits", "z.npy", *GOOD[4:], *words)

    def test_class_vectors(self):
        for option in ("--bias", "--class-weight"):
            self.refuse_run("absent.npy: expected a readable .npy file", *GOOD, option, "absent.npy")
            for shape in ((CLASSES + 1,), (CLASSES, 1), ()):
                count = CLASSES + 1 if shape == (CLASSES + 1,) else CLASSES if shape else 1
                self.write("v.npy", cli.npy_bytes([0.5] * count, shape))
                self.refuse_run(f"v.npy: expected {option} of one number for each class: shape (6,), found shape", *GOOD, option, "v.npy")
        for odd in (-0.5, float("nan"), float("inf")):
            self.write("v.npy", cli.npy_bytes([1, 1, odd, 1, 1, 1], [CLASSES]))
            self.refuse_run("v.npy: class 2: expected a finite weight that is not negative", *GOOD, "--class-weight", "v.npy")

    def test_a_device_that_is_not_there(self):
        self.refuse_run("cuda:99", *GOOD, "--device", "cuda:99")
        self.refuse_run("cuda:99", *GOOD, TILEWRIGHT_DEVICE="cuda:99")
        self.refuse_run("expected a GPU for code of target 'sm_80'", *GOOD, "--device", "cpu", "--target", "sm_80")

    def test_a_workspace_limit_that_no_variant_meets(self):
        self.refuse_run("a workspace limit of 1 bytes is too small", *GOOD, "--workspace-limit", "1")

    def test_a_workspace_limit_for_logits_is_checked_before_anything_is_compiled(self):
        cache = {"TILEWRIGHT_CACHE_DIR": self.path("cache")}
        os.mkdir(cache["TILEWRIGHT_CACHE_DIR"])
        self.refuse_run("expected --workspace-limit of at least 1.2 KiB (1280 bytes) for these logits, found 1 KiB (1024 bytes)",
                        "--logits", "z.npy", *GOOD[4:], "--workspace-limit", "1KiB", **cache)

    def test_environment_values_that_are_not_understood(self):
        for name, value in (("TILEWRIGHT_DEVICE", "gpu"), ("TILEWRIGHT_LOG", "loud"), ("TILEWRIGHT_DUMP", "tile,ir"),
                            ("TILEWRIGHT_THREADS", "0"), ("TILEWRIGHT_THREADS", "many")):
            message = self.refuse_run(name, *GOOD, **{name: value})
            self.assertIn(value, message)
            self.refuse(name, "demo", **{name: value})

    def test_output_folders_that_cannot_be(self):
        self.write("file", b"x")
        for out, expected in (("file", "no folder"), ("file/out", "to make it in"), ("absent/out", "to make it in"),
                              ("/dev/null", "no folder"), ("", "empty"), ("/proc/out", "")):
            with self.subTest(out):
                code = 1 if out == "/proc/out" else 2  # only the attempt tells that nobody can make a folder there
                self.refuse(expected, "run", *GOOD[:6], "--out", out, code=code)
        os.makedirs(self.path("out/dx.npy"))
        self.refuse_run("a folder called dx.npy", *GOOD)


class Commands(BadInput):
    def test_commands(self):
        self.refuse("expected a command, found none")
        self.refuse("found 'paint'", "paint")
        self.refuse("found '--dtype'", "--dtype", "f32")
        self.refuse("expected --again, found --fast", "demo", "--fast")
        self.refuse("expected no options, found --all", "inspect", "--all")

    def test_emit(self):
        good = ("emit", "--kernel", "vector_add", "--target", "cpu", "--stage", "tile")
        self.refuse("matmul_bias_gelu", "emit", "--kernel", "nothing", *good[3:])
        self.refuse("expected --kernel", "emit", *good[3:])
        self.refuse("expected --target", *good[:3], *good[5:])
        self.refuse("expected --stage", *good[:5])
        self.refuse("found 'layout', which NVIDIA's GPUs have", *good[:6], "layout")
        self.refuse("found 'ptx', which NVIDIA's GPUs have", *good[:6], "ptx")
        self.refuse("one of tile, lowered, plan, layout, llvm, asm, ptx; found 'ast'", *good[:6], "ast")
        self.refuse("target 'arm' is not known; choices: cpu, sm_80", *good[:4], "arm", *good[5:])
        self.refuse("expected NVIDIA's ptxas", *good[:4], "sm_80", "--stage", "asm", PATH="/nowhere", CUDA_HOME="")
        self.refuse("in a folder that exists", *good, "-o", "absent/file")
        self.refuse("something else", *good, "-o", ".")
        self.refuse("something else", *good, "-o", "/dev/full")

    def test_bench(self):
        self.refuse("found neither", "bench")
        for shape in ("1,2", "0,1,1", "1,2,nan", "4294967296,4294967296,1", "a", "-1,2,3"):
            self.refuse("--shape N,H,V", "bench", "--shape", shape)
        self.refuse("whose tensors fit", "bench", "--shape", "1000000,1000000,1000000")
        self.refuse("whose tensors fit", "bench", "--shape", "1000000,1,1000000", "--against", "copy")
        self.refuse("expected --against blas on device", "bench", "--shape", "1,2,3", "--against", "cublas")
        for shape in ("2147418113,1,1", "1,2147418113,1", "1,1,2147418113"):
            self.refuse("three sizes from 1 to 2147418112", "bench", "--shape", shape)
        self.refuse("a workspace limit of 1 KiB (1024 bytes) is too small", "bench", "--shape", "100,8,1000",
                    "--workspace-limit", "1KiB")
        self.refuse("expected --workspace-limit with", "bench", "--shape", "1,1,1", "--workspace-limit", "1MiB", "--against", "copy")
        self.refuse("one of blas, cublas, copy", "bench", "--shape", "1,1,1", "--against", "mkl")
        self.refuse("--against, --each-option, --host, --shards, --first-call and --compile, found more", "bench", "--shape", "1,1,1", "--against", "copy", "--compile")
        for shards in ("0", "x", "2000"):
            self.refuse("--shards from 1 to 1024", "bench", "--shape", "1,1,1", "--shards", shards)
        self.refuse("at least one class each", "bench", "--shape", "1,1,3", "--shards", "4")
        export = ("export", "--bundle", "b", "--target", "cpu", "--shape", "2,1,3")
        self.refuse("--shards from 1 to 1024", *export, "--shards", "0")
        self.refuse("at least one class each", *export, "--shards", "4")
        self.refuse("no shards of a loss over logits", *export, "--shards", "2", "--over-logits")
        self.refuse("recompute is not offered for a shard", *export, "--shards", "2", "--variant", "recompute")
        self.refuse("--grad-hidden to be one of same, f32", *export, "--grad-hidden", "f64")
        self.refuse("--shards with fused calls", "bench", "--shape", "1,1,3", "--shards", "2", "--loss-only")
        self.refuse("in a folder that exists", "bench", "--shape", "8,8,8", "--json", "absent/file")

    def test_bench_of_examples(self):
        self.refuse("one of vector_add, dropout, row_softmax", "bench", "--kernel", "lce_forward", "--shape", "8,8")
        self.refuse("expected --shape with --kernel", "bench", "--kernel", "matmul")
        self.refuse("expected --shape M,N,K with --kernel matmul", "bench", "--kernel", "matmul", "--shape", "8,8")
        for shape in ("0,8", "8", "8,8,8", "2147483648,1"):
            self.refuse("expected --shape ROWS,COLUMNS", "bench", "--kernel", "row_softmax", "--shape", shape)
        for shape in ("a,8", "8,,8", "99999999999,1", "-1,8"):
            self.refuse("expected --shape of sizes", "bench", "--kernel", "row_softmax", "--shape", shape)
        self.refuse("whose tensors fit", "bench", "--kernel", "layer_norm", "--shape", "1000000,1000000")
        self.refuse("at most 16384 columns", "bench", "--kernel", "layer_norm_gradient", "--shape", "1,16385")
        self.refuse("alone, found --loss-only", "bench", "--kernel", "dropout", "--shape", "8", "--loss-only")
        self.refuse("found tf32", "bench", "--kernel", "matmul", "--shape", "8,8,8", "--dtype", "tf32")

    def test_cache(self):
        for words in ((), ("erase",), ("list", "x"), ("export",), ("import",), ("import", "a", "b")):
            self.refuse("", "cache", *words)
        self.refuse("found no file", "cache", "export")
        self.refuse("", "cache", "import", "absent.tar")
        self.write("junk.tar", b"junk" * 1000)
        self.refuse("", "cache", "import", "junk.tar")
        self.refuse("found none", "cache", "list", TILEWRIGHT_CACHE_DIR="off")

    def test_standard_output_that_is_full(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        with open("/dev/full", "w") as full:
            done = subprocess.run([cli.PROGRAM, "--help"], stdout=full, stderr=subprocess.PIPE, env=self.environment)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"standard output", done.stderr)


if __name__ == "__main__":
    cli.main()

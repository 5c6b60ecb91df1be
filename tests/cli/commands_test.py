#!/usr/bin/python3 -B
"""The commands beside `run`, on good input."""

import json
import os
import subprocess

import cli


class CommandsTest(cli.CliTest):
    def test_help_of_everything(self):
        overview = self.succeed("--help")
        for command in ("demo", "run", "tune", "bench", "emit", "inspect", "plan", "cache"):
            self.assertIn(f"tilewright {command}", overview)
            self.assertIn(f"tilewright {command}: ", self.succeed(command, "--help"))
        self.assertIn("--workspace-limit BYTES", self.succeed("run", "--hidden", "absent", "--help"))
        self.assertIn("--softcap C", self.succeed("run", "--help"))

    def test_emit_each_stage(self):
        for kernel in ("vector_add", "row_softmax", "layer_norm", "matmul_bias_gelu", "lce_forward"):
            for stage, expected in (("tile", "func.func @" + kernel), ("llvm", "define void @" + kernel), ("asm", kernel + ":")):
                with self.subTest(kernel=kernel, stage=stage):
                    text = self.succeed("emit", "--kernel", kernel, "--target", "cpu", "--stage", stage)
                    self.assertIn(expected, text)
        text = self.succeed("emit", "--kernel", "lce_forward", "--target", "cpu", "--stage", "tile", "--dtype", "bf16")
        self.assertIn("bf16", text)
        self.assertEqual(self.succeed("emit", "--kernel", "lce_forward", "--target", "cpu", "--stage", "tile", "--dtype",
                                      "bf16", "-o", "k.mlir"), "")
        self.assertEqual(open(self.path("k.mlir")).read(), text)
        self.assertEqual(os.listdir(self.folder), ["k.mlir"])

    def test_emit_for_nvidia(self):
        text = self.succeed("emit", "--kernel", "lce_forward", "--target", "sm_80", "--stage", "ptx", "--dtype", "bf16")
        for expected in (".target sm_80", ".entry lce_forward", "mma.sync"):
            self.assertIn(expected, text)
        self.assertIn(".target sm_90a", self.succeed("emit", "--kernel", "vector_add", "--target", "sm_90a", "--stage", "ptx"))
        for kernel, target, warps in (("lce_forward", "sm_90a", "warp_plan<pingPong, "), ("lce_forward", "sm_80", 'alike<"code for sm_90a'),
                                      ("attention", "sm_90a", 'alike<"there is not exactly one product')):
            text = self.succeed("emit", "--kernel", kernel, "--target", target, "--stage", "plan", "--dtype", "bf16")
            self.assertIn(f"tile_gpu.warps = #tile_gpu.{warps}", text)
            text = self.succeed("emit", "--kernel", kernel, "--target", target, "--stage", "layout", "--dtype", "bf16")
            self.assertRegex(text, r"#layout\d* = #tile_gpu.layout<rows = <\d+, class = \d+, bits = \[2 : 1, 3 : 2, 4 : 4")
            self.assertRegex(text, r"tile.(contract|dot) .*tile_gpu.layout = #layout")
        self.assertIn("tensor<", self.succeed("emit", "--kernel", "vector_add", "--target", "sm_80", "--stage", "lowered"))
        self.assertIn("nvptx64", self.succeed("emit", "--kernel", "vector_add", "--target", "sm_90", "--stage", "llvm"))

    def test_emit_what_nvidias_tools_make(self):
        for name, script in (("ptxas", 'if [ "$1" = --version ]; then echo tools, release 12.4, V12.4.131; else cat "$2" > "$4"; fi'),
                             ("cuobjdump", 'echo "$1"; cat "$2"')):
            with open(os.path.join(self.folder, name), "w") as program:
                program.write("#!/bin/sh\n" + script + "\n")
            os.chmod(program.name, 0o700)
        text = self.succeed("emit", "--kernel", "vector_add", "--target", "sm_90a", "--stage", "asm",
                            PATH=self.folder + ":/usr/bin:/bin", CUDA_HOME="")
        self.assertTrue(text.startswith("-sass\n"), text[:100])
        self.assertIn(".entry vector_add", text)

    def test_inspect(self):
        text = self.succeed("inspect", TILEWRIGHT_LOG="error")
        for expected in ("Devices", "Kernels", "Configurations", "Limits", "Environment", "Cache", "lce_forward", "TILEWRIGHT_CACHE_DIR",
                         cli.shared_cache()):
            self.assertIn(expected, text)
        self.assertRegex(text, r"TILEWRIGHT_LOG +error")
        self.assertRegex(text, r"found: \w")
        self.assertRegex(text, r"used: vectors of \d+ numbers, bf16 multiplied")
        self.assertRegex(self.succeed("inspect", TILEWRIGHT_TARGET="x86-64"), r"used: vectors of 4 numbers, bf16 multiplied as fp32")

    def fill_cache(self, folder):
        self.write("z.npy", cli.npy_bytes([0.5, 1, 2, 3], [2, 2]))
        self.write("y.npy", cli.npy_bytes([0, 1], [2], "<i8"))
        self.succeed("run", "--logits", "z.npy", "--labels", "y.npy", "--out", "out", TILEWRIGHT_CACHE_DIR=folder)
        with open(self.path("out/metrics.json")) as file:
            return json.load(file)

    def test_cache(self):
        folder = self.path("cache")
        cache = {"TILEWRIGHT_CACHE_DIR": folder}
        metrics = self.fill_cache(folder)
        count = metrics["kernels_compiled"]
        self.assertGreater(count, 0)
        self.assertEqual(self.fill_cache(folder)["kernels_compiled"], 0)
        self.assertIn(f"{count} kernels", self.succeed("cache", "list", **cache))
        self.assertIn(f"{count} kernels, 0 damaged", self.succeed("cache", "verify", **cache))
        self.assertIn(f"wrote {count} kernels", self.succeed("cache", "export", "kernels.tar", **cache))

        other = self.path("other")
        self.assertIn(f"added {count} kernels", self.succeed("cache", "import", "kernels.tar", TILEWRIGHT_CACHE_DIR=other))
        self.assertIn("added 0 kernels", self.succeed("cache", "import", "kernels.tar", TILEWRIGHT_CACHE_DIR=other))
        self.assertEqual(self.fill_cache(other)["kernels_compiled"], 0)

        self.damage_one(folder)
        done = self.tilewright("cache", "verify", **cache)
        self.assertEqual(done.returncode, 1)
        self.assertIn("1 damaged", done.stdout.decode())
        self.assertIn("1 damaged", done.stderr.decode())
        self.assertIn("damaged", self.succeed("cache", "list", **cache))
        self.assertIn("removed 1 kernels", self.succeed("cache", "prune", **cache))
        self.assertIn(f"{count - 1} kernels, 0 damaged", self.succeed("cache", "verify", **cache))

    def damage_one(self, folder):
        """Flips a bit of a compiled kernel."""
        for root, _, names in os.walk(folder):
            if "binary" in names:
                path = os.path.join(root, "binary")
                data = bytearray(open(path, "rb").read())
                data[len(data) // 2] ^= 1
                os.chmod(path, 0o600)
                with open(path, "wb") as file:
                    file.write(data)
                return
        self.fail("no kernel in the cache")

    def test_bench(self):
        text = self.succeed("bench", "--shape", "64,32,1000", "--shape", "1,8,17", "--json", "bench.json")
        self.assertIn("GFLOP/s", text)
        with open(self.path("bench.json")) as file:
            results = json.load(file)
        self.assertEqual([result["rows"] for result in results], [64, 1])
        self.assertGreater(results[0]["times"][0]["ms"], 0)
        for dtype in ("bf16", "f16"):
            self.assertIn(dtype, self.succeed("bench", "--shape", "64,32,1000", "--dtype", dtype))

    def test_bench_of_examples(self):
        shapes = {"vector_add": "3000", "dropout": "5000", "row_softmax": "20,300", "layer_norm": "20,300",
                  "layer_norm_gradient": "70,300", "matmul": "70,90,50", "attention": "2,70,64"}
        for kernel, shape in shapes.items():
            with self.subTest(kernel=kernel):
                text = self.succeed("bench", "--kernel", kernel, "--shape", shape, "--dtype", "bf16", "--json", "bench.json")
                self.assertIn(f"{kernel} of {shape}, bf16: ", text)
                with open(self.path("bench.json")) as file:
                    result = json.load(file)[0]
                self.assertLess(result["error"], 4e-3)
                self.assertGreater(result["compile_ms"], 0)
                multiplies = kernel in ("matmul", "attention")
                self.assertGreater(result["tflop_per_s" if multiplies else "gb_per_s"], 0)
                self.assertEqual("ratio" in result, not multiplies)
        for kernel, shape in (("dropout", "1"), ("layer_norm_gradient", "1,1")):  # of results that are all 0
            self.assertIn(" 0.0e+00 off", self.succeed("bench", "--kernel", kernel, "--shape", shape))

    def test_bench_of_shards(self):
        self.succeed("bench", "--shape", "300,32,1000", "--shards", "2", "--shards", "3", "--dtype", "bf16", "--json", "bench.json")
        with open(self.path("bench.json")) as file:
            times = json.load(file)[0]["times"]
        self.assertEqual([time["shards"] for time in times], [0, 2, 3])
        self.assertGreater(times[2]["ratio"], 0)

    def test_bench_of_a_grid(self):
        problems = [{"model": "small", "rows": 64, "hidden": 32, "classes": 1000},
                    {"model": "smaller", "rows": 1, "hidden": 8, "classes": 17}]
        with open(self.path("heads.json"), "w") as file:
            json.dump(problems, file)
        text = self.succeed("bench", "--grid", "heads.json", "--dtype", "bf16", "--json", "grid.json")
        self.assertIn("smaller", text)
        with open(self.path("grid.json")) as file:
            results = json.load(file)["problems"]
        self.assertEqual([(result["model"], result["rows"]) for result in results], [("small", 64), ("smaller", 1)])
        self.check_drawing(results)
        with open(self.path("heads.json"), "w") as file:
            json.dump([{"model": "no classes", "rows": 64, "hidden": 32}], file)
        for words, found in ((("--grid", "heads.json"), '"classes"'), (("--grid", "none.json"), "none.json"),
                             (("--grid", "heads.json", "--shape", "1,1,1"), "found both")):
            done = self.tilewright("bench", *words)
            self.assertEqual(done.returncode, 2)
            self.assertIn(found, done.stderr.decode())

    def check_drawing(self, results):
        def plot():
            return subprocess.run([os.path.abspath("tools/plot_grid"), self.path("grid.json"), self.path("grid.svg")],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=200)
        done = plot()
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"beside a baseline", done.stderr)
        with open(self.path("grid.json"), "w") as file:
            json.dump({"problems": [dict(result, ratio=1.5) for result in results]}, file)
        done = plot()
        if b"matplotlib is not installed" not in done.stderr:
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            with open(self.path("grid.svg")) as file:
                self.assertIn("<svg", file.read(2000))

    def test_plan(self):
        text = self.succeed("plan", "--shape", "16384,4096,128256", "--dtype", "bf16", "--for", "h200")
        for word in ("logits", "dX", "dW", "rounds", "192x256 cooperative, clusters of 2", "one chunk"):
            self.assertIn(word, text)
        text = self.succeed("plan", "--shape", "64,32,1000", "--dtype", "bf16", "--for", "h100", "--loss-only")
        self.assertNotIn("dX", text)
        self.assertIn("no times", self.succeed("plan", "--shape", "64,32,1000"))

    def test_bench_in_little_memory(self):
        self.succeed("bench", "--shape", "600,32,1000", "--workspace-limit", "1MiB", "--json", "bench.json")
        with open(self.path("bench.json")) as file:
            self.assertLessEqual(json.load(file)[0]["workspace_bytes"], 1 << 20)

    def test_bench_against_copy(self):
        self.assertIn("of copy", self.succeed("bench", "--shape", "64,1,1000", "--against", "copy"))
        # A mean over so many rows has gradients that f16 cannot hold.
        narrow = self.succeed("bench", "--shape", "20000,1,1000", "--against", "copy", "--dtype", "f16")
        self.assertIn("of copy", narrow)

    def test_bench_against_blas(self):
        done = self.tilewright("bench", "--shape", "64,32,1000", "--against", "blas")
        if b"libopenblas" in done.stderr:
            self.assertEqual(done.returncode, 1)
            self.skipTest("no OpenBLAS on this machine")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("three sgemm, OpenBLAS", done.stdout.decode())

    def test_bench_refuses_a_gpus_baseline_before_it_makes_numbers(self):
        with open(self.path("heads.json"), "w") as file:
            json.dump([{"model": "small", "rows": 64, "hidden": 32, "classes": 1000}], file)
        for words in (("--grid", "heads.json"), ("--shape", "64,32,1000")):
            done = self.tilewright("bench", *words, "--against", "cublas", TILEWRIGHT_DEVICE="cpu")
            self.assertEqual((done.returncode, done.stdout), (2, b""))
            self.assertIn("TILEWRIGHT_DEVICE", done.stderr.decode())

    def test_bench_of_the_host(self):
        self.succeed("bench", "--host", "--shape", "64,32,1000", "--json", "bench.json")
        with open(self.path("bench.json")) as file:
            result = json.load(file)[0]
        self.assertEqual(result["prepared_allocations"], 0)
        self.assertGreater(result["prepared_us"], 0)
        self.assertGreater(result["call_us"], 0)
        self.assertGreater(result["launches"], 5)

    def test_bench_of_compiling(self):
        text = self.succeed("bench", "--compile", "--json", "bench.json")
        for expected in ("lce_forward", "nothing cached", "kernels on disk", "kernels in a bundle"):
            self.assertIn(expected, text)
        with open(self.path("bench.json")) as file:
            result = json.load(file)[0]
        self.assertGreater(result["cold"]["compiled"], 0)
        self.assertEqual(result["warm"]["compiled"], 0)
        self.assertEqual(result["bundle"]["compiled"], 0)
        self.assertEqual(result["bundle"]["from_bundle"], result["cold"]["compiled"])

    def test_bench_of_a_first_call(self):
        bundle, call = self.path("bundle"), ("bench", "--first-call", "--shape", "20,16,300", "--json", "bench.json")
        self.succeed("export", "--bundle", bundle, "--target", "cpu", "--shape", "24,16,300")
        text = self.succeed(*call, TILEWRIGHT_BUNDLES=bundle)
        self.assertRegex(text, r"first call +[0-9.]+ +[0-9.]+\n")
        with open(self.path("bench.json")) as file:
            result = json.load(file)[0]
        self.assertEqual((result["compiled"], result["from_disk"]), (0, 0))
        self.assertGreater(result["from_bundles"], 5)
        self.assertGreater(result["first"]["done_ms"], 0)
        self.assertIn("0 from bundles", self.succeed(*call))


class DemoTest(cli.CliTest):
    def test_demo(self):
        text = self.succeed("demo")
        for expected in ("f32", "bf16", "loss", "compiled=0", "Every check passed"):
            self.assertIn(expected, text)
        self.assertIn("compiled=0", self.succeed("demo", "--again"))

    def test_demo_without_a_cache(self):
        self.assertIn("skipped: there is no cache folder", self.succeed("demo", TILEWRIGHT_CACHE_DIR="off"))
        done = self.tilewright("demo", "--again", TILEWRIGHT_CACHE_DIR="off")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"compiled anew", done.stderr)


if __name__ == "__main__":
    cli.main()

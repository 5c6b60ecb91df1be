"""python -m tilewright.torch.benchmark"""

import argparse
import os
import subprocess
import sys

import torch

from . import accuracy, host, main_shape, sweep

_TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def _shape(text: str) -> tuple:
    sizes = tuple(int(part) for part in text.split(","))
    if len(sizes) != 3:
        raise argparse.ArgumentTypeError(f"expected N,H,V, found {text}")
    return sizes


def _run_tests(folder: str, device: str) -> None:
    """The tests of options and traps on this device; ends the program where one fails."""
    files = [os.path.join(folder, name) for name in ("traps_test.py", "options_test.py")]
    parallel = ["-n", "6"] if subprocess.run([sys.executable, "-c", "import xdist"], stderr=subprocess.DEVNULL,
                                             check=False).returncode == 0 else []
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", *parallel,
                           *files], env={**os.environ, "TILEWRIGHT_TEST_DEVICE": device.split(":")[0]}, check=False)
    if done.returncode:
        print("tests failed: no figure of a wrong program is of use; leave out --tests for figures all the same")
        sys.exit(done.returncode)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tilewright.torch.benchmark", description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", choices=_TYPES, help="default: bf16 on a GPU, f32 on a CPU")
    parser.add_argument("--main-shape", action="store_true",
                        help="time, memory and host time at one shape, instead of a sweep")
    parser.add_argument("--check", action="store_true", help="errors relative to float64 alone")
    parser.add_argument("--host", action="store_true", help="the host's time alone, at a small shape")
    parser.add_argument("--shape", type=_shape, metavar="N,H,V",
                        help="of what is asked for; default on a GPU: 16384,4096,128256, of --check "
                        "2048,2048,65536, of --host 64,64,512")
    parser.add_argument("--trl-shape", type=_shape, metavar="N,H,V", help="default: 8192,4096,151936 on a GPU")
    parser.add_argument("--tests", metavar="FOLDER", help="run the package's tests there first, on the device")
    parser.add_argument("--no-peers", action="store_true", help="of --main-shape: ours and the products alone")
    parser.add_argument("--repeats", type=int, help="default: 15 on a GPU, 3 on a CPU")
    parser.add_argument("--out", default="tilewright-benchmark", help="folder of the sweep's CSV and pictures")
    return parser.parse_args()


def main() -> None:
    arguments = _parse()
    on_gpu = arguments.device.startswith("cuda")
    dtype = _TYPES[arguments.dtype or ("bf16" if on_gpu else "f32")]
    repeats = arguments.repeats or (15 if on_gpu else 3)
    print(f"{main_shape.device_name(arguments.device)}, torch {torch.__version__}", flush=True)
    if arguments.tests:
        _run_tests(arguments.tests, arguments.device)
    if arguments.check:
        accuracy.check(*(arguments.shape or ((2048, 2048, 65536) if on_gpu else (256, 256, 8192))), dtype,
                       arguments.device)
        return
    if arguments.host:
        shape = arguments.shape or ((64, 64, 512) if on_gpu else (4, 8, 16))
        host.host(*shape, dtype, arguments.device, arguments.repeats or 40)
        return
    shape = arguments.shape or ((16384, 4096, 128256) if on_gpu else (256, 256, 8192))
    if not arguments.main_shape:
        sweep.sweep(shape, dtype, arguments.device, repeats, arguments.out)
        return
    main_shape.main_shape(*shape, dtype, arguments.device, repeats)
    trl = arguments.trl_shape or ((8192, 4096, 151936) if on_gpu else (128, 256, 8192))
    main_shape.with_entropy_and_accuracy(*trl, dtype, arguments.device, repeats)
    if not arguments.no_peers:
        main_shape.beside_peers(*shape, dtype, arguments.device, max(3, repeats // 3))


if __name__ == "__main__":
    main()

"""Speed, memory and accuracy over N, H and V: a CSV of all, and a picture of each size that varies."""

import csv
import os

import torch

from . import accuracy, main_shape, peers
from .measure import milliseconds, peak_bytes, random_problem, synchronize

_FIELDS = ("varied", "n", "h", "v", "dtype", "device", "name", "forward_ms", "training_ms", "peak_bytes",
           "error_loss", "error_dx", "error_dw")


def _shapes(middle: tuple) -> list:
    """(what varies, sizes): each size from a quarter of the middle's to twice, the others as there."""
    found = []
    for position, varied in enumerate("nhv"):
        for factor in (0.25, 0.5, 1, 2):
            sizes = list(middle)
            sizes[position] = int(sizes[position] * factor)
            found.append((varied, tuple(sizes)))
    return found


def _measure(loss, problem, exact, device: str, repeats: int) -> dict:
    call = peers.training_call(loss, problem)
    errors = accuracy.errors(loss, problem, exact)
    synchronize(device)
    peak = peak_bytes(call, device)

    def forward():
        with torch.no_grad():
            loss(*problem)

    return {"forward_ms": milliseconds(forward, device, repeats), "training_ms": milliseconds(call, device, repeats),
            "peak_bytes": peak, "error_loss": errors[0], "error_dx": errors[1], "error_dw": errors[2]}


def sweep(middle: tuple, dtype: torch.dtype, device: str, repeats: int, folder: str) -> None:
    """Measures all that are available at each shape; prints lines, and writes results.csv and pictures to `folder`."""
    os.makedirs(folder, exist_ok=True)
    rows = []
    for varied, sizes in _shapes(middle):
        problem = random_problem(*sizes, dtype, device)
        exact = accuracy.exact(problem)
        for name, loss in peers.available(device).items():
            place = dict(zip(("varied", "n", "h", "v"), (varied, *sizes)), dtype=str(dtype)[6:], device=device,
                         name=name)
            try:
                rows.append({**place, **_measure(loss, problem, exact, device, repeats)})
            except Exception as error:  # out of memory, or what a peer does not support
                print(f"{sizes} {name}: {type(error).__name__}: {str(error).splitlines()[0][:100]}")
                continue
            finally:
                problem.forget_gradients()
            print(f"{varied} {sizes} {name:14s} {rows[-1]['training_ms']:9.2f} ms  "
                  f"{rows[-1]['peak_bytes'] / 2 ** 20:9.1f} MiB  error of dW {rows[-1]['error_dw']:.1e}", flush=True)
    path = os.path.join(folder, "results.csv")
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, _FIELDS)
        writer.writeheader()
        writer.writerows(rows)
    print(f"written: {', '.join([path, *_pictures(rows, folder)])}")


_PANELS = (("training_ms", 1, "forward + backward, ms"), ("forward_ms", 1, "forward alone, ms"),
           ("peak_bytes", 2 ** 20, "peak over inputs, MiB"), ("error_dw", 1, "error of dW, relative to float64"))


def _draw(axis, rows: list, varied: str, field: str, unit: int, label: str) -> None:
    for name in dict.fromkeys(row["name"] for row in rows):
        points = [(row[varied], row[field] / unit) for row in rows if row["name"] == name]
        axis.plot(*zip(*points), marker="o", markersize=4, label=name)
    sizes = sorted({row[varied] for row in rows})
    axis.set(xscale="log", xlabel=varied.upper(), ylabel=label)
    axis.set_xticks(sizes, [str(size) for size in sizes])
    if field == "error_dw":
        axis.set_ylim(bottom=0)
    else:
        axis.set_yscale("log")
        least, most = axis.get_ylim()
        ticks = [factor * 10 ** power for power in range(-3, 6) for factor in (1, 2, 5)]
        axis.set_yticks([tick for tick in ticks if least <= tick <= most])
        axis.yaxis.set_major_formatter("{x:g}")
    axis.minorticks_off()
    axis.grid(alpha=0.3)


def _pictures(rows: list, folder: str) -> list:
    """A picture of each size that varies; none without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        print("no pictures: matplotlib is not installed")
        return []
    matplotlib.use("Agg")
    from matplotlib import pyplot
    paths = []
    for varied in "nhv":
        mine = [row for row in rows if row["varied"] == varied]
        panels = [panel for panel in _PANELS if any(row[panel[0]] for row in mine)]
        figure, axes = pyplot.subplots(1, len(panels), figsize=(3.6 * len(panels), 3.6), squeeze=False)
        for axis, panel in zip(axes[0], panels):
            _draw(axis, mine, varied, *panel)
        axes[0][0].legend()
        fixed = ", ".join(f"{size.upper()} {mine[0][size]}" for size in "nhv" if size != varied)
        device = main_shape.device_name(mine[0]["device"])
        figure.suptitle(f"linear + cross entropy, {mine[0]['dtype']}, {fixed}, {device}")
        figure.tight_layout()
        paths.append(os.path.join(folder, f"over-{varied}.png"))
        figure.savefig(paths[-1], dpi=100)
        pyplot.close(figure)
    return paths

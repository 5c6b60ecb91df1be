"""python -m tilewright.torch.demo: a small transformer, trained on this project's own text with two losses.

Both trainings begin with the same weights and see the same text. One uses `F.cross_entropy(F.linear(x, w), y)`, the
other ours; the picture shows both curves, and the last line their largest difference. On a GPU tokens are pairs of
bytes (65536 classes), where the logits are most of the memory; on a CPU single bytes.
"""

import argparse
import math
import time
from pathlib import Path
from typing import Callable, List, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .functional import linear_cross_entropy

_SUFFIXES = {".md", ".h", ".cpp", ".py"}


class Setting(NamedTuple):
    """Sizes of the model and of a step."""

    classes: int
    width: int
    layers: int
    length: int  # tokens of a sequence
    batch: int  # sequences of a step
    steps: int


_ON_CPU = Setting(classes=256, width=64, layers=2, length=64, batch=8, steps=100)
_ON_GPU = Setting(classes=65536, width=512, layers=4, length=512, batch=32, steps=200)


class Model(nn.Module):
    """A causal transformer of torch's own layers. Its head's weight is used by the loss: `forward` ends before it."""

    def __init__(self, setting: Setting):
        super().__init__()
        self.tokens = nn.Embedding(setting.classes, setting.width)
        self.places = nn.Embedding(setting.length, setting.width)
        layer = nn.TransformerEncoderLayer(setting.width, setting.width // 32, 4 * setting.width, dropout=0.0,
                                           batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, setting.layers, nn.LayerNorm(setting.width),
                                            enable_nested_tensor=False)
        self.head = nn.Linear(setting.width, setting.classes, bias=False)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(setting.length))

    def forward(self, tokens: Tensor) -> Tensor:
        hidden = self.tokens(tokens) + self.places.weight
        return self.layers(hidden, mask=self.mask, is_causal=True)


def project_text() -> bytes:
    """The text of the tree that this package lies in; of an installed package, its own sources."""
    package = Path(__file__).resolve().parents[1]
    root = package.parents[2]
    folder = root if (root / "kernels").is_dir() and (root / "README.md").exists() else package
    files = sorted(path for path in folder.rglob("*") if path.suffix in _SUFFIXES and path.is_file()
                   and not any(part.startswith((".", "bazel-")) for part in path.relative_to(folder).parts))
    return b"\n".join(path.read_bytes() for path in files)


def tokens_of(text: bytes, classes: int) -> Tensor:
    """Bytes, or pairs of bytes where there are classes for them."""
    single = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
    if classes <= 256:
        return single
    pairs = single[:len(single) // 2 * 2].view(-1, 2)
    return pairs[:, 0] * 256 + pairs[:, 1]


def batches(tokens: Tensor, setting: Setting, seed: int):
    """Sequences and the tokens that follow each of theirs, the same for one seed."""
    generator = torch.Generator().manual_seed(seed)
    offsets = torch.arange(setting.length)
    for _ in range(setting.steps):
        begins = torch.randint(0, len(tokens) - setting.length - 1, (setting.batch, 1), generator=generator)
        yield tokens[begins + offsets], tokens[begins + offsets + 1]


class Training:
    """A model that is trained with a loss: (hidden (B, T, H), weight (V, H), targets (B, T)) → the mean."""

    def __init__(self, loss: Callable, setting: Setting, device: str, seed: int):
        torch.manual_seed(seed)
        self.model = Model(setting).to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-3)
        self.loss, self.device = loss, device
        self.losses: List[Tensor] = []
        self.times: List[float] = []  # milliseconds
        self.peak = 0  # bytes of a step over what there was before it, on a GPU

    def step(self, inputs: Tensor, targets: Tensor) -> None:
        on_gpu = self.device.startswith("cuda")
        if on_gpu:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
        begin = time.perf_counter()
        self._step(inputs, targets, on_gpu)
        if on_gpu:
            torch.cuda.synchronize()
            self.peak = max(self.peak, torch.cuda.max_memory_allocated() - before)
        self.times.append(1e3 * (time.perf_counter() - begin))

    def _step(self, inputs: Tensor, targets: Tensor, autocast: bool) -> None:
        with torch.autocast(inputs.device.type, torch.bfloat16, enabled=autocast):
            value = self.loss(self.model(inputs), self.model.head.weight, targets)
        value.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.losses.append(value.detach())

    def curve(self) -> List[float]:
        return [float(value) for value in self.losses]

    def milliseconds(self) -> float:
        """A step's median."""
        return sorted(self.times)[len(self.times) // 2]


def eager(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(F.linear(hidden, weight).flatten(0, 1), targets.flatten())


def draw(trainings: dict, setting: Setting, path: str) -> bool:
    """Both curves in one picture; False without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    from matplotlib import pyplot
    figure, axis = pyplot.subplots(figsize=(7, 4.2))
    for (name, training), style in zip(trainings.items(), ("-", "--")):
        axis.plot(training.curve(), style, label=f"{name}: {training.milliseconds():.1f} ms a step")
    axis.axhline(math.log(setting.classes), color="gray", lw=0.8, label=f"a guess among {setting.classes} classes")
    axis.set(xlabel="step", ylabel="loss, nats a token")
    axis.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
    return True


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tilewright.torch.demo", description=__doc__.split("\n\n")[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="tilewright-demo.png", help="the picture")
    arguments = parser.parse_args()
    setting = _ON_GPU if arguments.device.startswith("cuda") else _ON_CPU
    if arguments.steps:
        setting = setting._replace(steps=arguments.steps)
    tokens = tokens_of(project_text(), setting.classes)
    print(f"{len(tokens)} tokens of {setting.classes} classes; {setting.steps} steps of "
          f"{setting.batch}×{setting.length}")
    trainings = {name: Training(loss, setting, arguments.device, arguments.seed)
                 for name, loss in (("F.cross_entropy", eager), ("tilewright", linear_cross_entropy))}
    for inputs, targets in batches(tokens, setting, arguments.seed):
        inputs, targets = inputs.to(arguments.device), targets.to(arguments.device)
        for training in trainings.values():  # in turn: both see the machine as it is
            training.step(inputs, targets)
    for name, training in trainings.items():
        losses, memory = training.curve(), f", {training.peak / 2 ** 20:.0f} MiB over what was there before"
        print(f"{name:16s} loss {losses[0]:.4f} → {losses[-1]:.4f}   {training.milliseconds():.1f} ms a step"
              f"{memory if training.peak else ''}", flush=True)
    drawn = draw(trainings, setting, arguments.out)
    print(f"picture: {arguments.out}" if drawn else "no picture: matplotlib is not installed")
    theirs, ours = (training.curve() for training in trainings.values())
    print(f"largest difference of the two curves: {max(abs(a - b) for a, b in zip(theirs, ours)):.2e}")


if __name__ == "__main__":
    main()

"""What the losses ask of their arguments, and the arguments as the calls take them."""

from typing import Any, Optional

import torch
from torch import Tensor

from .._errors import UserError
from .._library import REDUCTIONS

FLOATS = (torch.float32, torch.bfloat16, torch.float16)


def expect(condition: bool, name: str, expected: str, found: Any) -> None:
    if not condition:
        raise UserError(f"{name}: expected {expected}, found {found}")


def refuse_dtensor(name: str, tensor: Optional[Tensor]) -> None:
    if tensor is None or type(tensor) in (Tensor, torch.nn.Parameter):
        return
    placements = getattr(tensor, "placements", None)
    expect(placements is None, name, "a tensor of this process",
           f"a DTensor with placements {placements}; gather it (tensor.full_tensor()), or make the call inside the "
           "forward of the module that FSDP gathers it for")


def check_target(target: Tensor, rows: torch.Size, shift: int) -> None:
    expect(not (target.is_floating_point() or target.is_complex() or target.dtype == torch.bool), "target",
           "class numbers of an integer type", target.dtype)
    expect(target.shape == rows, "target", f"shape {tuple(rows)}, as input without its last dimension",
           tuple(target.shape))
    expect(shift >= 0, "shift", "0 or more", shift)
    expect(shift == 0 or target.dim() > 0 and target.shape[-1] >= shift, "shift",
           "at most target's last dimension", shift)


def flat_target(target: Tensor, shift: int, ignore_index: int) -> Tensor:
    """N class numbers; with a shift each row's is that `shift` places on, and the last rows are ignored."""
    if target.dtype not in (torch.int32, torch.int64):
        target = target.to(torch.int64)
    if shift:
        target = torch.nn.functional.pad(target[..., shift:], (0, shift), value=ignore_index)
    return target if target.dim() == 1 else target.reshape(-1)


def rows_again(values: Optional[Tensor], shape: torch.Size, shift: int) -> Optional[Tensor]:
    """Values of the rows in target's shape, without the rows that a shift leaves without a target."""
    if values is None or values.dim() == 0 and len(shape) > 0:
        return values
    values = values.reshape(shape)
    return values[..., :values.shape[-1] - shift] if shift else values


def number(name: str, value, least: Optional[float] = None, most: Optional[float] = None) -> float:
    expect(not isinstance(value, Tensor), name, "a number", "a tensor: its value would have to be waited for")
    value = float(value)
    expect((least is None or value >= least) and (most is None or value <= most), name,
           f"{least} or more" if most is None else f"{least} to {most}", value)
    return value


def loss_options(reduction, ignore_index, label_smoothing, z_loss, logit_scale, softcap) -> tuple:
    expect(reduction in REDUCTIONS, "reduction", "'mean', 'sum' or 'none'", repr(reduction))
    scale = number("logit_scale", logit_scale)
    expect(scale != 0, "logit_scale", "a number that is not 0", scale)
    cap = 0.0 if softcap is None else number("softcap", softcap, 0.0)
    return (REDUCTIONS[reduction], -100 if ignore_index is None else int(ignore_index),
            number("label_smoothing", label_smoothing, 0.0, 1.0), number("z_loss", z_loss, 0.0), scale, cap)


def check_class_weight(weight: Optional[Tensor], classes: int) -> None:
    if weight is None:
        return
    expect(weight.shape == (classes,), "weight", f"shape ({classes},), one number a class", tuple(weight.shape))
    expect(not weight.requires_grad, "weight", "class weights without a gradient", "requires_grad=True")


def autocast_type(input: Tensor):
    """The type that autocast computes in, or False."""
    device = input.device.type
    return torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device)


def compute_type(input: Tensor, weight: Tensor) -> torch.dtype:
    dtype = autocast_type(input)
    if dtype:
        expect(dtype in FLOATS, "autocast", "float32, bfloat16 or float16", dtype)
        return dtype
    expect(input.dtype in FLOATS, "input", "float32, bfloat16 or float16", input.dtype)
    expect(weight.dtype == input.dtype, "linear_weight", f"input's type, {input.dtype} (or autocast)", weight.dtype)
    return input.dtype


def check_linear(input, linear_weight, linear_bias, target, others) -> None:
    for name, tensor in (("input", input), ("linear_weight", linear_weight), ("linear_bias", linear_bias)):
        refuse_dtensor(name, tensor)
    expect(input.dim() >= 1, "input", "shape (..., H)", "no dimension")
    expect(linear_weight.dim() == 2 and linear_weight.shape[1] == input.shape[-1], "linear_weight",
           f"shape (V, {input.shape[-1]}), as input has {input.shape[-1]} columns", tuple(linear_weight.shape))
    expect(linear_bias is None or linear_bias.shape == linear_weight.shape[:1], "linear_bias",
           f"shape ({linear_weight.shape[0]},)", None if linear_bias is None else tuple(linear_bias.shape))
    for name, tensor in (("linear_weight", linear_weight), ("target", target), ("linear_bias", linear_bias), *others):
        expect(tensor is None or tensor.device == input.device, name, f"input's device, {input.device}",
               None if tensor is None else tensor.device)


def check_main_grad(weight: Tensor) -> None:
    buffer = getattr(weight, "main_grad", None)
    expect(buffer is not None, "main_grad", "linear_weight.main_grad, a float32 buffer of its shape", "none")
    expect(buffer.dtype == torch.float32 and buffer.shape == weight.shape and buffer.device == weight.device,
           "linear_weight.main_grad", f"float32 of shape {tuple(weight.shape)} on {weight.device}",
           f"{buffer.dtype} of shape {tuple(buffer.shape)} on {buffer.device}")
    expect(not torch.compiler.is_compiling(), "main_grad", "a call outside of torch.compile (torch.compiler.disable)",
           "one inside: it writes to a buffer that the graph does not know")


def row_factor(row_weight: Tensor, target: Tensor, class_weight: Optional[Tensor], options: tuple) -> Tensor:
    """What each row's loss is multiplied by before all are added up: row_weight over the divisor of a mean."""
    factor = row_weight.reshape(-1).to(torch.float32)
    if options[0] == REDUCTIONS["sum"]:
        return factor
    is_valid = target != options[1]
    if class_weight is None:
        divisor = is_valid.sum().to(torch.float32)
    else:
        expect(options[3] == 0, "row_weight", "no class weights beside a z_loss: a mean would have two divisors",
               "both")
        divisor = (class_weight.to(torch.float32)[torch.where(is_valid, target, 0)] * is_valid).sum()
    return factor * torch.where(divisor > 0, 1 / divisor, 0)

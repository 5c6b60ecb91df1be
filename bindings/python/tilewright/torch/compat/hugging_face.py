"""Hugging Face's causal models, of any family: their lm_head promises logits, and their loss takes the promise.

A model's forward is `logits = lm_head(hidden)`, perhaps a scale or a softcap, `loss = loss_function(logits, labels)`.
Promised logits remember what is done to them; the loss is then made without them. Whoever looks at them gets them.
"""

from typing import Callable, Optional, Union

import torch
from torch import Tensor

from ..._errors import UserError
from ..functional import linear_cross_entropy
from ._patch import Patch


class PromisedLogits:
    """after · tanh(before · (hidden·weightᵀ + bias)), or without the tanh; a tensor as soon as it is used as one."""

    def __init__(self, hidden: Tensor, weight: Tensor, bias: Optional[Tensor], before: float = 1.0,
                 after: Optional[float] = None) -> None:
        self._parts = (hidden, weight, bias, before, after)
        self._made: Optional[Tensor] = None

    @property
    def shape(self) -> torch.Size:
        return torch.Size((*self._parts[0].shape[:-1], self._parts[1].shape[0]))

    @property
    def device(self) -> torch.device:
        return self._parts[0].device

    @property
    def dtype(self) -> torch.dtype:
        return self._parts[0].dtype

    def tensor(self) -> Tensor:
        """The logits, in memory from here on."""
        if self._made is None:
            hidden, weight, bias, before, after = self._parts
            logits = torch.nn.functional.linear(hidden, weight, bias)
            logits = logits if before == 1.0 else logits * before
            self._made = logits if after is None else torch.tanh(logits) * after
        return self._made

    def loss(self, labels: Tensor, **options) -> Tensor:
        hidden, weight, bias, before, after = self._parts
        scale, cap = (before, None) if after is None else (before * after, after)
        return linear_cross_entropy(hidden, weight, labels, linear_bias=bias, logit_scale=scale, softcap=cap,
                                    **options)

    def _times(self, factor):
        """The promise times a number; None where that is no number that the loss can take."""
        hidden, weight, bias, before, after = self._parts
        if not isinstance(factor, (int, float)) or factor <= 0:
            return None
        if after is None:
            return PromisedLogits(hidden, weight, bias, before * factor)
        return PromisedLogits(hidden, weight, bias, before, after * factor)

    def tanh(self) -> Union["PromisedLogits", Tensor]:
        hidden, weight, bias, before, after = self._parts
        return PromisedLogits(hidden, weight, bias, before, 1.0) if after is None else self.tensor().tanh()

    def float(self) -> "PromisedLogits":
        return self

    def contiguous(self) -> "PromisedLogits":
        return self

    def __mul__(self, factor):
        promised = self._times(factor)
        return self.tensor() * factor if promised is None else promised

    __rmul__ = __mul__

    def __truediv__(self, divisor):
        promised = self._times(1 / divisor) if isinstance(divisor, (int, float)) and divisor else None
        return self.tensor() / divisor if promised is None else promised

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.tensor(), name)

    def __getitem__(self, index):
        return self.tensor()[index]

    def __len__(self) -> int:
        return self.shape[0]

    @classmethod
    def __torch_function__(cls, function, types, arguments=(), named=None):
        named = named or {}
        if function in (torch.tanh, torch.nn.functional.tanh) and len(arguments) == 1:
            return arguments[0].tanh()

        def real(value):
            if isinstance(value, cls):
                return value.tensor()
            if isinstance(value, (list, tuple)):
                return type(value)(map(real, value))
            return value

        return function(*map(real, arguments), **{name: real(value) for name, value in named.items()})


for _name in ("add", "radd", "sub", "rsub", "rtruediv", "neg", "eq", "ne", "lt", "le", "gt", "ge", "matmul", "pow"):
    def _operator(self, *arguments, _method=f"__{_name}__"):
        return getattr(self.tensor(), _method)(*arguments)
    setattr(PromisedLogits, f"__{_name}__", _operator)


def _loss_of(original: Callable) -> Callable:
    """A loss function as transformers calls it: promised logits are not made, others go to the original."""

    def loss_function(logits, labels, vocab_size=None, num_items_in_batch=None, ignore_index: int = -100,
                      shift_labels=None, **others):
        if not isinstance(logits, PromisedLogits):
            return original(logits=logits, labels=labels, vocab_size=vocab_size,
                            num_items_in_batch=num_items_in_batch, ignore_index=ignore_index,
                            **({} if shift_labels is None else {"shift_labels": shift_labels}), **others)
        shift = 1 if shift_labels is None else 0
        targets = (labels if shift_labels is None else shift_labels).to(logits._parts[0].device)
        loss = logits.loss(targets, shift=shift, ignore_index=ignore_index,
                           reduction="mean" if num_items_in_batch is None else "sum")
        if num_items_in_batch is None:
            return loss
        return loss / (num_items_in_batch.to(loss.device) if isinstance(num_items_in_batch, Tensor)
                       else num_items_in_batch)

    return loss_function


def patch_transformers(model: torch.nn.Module) -> Patch:
    """Makes a causal model's loss without its logits, whatever its family: through its lm_head and loss_function.

    Nothing else changes: the output's `logits` become a tensor when they are used, as generation does. Outside of
    torch.compile.

    Raises:
        tilewright.UserError: the model has no loss for next tokens, or an output layer that is not torch.nn.Linear.
    """
    head = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    if type(head) is not torch.nn.Linear:
        raise UserError(f"patch_transformers: expected a model whose output layer is a torch.nn.Linear, found "
                        f"{type(head).__name__}")
    original = getattr(model, "loss_function", None)
    if getattr(original, "__name__", "") != "ForCausalLMLoss":
        raise UserError("patch_transformers: expected a model whose loss_function is transformers' ForCausalLMLoss, "
                        f"found {getattr(original, '__name__', original)}")
    patch = Patch()
    patch.set(head, "forward", lambda hidden: PromisedLogits(hidden, head.weight, head.bias))
    _set_loss(patch, model, _loss_of(original))
    return patch


def _set_loss(patch: Patch, model: torch.nn.Module, loss_function: Callable) -> None:
    """transformers keeps it behind a property: in `_loss_function`, where it looks first."""
    kept = "_loss_function" if isinstance(getattr(type(model), "loss_function", None), property) else "loss_function"
    patch.set(model, kept, loss_function)

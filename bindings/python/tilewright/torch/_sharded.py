"""A shard's call, part by part, with the collectives between them.

Of each chunk of rows the library computes what the rank's classes add to the rows' sums (`stats`). A gather tells it to
all ranks, while the next chunk's logits are multiplied; then each rank has the losses (`merge`) and makes its part of
dX, which is added up over the ranks while dW is made.

On a GPU all parts are enqueued on torch's current stream. A collective is issued with async_op=True: NCCL runs it on
its group's own stream, behind what the current stream had when it was issued. `wait` lets the current stream wait, not
the host: for a chunk's gather before `merge`, for the sums of dX once the last part is enqueued. Until then _Run holds
all that a collective reads or writes; torch's allocator hands it out again to later work of the current stream alone.
Nothing here reads a device's value, so that all of it can be captured in a CUDA graph.
"""

import ctypes
from ctypes import byref, c_int64, c_size_t, c_void_p
from typing import List, Optional

import torch
import torch.distributed as dist
from torch import Tensor

from .._library import PASS_BACKWARD, PASS_FUSED, LinearCrossEntropyTensors, call, library, take_error
from . import _calls, _ops, _vocabulary
from ._calls import Options
from ._devices import DL_TYPES, Device, device_of
from ._vocabulary import Shard

_BEGIN, _STATS, _MERGE, _D_HIDDEN, _D_WEIGHT, _FINISH = range(6)  # tw_shard_part
_ALIGNMENT = 256


class _VocabularyShard(ctypes.Structure):
    _fields_ = [("struct_bytes", c_size_t), ("all_classes", c_int64), ("first_class", c_int64), ("widest", c_int64),
                ("rank", c_int64), ("ranks", c_int64)]

    @classmethod
    def of(cls, shard: Shard):
        return cls(ctypes.sizeof(cls), shard.classes, shard.first, max(shard.sizes), shard.rank, shard.ranks)


class ShardedCall:
    """A shard's call that is planned, with its kernels loaded. Any thread may run it."""

    def __init__(self, device: Device, options: Options, tensors: dict, shard: Shard, which_pass: int):
        lib = library()
        self._device, self._shard, self._names = device, shard, tuple(tensors)
        self._slots = (_calls.DLTensor * len(tensors))(*(_calls.dl_tensor(device, t) for t in tensors.values()))
        self._run = lib.tw_sharded_linear_cross_entropy_run
        self._free = lib.tw_sharded_linear_cross_entropy_free
        frame = self._frame(tensors.values())
        handle = c_void_p()
        call(lib.tw_sharded_linear_cross_entropy_prepare, device.runtime, frame.address, byref(options.linear()),
             byref(_VocabularyShard.of(shard)), which_pass, byref(handle))
        self._handle = handle

        def fact(name):
            return getattr(lib, f"tw_sharded_linear_cross_entropy_{name}")(handle)

        self.workspace_bytes = fact("workspace_bytes")
        self.description = fact("description").decode()
        self.schedule = fact("schedule").decode()
        self.configuration = fact("configuration").decode()
        self._chunks, self._rows, self._facts = fact("chunks"), fact("chunk_rows"), fact("facts")
        self._is_ahead = fact("chunk_buffers") > 1

    def __del__(self):
        if getattr(self, "_handle", None):
            self._free(self._handle)

    def _frame(self, tensors):
        frame = _calls._Frame(LinearCrossEntropyTensors, self._names, self._slots)
        for slot, tensor in zip(frame.slots, tensors):
            slot.data = tensor.data_ptr()
        return frame

    def run(self, tensors: List[Tensor], d_hidden: Optional[Tensor], dx_reduce: str, reports: bool) -> Optional[Tensor]:
        """Enqueues the parts on torch's current stream, and the collectives; returns this rank's gradient of input.

        Args:
            tensors: as prepared, in that order.
            d_hidden: the one among them that gets this rank's part of dX, N×H; None: there is none.
            reports: whether bad labels and class weights are reported; else an earlier run of the data did.
        """
        return _Run(self, self._frame(tensors), d_hidden, dx_reduce, reports).all()


class _Done:
    """A collective that is done."""

    def wait(self) -> None:
        pass


class _Run:
    """One run of a shard's call."""

    def __init__(self, of: ShardedCall, frame, d_hidden, dx_reduce, reports):
        device = of._device
        self._of, self._frame, self._d_hidden, self._dx_reduce = of, frame, d_hidden, dx_reduce
        self._group, self._place = of._shard.group, device.torch_device
        self._workspace = torch.empty(of.workspace_bytes + _ALIGNMENT, dtype=torch.uint8, device=self._place)
        self._address = -(-self._workspace.data_ptr() // _ALIGNMENT) * _ALIGNMENT
        self._status = device.status() if reports else None
        shape = (of._facts, of._rows)
        self._exchanged = [(torch.empty(shape, dtype=torch.float32, device=self._place),
                            torch.empty(of._shard.ranks, *shape, dtype=torch.float32, device=self._place))
                           for _ in range(2)]
        self._gathers, self._sums, self._reduced = {}, [], d_hidden

    def _part(self, part: int, chunk: int = 0, stats: int = 0, gathered: int = 0) -> None:
        of, frame = self._of, self._frame
        code = of._run(of._handle, part, chunk, frame.address, stats, gathered, self._address, of.workspace_bytes,
                       self._status, of._device.stream(), frame.error_address)
        if code:
            raise take_error(frame.error, code)

    def _tell(self, chunk: int) -> None:
        """What the chunk's rows have on this rank, and the gather that tells all others."""
        stats, gathered = self._exchanged[chunk % 2]
        self._part(_STATS, chunk, stats=stats.data_ptr())
        work = _vocabulary.gather(gathered, stats, self._group, waits=False) if stats.numel() else None
        self._gathers[chunk] = work or _Done()

    def _add_up(self, chunk: int) -> None:
        """Of dX: the rows that are complete now. A reduce-scatter waits for the last ones, as parts are not chunks."""
        d_hidden, rows = self._d_hidden, self._of._rows
        if d_hidden is None or d_hidden.numel() == 0 or self._dx_reduce == "none":
            return
        if self._dx_reduce == "all_reduce":
            part = d_hidden[chunk * rows:(chunk + 1) * rows]
            self._sums.append(dist.all_reduce(part, group=self._group, async_op=True))
        elif chunk + 1 == self._of._chunks:
            self._sums.append(self._scatter())

    def _scatter(self):
        shard, d_hidden = self._of._shard, self._d_hidden
        if _vocabulary.is_of_gloo(d_hidden, self._group):  # which has no reduce-scatter in older versions of torch
            self._reduced = d_hidden.chunk(shard.ranks)[shard.rank]
            return dist.all_reduce(d_hidden, group=self._group, async_op=True)
        self._reduced = torch.empty_like(d_hidden[:d_hidden.shape[0] // shard.ranks])
        return dist.reduce_scatter_tensor(self._reduced, d_hidden, group=self._group, async_op=True)

    def all(self) -> Optional[Tensor]:
        chunks, is_ahead = self._of._chunks, self._of._is_ahead
        self._part(_BEGIN)
        self._tell(0)
        for chunk in range(chunks):
            if is_ahead and chunk + 1 < chunks:
                self._tell(chunk + 1)
            self._gathers.pop(chunk).wait()
            self._part(_MERGE, chunk, gathered=self._exchanged[chunk % 2][1].data_ptr())
            self._part(_D_HIDDEN, chunk)
            self._add_up(chunk)
            self._part(_D_WEIGHT, chunk)
            if not is_ahead and chunk + 1 < chunks:
                self._tell(chunk + 1)
        self._part(_FINISH)
        for sums in self._sums:
            sums.wait()
        return self._reduced


class _Entry:
    __slots__ = ("prepared", "was_used")

    def __init__(self, prepared: ShardedCall):
        self.prepared, self.was_used = prepared, False


def _run(shard: Shard, dx_reduce: str, which_pass: int, options: Options, inputs: dict, outputs: dict,
         reports: bool) -> List[Tensor]:
    """Runs the shard's call; the outputs, with this rank's gradient of input in the place of its part of dX."""
    tensors = {name: tensor for name, tensor in {**inputs, **outputs}.items() if tensor is not None}
    device = device_of(tensors["hidden"])
    kind = (which_pass, options, tuple(tensors))
    key = (device.torch_device, shard, kind, *map(_calls.signature, tensors.values()))
    entry = _calls._cache.get(key)
    if entry is None:
        entry = _calls._cache.put(key, _Entry(ShardedCall(device, options, tensors, shard, which_pass)))
    makes_gradients = any(name in outputs for name in ("d_hidden", "d_weight", "d_bias"))
    of_all = (which_pass, options, inputs["hidden"].shape, tensors["hidden"].dtype, makes_gradients)
    _vocabulary.compare_schedules(shard, of_all, entry.prepared.schedule)
    _calls.keep_if_captured(device, entry.prepared)
    d_hidden = outputs.get("d_hidden")
    mine = entry.prepared.run(list(tensors.values()), d_hidden, dx_reduce, reports)
    return [mine if name == "d_hidden" else tensor for name, tensor in outputs.items()]


class Operations:
    """`_ops.linear_forward` and `_ops.linear_backward` of a shard; the input is N×H, or a part of its rows."""

    def __init__(self, shard: Shard, dx_reduce: str):
        self._shard, self._dx_reduce = shard, dx_reduce

    def _rows(self, input: Tensor) -> Tensor:
        return _ops._rows(_vocabulary.all_rows(input, self._shard) if self._dx_reduce == "reduce_scatter" else input)

    def forward(self, input, weight, target, bias, class_weight, upstream, *rest) -> List[Tensor]:
        options, wants, types = rest[:-4], rest[-4], rest[-3:]
        device_of(input).poll()
        rows = self._rows(input)
        inputs = dict(hidden=rows, weight=_ops._rows(weight), label=target.contiguous(), bias=_ops._contiguous(bias),
                      class_weight=_ops._dense(class_weight), grad_output=_ops._dense(upstream))
        outputs = _ops._forward_outputs(rows, weight, bias, options[0], wants, *types)
        options = _ops.linear_options(options, rows, any(types))
        return _run(self._shard, self._dx_reduce, PASS_FUSED, options, inputs, outputs, reports=True)

    def backward(self, input, weight, target, bias, class_weight, lse, grad_loss, grad_lse, grad_entropy,
                 *rest) -> List[Tensor]:
        options, types = rest[:-3], rest[-3:]
        rows = self._rows(input)
        outputs = _ops._gradients(rows, weight, bias, *types)
        return self._backward(rows, weight, target, bias, class_weight, lse, (grad_loss, grad_lse, grad_entropy),
                              _ops.linear_options(options, rows, True), outputs)

    def backward_onto(self, d_weight: Tensor):
        """The backward operation whose dW is added to what d_weight holds."""

        def operation(input, weight, target, bias, class_weight, lse, grad_loss, grad_lse, grad_entropy, *rest):
            options, (d_input, _, d_bias) = rest[:-3], rest[-3:]
            rows = self._rows(input)
            outputs = _ops._gradients(rows, weight, bias, d_input, None, None)
            outputs["d_weight"] = d_weight
            if d_bias is not None:
                outputs["d_bias"] = torch.zeros(bias.shape, dtype=d_bias, device=bias.device)
            return self._backward(rows, weight, target, bias, class_weight, lse, (grad_loss, grad_lse, grad_entropy),
                                  _ops.linear_options(options, rows, True)._replace(accumulate=True), outputs)

        return operation

    def _backward(self, rows, weight, target, bias, class_weight, lse, upstream, options, outputs) -> List[Tensor]:
        names = ("hidden", "weight", "label", "bias", "class_weight", "grad_output", "grad_lse", "grad_entropy",
                 "saved_lse")
        inputs = dict(zip(names, _ops._backward_inputs(rows, weight, target, bias, class_weight, lse, *upstream,
                                                      options.reduction)))
        return _run(self._shard, self._dx_reduce, PASS_BACKWARD, options, inputs, outputs, reports=False)

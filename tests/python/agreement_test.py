"""Ranks that share a vocabulary agree, or are told; what they want may differ; one that fails is the others' error.

Processes with gloo, on the CPU: see ranks.py.
"""

import gc
import os
import time
import weakref
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

import reference
import tilewright
from ranks import CLASSES, SIZES, Ranks, problem, run, shard_of, stop_all
from tilewright.torch import _ops, _sharded, _vocabulary, linear_cross_entropy
from tilewright.torch.compat import cut_cross_entropy


@pytest.fixture(scope="module", autouse=True)
def _processes():
    yield
    stop_all()


def _disagree(rank, ranks):
    x, w, y = problem()
    with pytest.raises(tilewright.UserError, match="same z_loss on all ranks, found 0.3 on rank 0 and 1.3 on rank 1"):
        linear_cross_entropy(x, shard_of(w, rank, ranks), y, group=dist.group.WORLD, z_loss=0.3 + rank)


def test_ranks_that_ask_for_different_things_are_told():
    run(2, _disagree)


def _no_class_here(rank, ranks):
    x, w, y = problem()
    with pytest.raises(tilewright.UserError, match=r"group: expected 1 class or more on every rank, found \(50, 0\)"):
        linear_cross_entropy(x, w[:0] if rank else w, y, group=dist.group.WORLD)


def test_a_rank_without_classes_is_an_error_on_all():
    run(2, _no_class_here)


def _other_plans(rank, ranks):
    """Under autocast the types of weight's gradient, and so the plan, follow from whether the rank wants it."""
    x, w, y = problem()
    mine = shard_of(w, rank, ranks).requires_grad_(rank == 0)
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(
            tilewright.UserError, match="the same schedule on all ranks, found '.*' on rank 0 and '.*' on rank 1"):
        linear_cross_entropy(x.detach().bfloat16(), mine, y, group=dist.group.WORLD)


def test_ranks_that_plan_differently_are_told():
    run(2, _other_plans)


def _other_schedules(rank, ranks):
    shard = _vocabulary.shard_of(dist.group.WORLD, SIZES[ranks][rank], {"call": "of this test"})
    _vocabulary.compare_schedules(shard, ("the same",), "two chunks")
    for _ in range(2):  # a difference is no agreement: the next call compares again
        with pytest.raises(tilewright.UserError, match="found 'chunks: 1' on rank 0 and 'chunks: 2' on rank 1"):
            _vocabulary.compare_schedules(shard, ("others",), f"chunks: {rank + 1}")


def test_a_difference_of_schedules_is_found_again():
    run(2, _other_schedules)


def _other_roundings(rank, ranks):
    x, w, y = problem()
    real = _ops.allows_tf32
    _ops.allows_tf32 = lambda matrix: rank == 1  # as on GPUs where torch.backends.cuda.matmul.allow_tf32 says so
    try:
        with pytest.raises(tilewright.UserError, match="same allow_tf32 .* found False on rank 0 and True on rank 1"):
            linear_cross_entropy(x, shard_of(w, rank, ranks), y, group=dist.group.WORLD)
    finally:
        _ops.allows_tf32 = real


def test_ranks_that_allow_tf32_differently_are_told():
    run(2, _other_roundings)


def _disagree_later(rank, ranks):
    x, w, y = problem()
    os.environ["TILEWRIGHT_CHECK_RANKS"] = "1"
    for z_loss in (0.0, 0.1):  # all ranks agreed on both
        linear_cross_entropy(x, shard_of(w, rank, ranks), y, group=dist.group.WORLD, z_loss=z_loss)
    with pytest.raises(tilewright.UserError, match="on rank 0 and .* on rank 1"):
        linear_cross_entropy(x, shard_of(w, rank, ranks), y, group=dist.group.WORLD, z_loss=0.1 * rank)
    del os.environ["TILEWRIGHT_CHECK_RANKS"]


def test_a_debug_mode_compares_every_call():
    run(2, _disagree_later)


def _one_dies(rank, ranks):
    x, w, y = problem()
    linear_cross_entropy(x, shard_of(w, rank, ranks), y, group=dist.group.WORLD)
    if rank == 1:  # after its first gather, and before its part of dX is added up
        _sharded._Run._add_up = lambda *_: os._exit(0)
    with pytest.raises(RuntimeError):
        linear_cross_entropy(x, shard_of(w, rank, ranks), y, group=dist.group.WORLD)


def _one_does_not_come(rank, ranks):
    group = dist.new_group(timeout=timedelta(seconds=3))
    x, w, y = problem()
    linear_cross_entropy(x, shard_of(w, rank, ranks), y, group=group)
    if rank == 1:
        return time.sleep(6)
    begin = time.monotonic()
    with pytest.raises(RuntimeError, match="[Tt]imed out|[Tt]imeout"):
        linear_cross_entropy(x, shard_of(w, rank, ranks), y, group=group)
    assert time.monotonic() - begin < 30


def test_nothing_hangs_past_the_timeout_of_the_group():
    ranks = Ranks(2)
    ranks.run(_one_does_not_come)
    ranks.stop()


def _is_gone_when_destroyed(rank, ranks):
    """Threads of a group that outlived destroy_process_group could abort the process at its end."""
    group = dist.new_group()
    options = cut_cross_entropy.VocabParallelOptions.from_vocab(CLASSES, group)
    x, w, y = problem()
    mine = w.detach()[options.start:options.stop].requires_grad_()
    linear_cross_entropy(x, mine, y, group=group).backward()
    cut_cross_entropy.linear_cross_entropy(x, mine, y, vocab_parallel_options=options).backward()
    loss = linear_cross_entropy(x, mine, y, group=group, reduction="none").sum()
    seen = weakref.ref(group)
    dist.barrier()
    dist.destroy_process_group(group)
    del group, options
    gc.collect()
    assert seen() is None
    with pytest.raises(tilewright.UserError, match="found one that was destroyed"):
        loss.backward()


def test_a_group_that_is_destroyed_is_not_kept():
    run(2, _is_gone_when_destroyed)


def test_a_rank_that_dies_is_torchs_error_on_the_others():
    ranks = Ranks(2)
    ranks.run(_one_dies, dying=[1])
    ranks.stop()


def _different_needs(rank, ranks, needs, reduction, dx_reduce, dtype):
    """Each rank wants the gradients of what `needs` has for it: of x, of w."""
    x, w, y = problem(dtype)
    wanted = reference.linear_cross_entropy(x, w, y, reduction=reduction)[0].sum()
    d_x, d_w = torch.autograd.grad(wanted, [x, w])
    of_x, of_w = needs[rank]
    scatters = dx_reduce == "reduce_scatter"
    rows = (x.detach().chunk(ranks)[rank] if scatters else x.detach()).clone().requires_grad_(of_x)
    mine = shard_of(w, rank, ranks).requires_grad_(of_w)
    loss = linear_cross_entropy(rows, mine, y, group=dist.group.WORLD, reduction=reduction, dx_reduce=dx_reduce)
    loss.sum().backward()  # on all ranks, whatever they want
    tolerance = 2e-5 if dtype == torch.float32 else 8e-3
    assert (rows.grad is not None, mine.grad is not None) == (of_x, of_w)
    if of_x:
        assert reference.relative(rows.grad, d_x.chunk(ranks)[rank] if scatters else d_x) < tolerance
    if of_w:
        assert reference.relative(mine.grad, d_w.split(SIZES[ranks])[rank]) < tolerance


ALL, OF_X, OF_W, NONE = (True, True), (True, False), (False, True), (False, False)


@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("needs", [(ALL, OF_X), (ALL, OF_W), (OF_W, ALL), (OF_X, OF_W), (ALL, NONE), (NONE, OF_W)],
                         ids=str)
def test_ranks_may_want_different_gradients(needs, reduction):  # fla 1253
    run(2, _different_needs, needs, reduction, "all_reduce", torch.float32)


@pytest.mark.parametrize("needs", [(ALL, OF_X), (OF_W, ALL), (NONE, ALL)], ids=str)
def test_ranks_that_want_different_gradients_of_rows_over_ranks(needs):
    run(2, _different_needs, needs, "none", "reduce_scatter", torch.float32)


@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_ranks_that_want_different_gradients_of_16_bits(dtype, reduction):
    run(2, _different_needs, (ALL, OF_X), reduction, "all_reduce", dtype)
    run(2, _different_needs, (OF_W, ALL), reduction, "all_reduce", dtype)


def _parts_that_not_all_want(rank, ranks):
    """What rank 1 does not want it does not make, and its part of dX is not there for the caller to add up."""
    x, w, y = problem()
    x = x.detach().requires_grad_(rank == 0)
    linear_cross_entropy(x, shard_of(w, rank, ranks), y, group=dist.group.WORLD, dx_reduce="none").backward()
    assert (x.grad is not None) == (rank == 0)


def test_no_reduction_and_different_gradients():
    run(2, _parts_that_not_all_want)


_FIRST = ("variant=chunked chunk_rows=16 forward_rows=32 forward_columns=32 forward_step=0 dx_rows=32 dx_columns=32 "
          "dx_step=0 dw_rows=32 dw_columns=32 dw_step=0")


def _told_by_rank_0(rank, ranks, reduction):
    """Rank 0 has the configuration of a call of its own, without a group, and tells the others."""
    x, w, y = problem()
    wanted = reference.linear_cross_entropy(x, w, y, reduction=reduction)[0].sum()
    d_x, d_w = torch.autograd.grad(wanted, [x, w])
    mine = shard_of(w, rank, ranks).requires_grad_(True)
    text = [None]
    if rank == 0:
        linear_cross_entropy(x, mine, y.clamp(max=15), configuration=_FIRST)
        text[0] = tilewright.torch.prepared_calls()[-1].configuration
    dist.broadcast_object_list(text)
    assert "chunk_rows=16" in text[0]
    linear_cross_entropy(x, mine, y, group=dist.group.WORLD, reduction=reduction,
                         configuration=text[0]).sum().backward()
    assert tilewright.torch.prepared_calls()[-1].configuration == text[0]
    assert "2 at a time" in tilewright.torch.prepared_calls()[-1].description  # 24 rows: two chunks
    assert reference.relative(x.grad, d_x) < 2e-5
    assert reference.relative(mine.grad, d_w.split(SIZES[ranks])[rank]) < 2e-5


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_a_configuration_of_one_rank_is_given_to_all(reduction):
    run(2, _told_by_rank_0, reduction)


def _other_configurations(rank, ranks):
    x, w, y = problem()
    texts = [_FIRST.replace("chunk_rows=16", f"chunk_rows={rows}") for rows in (8, 24)]  # new to both ranks
    with pytest.raises(tilewright.UserError, match="same configuration .*chunk_rows=8 .* on rank 0 and .*chunk_rows=24 "
                                                   ".* on rank 1"):
        linear_cross_entropy(x, shard_of(w, rank, ranks), y, group=dist.group.WORLD, configuration=texts[rank])


def test_ranks_that_pin_different_configurations_are_told():
    run(2, _other_configurations)

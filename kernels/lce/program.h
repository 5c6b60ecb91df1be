#pragma once

#include "compiler/target.h"
#include "kernels/lce/config.h"
#include "kernels/loss_options.h"
#include "kernels/program/program.h"

namespace tilewright::lce {

/// The numbers of a call's options: what enters the kernels' parameters.
struct OptionValues {
  LossOptions loss;
  Margin margin;
};

/// Tags of a program's steps and kernels: a product's, and what a product that is launched alone needs
/// beforehand.
constexpr int tagOf(ProductKind kind) { return static_cast<int>(kind); }
constexpr int kPreparesProducts = 16, kRepairsShifts = 17;

/// The parts of a shard's call, each of which is run by itself. `stats` to `dWeight` are done for each chunk.
enum class CallPart { begin, stats, merge, dHidden, dWeight, finish };

/// The steps of a call. A user error where what the configuration keeps in dW's memory does not fit there.
StatusOr<Program> programFor(const Scheme &scheme, const Config &config, const OptionValues &options,
                             TargetKind target);

} // namespace tilewright::lce

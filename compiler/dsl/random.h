#pragma once

#include <array>

#include "compiler/dsl/value.h"

namespace tilewright {

/// Four i32 tiles: a counter of 128 bits or as many random ones, the lowest first.
using FourWords = std::array<Tile, 4>;

/// Philox-4x32-10: 128 random bits for each counter and key, the same on every target. A generator without a
/// state, so that each element draws its own. (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as
/// easy as 1, 2, 3", SC'11.) All are i32 tiles that broadcast.
FourWords philox(const FourWords &counter, const std::array<Tile, 2> &key);

/// Philox of the counter {number, 0, 0, 0}, where `number` is i32, and the key `seed` of 64 bits.
FourWords randomBits(const Index &seed, const Tile &number);

/// From an i32 tile of random bits fp32 numbers in [0, 1): multiples of 2⁻²⁴, all as likely.
Tile uniform(const Tile &bits);

} // namespace tilewright

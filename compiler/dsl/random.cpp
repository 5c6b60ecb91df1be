#include "compiler/dsl/random.h"

#include "compiler/dsl/builder.h"

namespace tilewright {

FourWords philox(const FourWords &counter, const std::array<Tile, 2> &key) {
  constexpr int kRounds = 10;
  constexpr int64_t kMultiplier[2] = {0xD2511F53, 0xCD9E8D57};
  constexpr uint32_t kKeyStep[2] = {0x9E3779B9, 0xBB67AE85}; // the golden ratio, and √3 - 1
  FourWords x = counter;
  for (uint32_t round = 0; round < kRounds; ++round) {
    const auto keyOf = [&](int word) { // sums wrap around
      return key[word] + double(static_cast<int32_t>(round * kKeyStep[word]));
    };
    const auto low = [&](const Tile &a, int word) {
      return a * double(static_cast<int32_t>(kMultiplier[word]));
    };
    x = {mulHigh(x[2], kMultiplier[1]) ^ x[1] ^ keyOf(0), low(x[2], 1),
         mulHigh(x[0], kMultiplier[0]) ^ x[3] ^ keyOf(1), low(x[0], 0)};
  }
  return x;
}

FourWords randomBits(const Index &seed, const Tile &number) {
  KernelBuilder *k = number.builder() ? number.builder() : seed.builder();
  if (!k) return {};
  const Tile zero = k->toTile(k->constant(0), ElementType::i32);
  const Tile upper = cast(k->toTile(seed, ElementType::i64) >> 32, ElementType::i32);
  return philox({number, zero, zero, zero}, {k->toTile(seed, ElementType::i32), upper});
}

Tile uniform(const Tile &bits) {
  return cast(shiftRightLogical(bits, 8), ElementType::f32) * (1.0 / (1 << 24));
}

} // namespace tilewright

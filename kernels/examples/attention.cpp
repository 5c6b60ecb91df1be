#include <limits>

#include "kernels/examples/examples.h"

namespace tilewright {

Kernel attention(ElementType element, int64_t headSize, bool causal, int64_t blockRows, int64_t blockKeys) {
  const std::string specialisation = elementName(element) + std::string(causal ? ",causal," : ",") +
                                     std::to_string(headSize) + "," + std::to_string(blockRows) + "x" +
                                     std::to_string(blockKeys);
  return defineKernel("attention", specialisation, [=](KernelBuilder &k) {
    const View q = k.input("q", element, 2), keys = k.input("k", element, 2), v = k.input("v", element, 2);
    const Index size = k.index("size"), heads = k.index("heads");
    const Tile scale = k.scalar("scale");
    const View o = k.output("o", element, 2);

    const auto [block, head] = k.block(size, heads, blockRows, 1);
    const Index first = head.begin * size, end = first + size; // this head's rows of all four
    const View headKeys = keys.narrowed(0, end), headValues = v.narrowed(0, end);
    const Range rows = k.range(Axis::rows, first + block.begin, blockRows);
    const Range columns = k.range(Axis::columns, k.constant(0), headSize);

    const Tile query = q.narrowed(0, end).at(rows, columns);

    // top: the largest logit so far; mass: Σ exp(logit - top); sums: Σ exp(logit - top) · value.
    const auto addKeys = [&](bool isMasked) {
      return [&, isMasked](Index at, const std::vector<Tile> &carried) -> std::vector<Tile> {
        const Range here = k.range(Axis::rows, first + at, blockKeys);
        Tile logits = dot(query, transpose(headKeys.at(here, columns))); // not scaled yet
        if (isMasked) {
          const Tile key = k.range(Axis::columns, at, blockKeys).positions();
          Tile isSeen = key < k.toTile(size, ElementType::i32);
          if (causal) isSeen = isSeen & (key <= block.positions());
          logits = select(isSeen, logits, std::numeric_limits<float>::lowest());
        }
        const Tile top = max(carried[0], max(logits, Axis::columns) * scale);
        const Tile e = expAbove(logits * scale, top), factor = expAbove(carried[0], top);
        return {top, carried[1] * factor + sum(e, Axis::columns),
                carried[2] * factor + dot(rounded(e, element), headValues.at(here, columns))};
      };
    };
    const Tile none = cast(block.positions(), ElementType::f32) * 0.0;
    const std::vector<Tile> nothing{none + std::numeric_limits<float>::lowest(), none,
                                    none + cast(columns.positions(), ElementType::f32) * 0.0};
    // Keys that every row of the block sees need no mask.
    const Index seen = (causal ? block.begin : size) / blockKeys * blockKeys;
    const Index last = causal ? min(block.begin + blockRows, size) : size;
    const auto unmasked = k.forRange(k.constant(0), seen, blockKeys, nothing, addKeys(false));
    const auto all = k.forRange(seen, last, blockKeys, unmasked, addKeys(true));
    k.store(o.narrowed(0, end), rows, columns, all[2] / all[1]);
  });
}

Kernel attention(ElementType element, int64_t headSize, bool causal) {
  // Measured on an H200 for numbers of 16 bits alone (../MEASUREMENTS.md).
  return attention(element, headSize, causal, 64, element == ElementType::f32 ? 64 : 128);
}

} // namespace tilewright

#pragma once

#include <cstdint>

namespace tilewright::layout {

/// The left operand of mma.sync is 16 rows × 16 deep; the right one is taken as two at once, 16 columns × 16
/// deep.
enum class Side { left, right };

template <class N> struct FragmentPosition { N position, k; };

/// Element of a 16×16 block (free axis × contracted axis) whose 16-byte chunk a lane must address for
/// ldmatrix.x4, with .trans where the contracted axis is not the minor one. The registers then are, for lane
/// l with g = l/4 and t = l%4:
///
///     left   register q: rows g + 8·(q%2), depth 2t + 8·(q/2) and the next: a whole operand
///     right  register q: columns g + 8·(q/2), depth 2t + 8·(q%2) and the next: operands {0, 1} and {2, 3}
template <class N> FragmentPosition<N> fragmentPosition(Side side, bool depthIsMinor, N lane) {
  const N inside = lane % 8, low = lane / 8 % 2 * 8, high = lane / 16 * 8;
  if (side == Side::left)
    return depthIsMinor ? FragmentPosition<N>{inside + low, high} : FragmentPosition<N>{low, inside + high};
  return depthIsMinor ? FragmentPosition<N>{inside + high, low} : FragmentPosition<N>{high, inside + low};
}

} // namespace tilewright::layout

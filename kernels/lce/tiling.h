#pragma once

#include "kernels/lce/config.h"
#include "runtime/device.h"

namespace tilewright::lce {

/// Tiles and schedules of the products on a device.

/// The product in chunks or slices of `config`.
Product chooseProduct(const Scheme &scheme, ProductKind kind, const DeviceInfo &device, const Config &config);

/// What that chooses from on a GPU whose warps have roles, in the order of its preference.
std::vector<Product> candidatesFor(const Scheme &scheme, ProductKind kind, const DeviceInfo &device,
                                   const Config &config);

Product chooseCpuProduct(const Scheme &scheme, ProductKind kind, const DeviceInfo &device,
                         const Config &config);

/// Of the classes, in which a CPU makes dX of this shape: few rows are few blocks, of which many workers have
/// none. Sums of all parts take `mostBytes` at most.
int64_t chooseCpuParts(const ProductShape &shape, int64_t mostBytes);

/// Whether a product can be computed by specialised warps, where a device has them: both operands are
/// aligned, and of 16 bits; or of fp32 that is rounded to TF32, which `wgmma` takes where rows run along the
/// contracted axis, as those of transposed matrices do.
bool allowsRoles(const Scheme &scheme, ProductKind kind);

/// Whether a thread that holds more than 128 of a tile's sums has registers left for what becomes of them:
/// not for what is there already, or for what all classes of a row get alike.
bool allowsLargeTiles(const Scheme &scheme, ProductKind kind);

/// Sums of a tile that each thread of specialised warps holds; 192 at most.
int64_t accumulatorsOf(const Block &block, Schedule::WarpRoles roles);

/// Tile swizzle: how many rows of tiles specialised warps walk column by column, so that the
/// fewest bytes of operands with numbers of so many bytes come from memory: one wave of tiles reads strips of
/// both operands once, and a strip that stays in the second-level cache is hardly read again. Such that a
/// wave of the multiprocessors, which may work in clusters, is of whole columns, or all rows where they stay
/// in the cache. What tiles that are `stored` write takes a part of it.
int chooseRaster(const Product &product, const ProductShape &shape, int64_t numberBytes, bool stored,
                 const DeviceInfo &device);

/// Bytes of both operands that then come from memory.
double operandBytes(const Product &product, const ProductShape &shape, int64_t numberBytes, bool stored,
                    const DeviceInfo &device);

/// Shared memory that a program of specialised warps takes, in bytes: the TMA pipeline's stages, and the
/// stores' buffers.
int64_t sharedBytesOf(const Scheme &scheme, ProductKind kind, const Product &product);

/// Tuning is of the plain loss. Where options leave too few registers for what it found for a product, what
/// `plan` would choose for that takes its place.
void fitToOptions(const Scheme &scheme, const DeviceInfo &device, Config &config);

} // namespace tilewright::lce

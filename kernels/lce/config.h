#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/base/integers.h"
#include "compiler/options.h"
#include "kernels/lce/scheme.h"

namespace tilewright::lce {

/// How a product is computed: the block of one program, and its schedule.
struct Product {
  Block block;
  int64_t contractionStep = 0; ///< 0 in this and the next: the compiler's choice
  int stages = 0;
  Schedule::WarpRoles roles = Schedule::WarpRoles::automatic;
  int rasterRows = 0;
  int clusterCtas = 0;

  /// "192x256/256": rows x columns / step; "128x256/0 cooperative, 4 stages, raster 8, cluster 2" where warps
  /// have roles.
  std::string str() const;
};

/// Whether its warps are specialised, as those that use wgmma and TMA are.
inline bool hasRoles(const Product &product) {
  return product.roles == Schedule::WarpRoles::cooperative || product.roles == Schedule::WarpRoles::pingPong;
}

/// Tiles that a cluster takes side by side: of one column of tiles, or of one row. Its CTAs share the larger
/// operand of a tile.
struct ClusterShape {
  int64_t below = 1, abreast = 1;
  explicit ClusterShape(const Product &product) {
    const int64_t ctas = std::max(1, product.clusterCtas);
    (product.block.rows >= product.block.columns ? abreast : below) = ctas;
  }
};

/// A product's result, and how many numbers each of its elements adds up.
struct ProductShape {
  int64_t rows, columns, depth;
};

/// Split-K of dX's last rows: the classes are summed in parts, which are then added up. Where whole tiles
/// leave multiprocessors idle at the end (or all the time, where there are few), parts of them do not.
struct Tail {
  int64_t begin = 0; ///< its first row of a chunk
  int64_t parts = 1; ///< of the classes; with 1 there is no tail
};

/// Classes of which a second pass makes dW and db at once.
struct Slice {
  /// Where their E is: saved by the first pass in dW's memory; or made again, in dW's memory behind the rows
  /// that are stored by then, or in the workspace.
  enum class Where { kept, borrowed, workspace };
  int64_t first, count;
  Where where;
};

// What parts of a tail may take where memory has no limit.
constexpr int64_t kMostTailBytes = int64_t(128) << 20;

/// How a scheme is computed on a device: the tiles of its products, and how rows and classes are cut into
/// chunks and slices. The same for every N of a bucket.
struct Config {
  Variant variant = Variant::chunked;
  int64_t chunkRows = 0;
  int64_t sliceClasses = 0; ///< of the second pass, where E and u lie in the workspace
  int64_t borrowedClasses =
      0;                   ///< and in dW's memory, while there is room behind the slice's rows; 0 for none
  int64_t keptClasses = 0; ///< the first ones, whose E the first pass saves for the second in dW's memory
  /// dW of 16 bits, while chunks still add to it, is fp32: its first columns in its own rows' memory, where
  /// half of them have room, and the others in the workspace.
  bool inPlace = false;
  Product forward, dHidden, dWeight, again;
  Tail tail;
  int64_t tailBytes = kMostTailBytes; ///< that its parts may take

  Product &operator[](ProductKind kind) {
    return kind == ProductKind::forward   ? forward
           : kind == ProductKind::dHidden ? dHidden
           : kind == ProductKind::dWeight ? dWeight
                                          : again;
  }
  const Product &operator[](ProductKind kind) const { return const_cast<Config &>(*this)[kind]; }
  bool hasTail() const { return tail.parts > 1; }
  int64_t tailRows() const; ///< to the chunk's end, in whole strips of dX's tiles
  /// Rows of a chunk whose dX is made in whole tiles: those before the tail.
  int64_t hiddenTileRows() const { return hasTail() ? tail.begin : chunkRows; }
  int64_t chunks(const Request &request) const; ///< at least 1
  /// Chunks whose E is in memory at the same time.
  int chunkBuffers(const Request &request) const {
    return request.isShard() && chunks(request) > 1 ? request.shardBuffers : 1;
  }
  /// Of a second pass: those whose E and u dW's memory holds, and all.
  int64_t borrowedSlices(const Scheme &scheme) const;
  std::vector<Slice> slices(const Scheme &scheme) const;
  /// Parts that dW and db add up from: chunks, but for a second pass, which has all rows at once.
  int64_t weightParts(const Scheme &scheme) const { return scheme.hasSecondPass ? 1 : chunks(scheme); }
  /// Rows whose E dW and db are made of at once.
  int64_t weightRows(const Scheme &scheme) const;
  /// Columns of dW that add up, two numbers' place each, in its own memory, and in a buffer.
  int64_t columnsInPlace(const Scheme &scheme) const;
  int64_t columnsInBuffer(const Scheme &scheme) const;
  int64_t widestSlice() const { return std::max(sliceClasses, borrowedClasses); }
  /// Columns of dW that are made at a time, lest u, which holds all rows' part of them, or a slice's, becomes
  /// large.
  int64_t weightColumns(const Scheme &scheme, int64_t slice) const;
  int64_t weightColumns(const Scheme &scheme) const { return weightColumns(scheme, widestSlice()); }
  std::string str() const;
};

/// Of a product of whole chunks, or of slices of so many classes; else of the widest.
ProductShape shapeOf(const Scheme &scheme, ProductKind kind, const Config &config, int64_t slice);
ProductShape shapeOf(const Scheme &scheme, ProductKind kind, const Config &config);

// Rows and columns of a block are multiples of these, the register tile of the products; columns of warps
// with roles are multiples of what wgmma takes.
constexpr int64_t kRowStep = 8, kColumnStep = 32, kRoleColumnStep = 8;

/// The sizes that chunks have on a device. They are few, for blocks depend on them.
class ChunkSizes {
public:
  explicit ChunkSizes(const Request &request) : ofTiles_(request.tensorCores) {}

  /// The chunk that holds all of `rows` rows.
  int64_t holding(int64_t rows) const;
  /// The next smaller size; 0 below the smallest.
  int64_t below(int64_t chunk) const;
  /// The smallest chunk that needs no more passes over `rows` rows than `chunk` does.
  int64_t balanced(int64_t rows, int64_t chunk) const;

private:
  bool ofTiles_; ///< of a GPU, not of a CPU's blocks
};

} // namespace tilewright::lce

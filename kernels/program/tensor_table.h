#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>

#include "runtime/device.h"

namespace tilewright {

/// Names a tensor of a call. Every kind of call has an enumeration of its own.
using TensorId = int;
constexpr TensorId kNoTensor = -1;

/// Who owns the memory that a tensor lies in.
enum class Arena {
  caller,    ///< the caller: an input, or an output that was asked for
  workspace, ///< the call's workspace
  borrowed,  ///< an output of the caller's (dW), before its values are stored there
};

/// What a step that works on a part of the rows or classes sees of a tensor.
enum class Extent {
  whole,   ///< all of it
  rows,    ///< one row for each of the call's N rows: those of the chunk at work
  chunk,   ///< one row for each row of a chunk: as many as the chunk at work has
  classes, ///< one row for each of the V classes: those of the slice at work
};

/// The phases of a call in which a tensor holds something: from the first that writes it to the last that
/// reads it. A tensor that outlives one turn of a loop lives through all phases of the loop.
struct Lifetime {
  int first = 0, last = 0;
  bool meets(const Lifetime &other) const { return first <= other.last && other.first <= last; }
};

/// Which end of its arena a tensor is placed at.
enum class Place { lowest, highest };

constexpr int64_t kTensorAlignment = 256; ///< bytes; of every tensor in the workspace
constexpr int64_t kMostBytes = int64_t(1) << 62;

/// Sizes in bytes saturate at `kMostBytes`, which no memory has, instead of overflowing.
int64_t saturatingProduct(int64_t a, int64_t b);
int64_t saturatingSum(int64_t a, int64_t b);
/// Rounded up to a multiple of `kTensorAlignment`.
int64_t alignedBytes(int64_t bytes);

struct TensorEntry {
  const char *name = nullptr; ///< null: this call has no such tensor
  ElementType element = ElementType::f32;
  int rank = 0;
  int64_t rows = 0, columns = 0, rowStride = 0; ///< of a vector: rows elements
  Extent extent = Extent::whole;
  Arena arena = Arena::workspace;
  Lifetime life;
  Place place = Place::lowest;
  TensorId aliasOf = kNoTensor; ///< it has no memory of its own, but begins where that tensor begins
  int64_t offset = 0;           ///< bytes from the beginning of its arena, or of that tensor
  int copies = 1; ///< of `Extent::chunk`: neighbouring chunks' rows are in memory at the same time

  int64_t bytesOfCopy() const; ///< from its first element to behind its last row; whole lines of memory
                               ///< where there are several copies
  int64_t bytes() const;       ///< of all copies
};

/// The tensors of a call: their types and shapes, where they lie, and when they exist. Plain data, made for a
/// call's sizes without any memory at hand; costing a candidate of a plan takes nothing else.
class TensorTable {
public:
  static constexpr int kCapacity = 112;

  bool has(TensorId id) const { return entries_[id].name != nullptr; }
  const TensorEntry &operator[](TensorId id) const { return entries_[id]; }

  /// Returns the entry, to be changed before `place`.
  TensorEntry &addVector(TensorId id, const char *name, ElementType element, int64_t size, Lifetime life);
  TensorEntry &addMatrix(TensorId id, const char *name, ElementType element, int64_t rows, int64_t columns,
                         int64_t rowStride, Lifetime life);
  /// A tensor that is in the caller's memory, as the caller describes it.
  TensorEntry &addCallers(TensorId id, const char *name, const TensorRef &tensor);

  /// A tensor in the memory of another one.
  TensorEntry &addAlias(TensorId id, const char *name, TensorId of);

  /// An entry that is there, to be changed before `place`.
  TensorEntry &entry(TensorId id) { return entries_[id]; }

  /// Reserves the first bytes of the borrowed memory from a phase on: values of the output are stored there.
  void reserveBorrowed(int64_t bytes, Lifetime life);

  /// Chooses the offsets, such that tensors that live at the same time do not overlap: the largest first,
  /// each at the lowest offset that is free (the highest, in `borrowed` memory of `borrowedBytes`, for
  /// `Place::highest`).
  void place(int64_t borrowedBytes);

  int64_t workspaceBytes() const { return workspaceBytes_; }
  int64_t borrowedBytes() const {
    return borrowedBytes_;
  }                                                   ///< bytes of borrowed memory that the placement needs
  bool fitsBorrowed() const { return fitsBorrowed_; } ///< false: `borrowedBytes` of `place` did not suffice
  std::string str() const;                            ///< a line for each tensor

private:
  struct Reservation {
    int64_t bytes;
    Lifetime life;
  };
  int64_t freeOffset(const TensorEntry &entry, const TensorId *placed, int count, int64_t end) const;

  std::array<TensorEntry, kCapacity> entries_ = {};
  std::array<Reservation, 2> reservations_ = {};
  int reserved_ = 0;
  int64_t workspaceBytes_ = 0, borrowedBytes_ = 0;
  bool fitsBorrowed_ = true;
};

} // namespace tilewright

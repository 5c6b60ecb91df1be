#include <algorithm>

#include "kernels/lce/label_sort.h"
#include "kernels/lce/tensors.h"

namespace tilewright::lce {

int64_t paddedStride(int64_t columns, ElementType element) {
  const int64_t line = 128 / elementBytes(element);
  const int64_t stride = roundUp(columns, line);
  return stride % (16 * line) == 0 ? stride + line : stride;
}

int64_t bytesOfE(const Scheme &scheme, int64_t rows, int64_t classes) {
  const int64_t elements = saturatingProduct(rows, paddedStride(classes, scheme.exponentials));
  return alignedBytes(saturatingProduct(elements, elementBytes(scheme.exponentials)));
}

int64_t bytesOfU(const Scheme &scheme, const Config &config, int64_t classes) {
  if (!scheme.dWeight) return 0;
  return alignedBytes(
      saturatingProduct(std::min(classes, scheme.classes), 4 * config.weightColumns(scheme, classes)));
}

int64_t bytesOfSlice(const Scheme &scheme, const Config &config, int64_t most) {
  const int64_t classes = std::min(most, scheme.classes);
  return bytesOfE(scheme, scheme.rows, classes) + bytesOfU(scheme, config, classes);
}

bool comparesAllPairs(const Scheme &scheme, const Config &config) {
  constexpr int64_t kFewOnCpu = 1024; // whose only thread takes no longer for it than for counting
  return config.weightRows(scheme) <= (scheme.tensorCores ? kFewRows : kFewOnCpu);
}

bool mayHaveLongRuns(const Scheme &scheme, const Config &config) {
  const int64_t few = scheme.tensorCores ? 16384 : 4096;
  return scheme.wantsClassGradients() && config.weightRows(scheme) > few;
}

bool hasFewRows(const Scheme &scheme, const Config &config) {
  const int64_t rows = std::min(config.chunkRows, scheme.rows);
  return scheme.tensorCores && rows > 0 && rows <= kFewRows; // without rows there is no program to do more
}

bool numbersAsGathered(const Scheme &scheme, const Config &config) {
  constexpr int64_t kFewest = 1024; // each program of a few rows reads all labels
  const bool needsNumbersBefore = scheme.terms.classWeight || scheme.isShard();
  return hasFewRows(scheme, config) && scheme.rows <= kFewest && config.chunks(scheme) == 1 &&
         !needsNumbersBefore;
}

bool reducesBesideOneHotSums(const Scheme &scheme, const Config &config) {
  const bool hasSums = scheme.dWeight && !scheme.hasSecondPass && !scheme.isShard();
  return scheme.reducesLoss() && hasSums && hasFewRows(scheme, config) && config.chunks(scheme) == 1;
}

bool scalesBesideOneHotSums(const Scheme &scheme, const Config &config) {
  return scheme.scalesInPlace && !isTransposed(scheme, config, ProductKind::dWeight);
}

bool ranksInCombine(const Scheme &scheme, const Config &config) {
  const bool isInChunk = scheme.makesClassGradientsOfChunks() && !scheme.isShard();
  // Where sums were joined a thread has a row, and would compare it with all others by itself; with a margin
  // it has no registers left.
  return hasFewRows(scheme, config) && isInChunk && !scheme.joinsSums && !scheme.terms.margin;
}

bool isTransposed(const Scheme &scheme, const Config &config, ProductKind kind) {
  return !isOfLogits(kind) && hasRoles(config[kind]) && elementBytes(scheme.operands(kind).first) == 4;
}

PartsOrder partsOrder(const Scheme &scheme, const Config &config) {
  if (scheme.isShard() || (scheme.dHidden && isTransposed(scheme, config, ProductKind::dHidden)))
    return PartsOrder::beforeWeight;
  const bool areAllRows = scheme.dHidden && config.hasTail() && config.hiddenTileRows() == 0;
  const bool isRoomFree = config.tailBytes == kMostTailBytes;
  const bool isAround =
      areAllRows && isRoomFree && scheme.tensorCores && scheme.makesClassGradientsOfChunks();
  return isAround ? PartsOrder::aroundWeight : PartsOrder::behindWeight;
}

bool sumsRunBesideHidden(const Scheme &scheme, const Config &config) {
  const PartsOrder order = partsOrder(scheme, config);
  const bool hasTiles = scheme.dHidden && scheme.tensorCores && config.hiddenTileRows() > 0;
  return order == PartsOrder::aroundWeight || (hasTiles && order == PartsOrder::behindWeight);
}

bool roundsInProduct(const Scheme &scheme, const Config &config) {
  // A tile waits for the sums that it reads, which the other warpgroup's product hides if it takes longer.
  // With chunks of 8192, 16384 and 32768 rows calls take an H200 0.5, 0.15 and 1 % less (MEASUREMENTS.md). Of
  // 1920 rows half of a dW of 128256×4096 took 0.8 ms more, where rounding it takes 0.37.
  constexpr int64_t kDeep = 8 << 10;
  const bool hasRegisters = !scheme.accumulate && !scheme.isUniformRankOne && !scheme.terms.margin;
  return hasRegisters && config.columnsInBuffer(scheme) > 0 && config.columnsInPlace(scheme) == 0 &&
         config.dWeight.roles == Schedule::WarpRoles::pingPong && config.weightRows(scheme) >= kDeep;
}

bool hasRowsOfClasses(const Scheme &scheme, const Config &config) {
  if (scheme.hasSecondPass) return true;
  return mayHaveLongRuns(scheme, config) && scheme.classes <= config.weightRows(scheme);
}

bool borrowsChunk(const Scheme &scheme, int64_t chunkRows) {
  if (!scheme.hasSecondPass || scheme.borrowedBytes == 0) return false;
  const int64_t rowBytes = saturatingProduct(scheme.rows, elementBytes(scheme.exponentials));
  const int64_t kept = scheme.borrowedBytes / (scheme.classBytes() + rowBytes);
  const int64_t rows = std::min(chunkRows, scheme.rows);
  return bytesOfE(scheme, rows, scheme.classes) <= kept * scheme.classBytes();
}

int64_t keptSlice(const Scheme &scheme, const Config &config) {
  const int64_t slice = bytesOfSlice(scheme, config, config.sliceClasses);
  const int64_t u = bytesOfU(scheme, config, config.widestSlice());
  return u <= slice ? config.widestSlice() : config.sliceClasses;
}

int64_t borrowedBegin(const Scheme &scheme, int64_t bytes) {
  const int64_t left = scheme.borrowedBytes - bytes;
  return left < 0 ? left : left / kTensorAlignment * kTensorAlignment;
}

} // namespace tilewright::lce

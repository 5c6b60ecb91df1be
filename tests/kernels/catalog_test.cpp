// Every kernel of the catalog compiles, for every type.

#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/compile.h"
#include "kernels/catalog.h"

namespace tilewright {
namespace {

TEST(Catalog, EveryKernelCompiles) {
  for (const CatalogEntry &entry : kernelCatalog())
    for (ElementType element : {ElementType::f32, ElementType::bf16, ElementType::f16}) {
      const StatusOr<Artifact> artifact =
          compile(entry.make(element), hostTarget(), entry.options(TargetKind::cpu));
      EXPECT_TRUE(artifact.ok()) << entry.name << ": " << artifact.status().message();
    }
}

TEST(Catalog, NamesAreUnique) {
  std::set<std::string> names;
  for (const CatalogEntry &entry : kernelCatalog())
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
}

TEST(Catalog, FindsByName) {
  const StatusOr<CatalogEntry> found = findKernel("row_softmax");
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->make(ElementType::bf16).name, "row_softmax");
  const StatusOr<CatalogEntry> none = findKernel("softmax");
  EXPECT_EQ(none.status().kind(), StatusKind::user);
  EXPECT_THAT(none.status().message(), testing::HasSubstr("there is no kernel 'softmax'; choose one of "));
}

/// How many of the lines stand in a loop of ce_row's body, and how many in a branch of such a loop.
std::pair<int, int> inLoopsAndBranches(const std::vector<std::string> &lines) {
  std::pair<int, int> counts;
  for (const std::string &line : lines)
    ++(line.find_first_not_of(' ') > 8 ? counts.second : counts.first);
  return counts;
}

/// The lines of a kernel's static tiles that have `part` in them.
std::vector<std::string> linesWith(const std::string &kernel, const std::string &part) {
  const StatusOr<CatalogEntry> found = findKernel(kernel);
  const StatusOr<std::string> text = emit(found->make(ElementType::bf16), hostTarget(), {}, Stage::lowered);
  EXPECT_TRUE(text.ok()) << text.status().message();
  std::vector<std::string> lines;
  std::istringstream stream(*text);
  for (std::string line; std::getline(stream, line);)
    if (line.find(part) != std::string::npos) lines.push_back(line);
  return lines;
}

// The log-softmax and the sums share one sweep over the row; the gradient is a second one. Each is three
// loops, over the row's interior, over small blocks that need no masks (cut from the block with the label, or
// behind the interior), and over the rest, and only the last compares positions with the label's. On a CPU
// the interior of a gradient's sweeps is two loops: the first one keeps exponentials, or has them and loads
// nothing. The small blocks have kept ones, too.
//
// A loop over the interior of the first sweep has two branches that load a block once more: the first block's
// maximum is found ahead, and a block far above the shift, or with a NaN, is gone over again.
TEST(CrossEntropyRow, LoadsEachLogitOnceASweep) {
  EXPECT_EQ(inLoopsAndBranches(linesWith("ce_row", "tile.load_rows %arg0")), std::pair(3, 2));
  EXPECT_EQ(linesWith("ce_row", "scf.for").size(), 3u);
  EXPECT_EQ(linesWith("ce_row", "arith.cmpi ne, ").size(), 1u);
  for (const std::string &store : linesWith("ce_row", "tile.store"))
    EXPECT_THAT(store, testing::HasSubstr(": tensor<1x1xf32>")) << "stores part of a row";
  EXPECT_EQ(inLoopsAndBranches(linesWith("ce_row_gradient", "tile.load_rows %arg0")), std::pair(6, 4));
  EXPECT_EQ(linesWith("ce_row_gradient", "scf.for").size(), 8u);
  EXPECT_EQ(linesWith("ce_row_gradient", "arith.cmpi ne, ").size(), 2u);
}

} // namespace
} // namespace tilewright

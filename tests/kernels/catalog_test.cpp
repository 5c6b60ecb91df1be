// Every kernel of the catalog compiles, for every type.

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/compile.h"
#include "kernels/catalog.h"

namespace tilewright {
namespace {

TEST(Catalog, EveryKernelCompiles) {
  for (const CatalogEntry &entry : kernelCatalog())
    for (ElementType element : {ElementType::f32, ElementType::bf16, ElementType::f16}) {
      const StatusOr<Artifact> artifact = compile(entry.make(element), hostTarget(), {});
      EXPECT_TRUE(artifact.ok()) << entry.name << ": " << artifact.status().message();
    }
}

TEST(Catalog, NamesAreUnique) {
  std::set<std::string> names;
  for (const CatalogEntry &entry : kernelCatalog())
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
}

TEST(Catalog, FindsByName) {
  const StatusOr<Kernel> kernel = findKernel("row_softmax", ElementType::bf16);
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(kernel->name, "row_softmax");
  const StatusOr<Kernel> none = findKernel("softmax", ElementType::f32);
  EXPECT_EQ(none.status().kind(), StatusKind::user);
  EXPECT_THAT(none.status().message(), testing::HasSubstr("there is no kernel 'softmax'; choose one of "));
}

} // namespace
} // namespace tilewright

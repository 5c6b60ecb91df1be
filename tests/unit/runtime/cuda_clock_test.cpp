// A GPU's clock, from a management library that is a fake.

#include "runtime/cuda/clock.h"

#include <map>

#include <gtest/gtest.h>

namespace tilewright::cuda {
namespace {

int opened = 0;

int beginFake() { return ++opened, 0; }
int endFake() { return --opened, 0; }
int findFake(const char *address, void **gpu) {
  *gpu = &opened;
  return std::string(address) == "0000:01:00.0" ? 0 : 6;
}
int clockFake(void *, int kind, unsigned *megahertz) {
  *megahertz = kind == 1 ? 1755 : 1;
  return 0;
}

/// The fake library, without the functions whose names begin with `missing`.
ClockReader::SymbolLookup library(const std::string &missing = "none") {
  const std::map<std::string, void *> functions = {
      {"nvmlInit_v2", reinterpret_cast<void *>(beginFake)},
      {"nvmlShutdown", reinterpret_cast<void *>(endFake)},
      {"nvmlDeviceGetHandleByPciBusId_v2", reinterpret_cast<void *>(findFake)},
      {"nvmlDeviceGetClockInfo", reinterpret_cast<void *>(clockFake)}};
  return [=](const char *name) {
    return std::string(name).rfind(missing, 0) == 0 ? nullptr : functions.at(name);
  };
}

TEST(CudaClock, IsTheMultiprocessors) {
  {
    const ClockReader reader("0000:01:00.0", library());
    EXPECT_EQ(reader.megahertz(), 1755u);
    EXPECT_EQ(opened, 1);
  }
  EXPECT_EQ(opened, 0) << "what was begun is ended";
}

TEST(CudaClock, IsNotKnownWhereTheLibraryDoesNotSay) {
  EXPECT_EQ(ClockReader("0000:02:00.0", library()).megahertz(), std::nullopt);
  for (const char *missing :
       {"nvml", "nvmlInit", "nvmlShutdown", "nvmlDeviceGetHandle", "nvmlDeviceGetClock"})
    EXPECT_EQ(ClockReader("0000:01:00.0", library(missing)).megahertz(), std::nullopt) << missing;
  EXPECT_EQ(opened, 0);
}

} // namespace
} // namespace tilewright::cuda

#include "runtime/cpu/processors.h"

#include <fstream>
#include <map>
#include <memory>

#include <sched.h>

namespace tilewright {
namespace {

std::string lineOf(const std::string &path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// "32768K", as the kernel writes sizes, or in M.
int64_t bytesOf(const std::string &size) {
  if (size.empty() || size[0] < '0' || size[0] > '9') return 0;
  const int64_t number = std::stoll(size.substr(0, 12));
  if (size.back() == 'K') return number << 10;
  return size.back() == 'M' ? number << 20 : number;
}

struct Cache {
  int level = 0;
  std::string sharedBy; ///< which processors
  int64_t bytes = 0;
};

Cache lastCacheOf(const std::string &processor) {
  Cache last;
  for (int number = 0;; ++number) {
    const std::string cache = processor + "/cache/index" + std::to_string(number) + "/";
    const int64_t level = bytesOf(lineOf(cache + "level"));
    if (level == 0) return last;
    if (level > last.level)
      last = {int(level), lineOf(cache + "shared_cpu_list"), bytesOf(lineOf(cache + "size"))};
  }
}

} // namespace

int64_t lastCacheBytes(const std::vector<int> &processors, const std::string &folder) {
  std::map<std::string, int64_t> caches;
  for (int processor : processors) {
    const std::string name = "/cpu" + std::to_string(processor);
    const Cache last = lastCacheOf(folder + name);
    caches[last.sharedBy.empty() ? name : last.sharedBy] = last.bytes;
  }
  int64_t bytes = 0;
  for (const auto &[sharedBy, size] : caches)
    bytes += size;
  return bytes;
}

std::vector<int> allowedProcessors() {
  std::vector<int> processors;
  // Machines with more processors than cpu_set_t's 1024 exist.
  for (int count = CPU_SETSIZE; count <= 1 << 20 && processors.empty(); count *= 4) {
    // Freed whatever happens: a vector may find no memory.
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t *)> mask(CPU_ALLOC(count),
                                                                 [](cpu_set_t *set) { CPU_FREE(set); });
    if (!mask) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(count);
    if (sched_getaffinity(0, bytes, mask.get()) == 0)
      for (int processor = 0; processor < count; ++processor)
        if (CPU_ISSET_S(processor, bytes, mask.get())) processors.push_back(processor);
  }
  return processors;
}

} // namespace tilewright

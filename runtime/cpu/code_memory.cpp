#include "runtime/cpu/code_memory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

namespace tilewright {
namespace {

Status systemRefuses(const char *what) {
  const std::string message = std::string(what) + ": " + std::strerror(errno);
  return errno == ENOMEM ? memoryError(message) : deviceError(message);
}

} // namespace

CodeMemory::~CodeMemory() {
  if (base_) munmap(base_, begin_[kParts]);
}

void CodeMemory::swap(CodeMemory &other) noexcept {
  std::swap(base_, other.base_);
  std::swap(begin_, other.begin_);
}

StatusOr<CodeMemory> CodeMemory::allocate(const std::size_t (&bytes)[kParts]) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGE_SIZE));
  CodeMemory memory;
  std::size_t end = 0;
  for (int part = 0; part < kParts; ++part) {
    memory.begin_[part] = end;
    end += (bytes[part] + page - 1) / page * page;
  }
  end = std::max(end, page);
  memory.begin_[kParts] = end;
  void *base = mmap(nullptr, end, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return systemRefuses("memory for machine code");
  memory.base_ = static_cast<char *>(base);
  return memory;
}

Status CodeMemory::protect() {
  const int protection[] = {PROT_READ | PROT_EXEC, PROT_READ};
  for (const Part which : {code, constants}) {
    const std::size_t bytes = begin_[which + 1] - begin_[which];
    if (bytes > 0 && mprotect(part(which), bytes, protection[which]) != 0)
      return systemRefuses("machine code cannot be made executable");
  }
  return {};
}

} // namespace tilewright

#include "tools/bench/address_range.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

namespace tilewright {

StatusOr<AddressRange> AddressRange::reserve(std::size_t bytes) {
  void *begin = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin == MAP_FAILED)
    return runtimeError(std::string("addresses for the tensors cannot be reserved: ") + std::strerror(errno));
  return AddressRange(begin, bytes);
}

AddressRange::AddressRange(AddressRange &&other) noexcept
    : begin_(other.begin_), bytes_(other.bytes_), taken_(other.taken_) {
  other.begin_ = nullptr;
}

AddressRange::~AddressRange() {
  if (begin_) munmap(begin_, bytes_);
}

void *AddressRange::take(std::size_t bytes) {
  void *place = begin_ + taken_;
  taken_ += (bytes + 255) / 256 * 256;
  return place;
}

} // namespace tilewright

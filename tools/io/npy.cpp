#include "tools/io/npy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "compiler/number_formats.h"

namespace tilewright {
namespace {

constexpr int64_t kBlockBytes = int64_t(1) << 20;

Status fileError(const std::string &path, const std::string &what) {
  return userError(path + ": expected a readable .npy file, found: " + what);
}

/// One element as stored, in the machine's byte order, in the low bytes.
uint64_t rawElement(const unsigned char *data, int bytes, bool bigEndian) {
  uint64_t raw = 0;
  for (int i = 0; i < bytes; ++i)
    raw |= uint64_t(data[bigEndian ? bytes - 1 - i : i]) << (8 * i);
  return raw;
}

int64_t signExtended(uint64_t raw, int bytes) {
  const int unused = 64 - 8 * bytes;
  return static_cast<int64_t>(raw << unused) >> unused;
}

double floatingValue(uint64_t raw, int bytes) {
  if (bytes == 2) return floatFromF16(static_cast<uint16_t>(raw));
  if (bytes == 4) return loadElement(ElementType::f32, &raw);
  double value = 0;
  std::memcpy(&value, &raw, sizeof(value));
  return value;
}

/// The element's value; of an integer beyond 2^53, one that rounds as it would.
double valueForRounding(uint64_t raw, const NpyHeader &header) {
  if (header.kind == NpyHeader::Kind::floating) return floatingValue(raw, header.bytes);
  if (header.kind == NpyHeader::Kind::unsignedInteger) return doubleForRounding(raw, false);
  const int64_t value = signExtended(raw, header.bytes);
  return doubleForRounding(value < 0 ? -static_cast<uint64_t>(value) : static_cast<uint64_t>(value),
                           value < 0);
}

} // namespace

NpyFile::NpyFile(NpyFile &&other) noexcept
    : path_(std::move(other.path_)), descriptor_(other.descriptor_), header_(std::move(other.header_)) {
  other.descriptor_ = -1;
}

NpyFile::~NpyFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

StatusOr<NpyFile> NpyFile::open(const std::string &path) {
  // Without O_NONBLOCK a named pipe with no writer would hang here.
  NpyFile file(path, ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.descriptor_ < 0) return fileError(path, std::strerror(errno));
  struct stat info;
  if (fstat(file.descriptor_, &info) != 0) return fileError(path, std::strerror(errno));
  if (S_ISDIR(info.st_mode)) return fileError(path, "a directory");
  if (!S_ISREG(info.st_mode)) return fileError(path, "a device, pipe or socket; save it to a file first");

  std::string start(std::min<int64_t>(kNpyHeaderLimit, info.st_size), '\0');
  TW_RETURN_IF_ERROR(file.readBytes(0, static_cast<int64_t>(start.size()), start.data()));
  StatusOr<NpyHeader> header = parseNpyHeader(start, info.st_size);
  if (!header.ok()) return header.status().in(path);
  file.header_ = *std::move(header);
  return StatusOr<NpyFile>(std::move(file));
}

Status NpyFile::readBytes(int64_t offset, int64_t bytes, void *destination) const {
  for (int64_t done = 0; done < bytes;) {
    const ssize_t got =
        pread(descriptor_, static_cast<char *>(destination) + done, bytes - done, offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return runtimeError(path_ + ": cannot be read: " + std::strerror(errno));
    if (got == 0)
      return userError(path_ + ": expected a file that stays as it is, found it cut off while reading");
    done += got;
  }
  return {};
}

/// visit(data, index of its first element, number of elements), in the order of the file; it returns a
/// Status.
template <typename Visit> Status NpyFile::forEachBlock(Visit visit) const {
  const int64_t total = header_.elements(), perBlock = kBlockBytes / header_.bytes;
  std::vector<unsigned char> block(static_cast<std::size_t>(std::min(perBlock, total) * header_.bytes));
  for (int64_t first = 0; first < total; first += perBlock) {
    const int64_t count = std::min(perBlock, total - first);
    TW_RETURN_IF_ERROR(
        readBytes(header_.dataOffset + first * header_.bytes, count * header_.bytes, block.data()));
    TW_RETURN_IF_ERROR(visit(block.data(), first, count));
  }
  return {};
}

/// Where the element that is stored at index `stored` lies in C order.
int64_t NpyFile::positionOf(int64_t stored) const {
  if (!header_.fortranOrder || header_.shape.size() < 2) return stored;
  const int64_t rows = header_.shape[0], columns = header_.shape[1];
  return stored % rows * columns + stored / rows;
}

Status NpyFile::readFloats(ElementType element, void *destination) const {
  const bool asStored = header_.kind == NpyHeader::Kind::floating && header_.bytes == 4 &&
                        !header_.bigEndian && (!header_.fortranOrder || header_.shape.size() < 2);
  if (asStored && element == ElementType::f32)
    return readBytes(header_.dataOffset, header_.elements() * 4, destination);
  const int64_t size = static_cast<int64_t>(elementBytes(element));
  return forEachBlock([&](const unsigned char *data, int64_t first, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t raw = rawElement(data + i * header_.bytes, header_.bytes, header_.bigEndian);
      storeElement(element, valueForRounding(raw, header_),
                   static_cast<char *>(destination) + positionOf(first + i) * size);
    }
    return Status();
  });
}

StatusOr<std::vector<int64_t>> NpyFile::readIntegers() const {
  if (!header_.isInteger())
    return userError(path_ + ": expected integers, found " + header_.typeName() +
                     "; convert with numpy's astype");
  const bool isUnsigned = header_.kind == NpyHeader::Kind::unsignedInteger;
  std::vector<int64_t> values(static_cast<std::size_t>(header_.elements()));
  TW_RETURN_IF_ERROR(forEachBlock([&](const unsigned char *data, int64_t first, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t raw = rawElement(data + i * header_.bytes, header_.bytes, header_.bigEndian);
      const int64_t position = positionOf(first + i);
      if (isUnsigned && raw > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
        return userError(path_ + ": expected integers below 2^63, found " + std::to_string(raw) + " in row " +
                         std::to_string(position));
      values[position] = isUnsigned ? static_cast<int64_t>(raw) : signExtended(raw, header_.bytes);
    }
    return Status();
  }));
  return values;
}

} // namespace tilewright

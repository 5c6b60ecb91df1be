#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/base/status.h"
#include "compiler/element_type.h"

namespace tilewright {

/// What an .npy file says about itself, once checked.
struct NpyHeader {
  enum class Kind { floating, signedInteger, unsignedInteger };
  Kind kind = Kind::floating;
  int bytes = 4; ///< of one element: 2, 4, 8 for floats, 1, 2, 4, 8 for integers
  bool bigEndian = false;
  bool fortranOrder = false;
  std::vector<int64_t> shape; ///< at most 2 sizes, each >= 1; none for a single number
  int64_t dataOffset = 0;     ///< bytes before the first element

  int64_t elements() const;
  bool isInteger() const { return kind != Kind::floating; }
  std::string typeName() const;  ///< "float32", "uint8", …
  std::string shapeText() const; ///< "(3, 4)", as Python writes it
};

/// Reads the header at the beginning of a file of `fileBytes` bytes; `start` is as much of the file as there
/// is, up to kNpyHeaderLimit. The data that it promises must fill the rest of the file exactly. Errors are
/// the user's.
StatusOr<NpyHeader> parseNpyHeader(std::string_view start, int64_t fileBytes);
constexpr int64_t kNpyHeaderLimit = 65536;

/// An .npy file that has been opened and whose size matches its header. Nothing of its data's size is
/// allocated here.
class NpyFile {
public:
  static StatusOr<NpyFile> open(const std::string &path);
  NpyFile(NpyFile &&other) noexcept;
  NpyFile &operator=(NpyFile &&) = delete;
  ~NpyFile();

  const std::string &path() const { return path_; }
  const NpyHeader &header() const { return header_; }

  /// All elements in C order, each rounded once to `element` (f32, bf16 or f16), to `elements()` places.
  Status readFloats(ElementType element, void *destination) const;

  /// All elements in C order of a file of integers; a user error names the element that int64 cannot hold.
  StatusOr<std::vector<int64_t>> readIntegers() const;

private:
  NpyFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  Status readBytes(int64_t offset, int64_t bytes, void *destination) const;
  template <typename Visit> Status forEachBlock(Visit visit) const;
  int64_t positionOf(int64_t stored) const;

  std::string path_;
  int descriptor_ = -1;
  NpyHeader header_;
};

/// The bytes of an .npy file's header for little-endian float32 or int32 data in C order.
std::string npyInt32Header(const std::vector<int64_t> &shape);
std::string npyFloat32Header(const std::vector<int64_t> &shape);

} // namespace tilewright

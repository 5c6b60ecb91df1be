#include <fmt/format.h>

#include <optional>

#include "tools/cli/text.h"
#include "tools/io/npy.h"

namespace tilewright {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

std::string shown(std::string_view text) { return printable(text.substr(0, 40)); }

/// What the header's Python dictionary says, before it is believed.
struct Fields {
  std::optional<std::string> descr;
  std::optional<bool> fortranOrder;
  std::optional<std::vector<int64_t>> shape;
};

/// Reads the part of Python's literals that numpy.save writes.
class Parser {
public:
  explicit Parser(std::string_view text) : text_(text) {}

  Status dictionary(Fields &fields) {
    if (!take('{')) return unexpected("{");
    while (!take('}')) {
      TW_RETURN_IF_ERROR(entry(fields));
      if (take(',')) continue;
      if (!take('}')) return unexpected("',' or '}'");
      break;
    }
    skipSpace();
    return at_ == text_.size() ? Status() : unexpected("nothing after the dictionary");
  }

private:
  Status entry(Fields &fields) {
    std::string key;
    TW_RETURN_IF_ERROR(string(key));
    if (!take(':')) return unexpected("':'");
    if (key == "descr" && !fields.descr) return descr(fields.descr.emplace());
    if (key == "fortran_order" && !fields.fortranOrder) return boolean(fields.fortranOrder.emplace());
    if (key == "shape" && !fields.shape) return tuple(fields.shape.emplace());
    return userError("expected the keys descr, fortran_order and shape once each, found '" + shown(key) +
                     "' besides");
  }

  Status descr(std::string &value) {
    skipSpace();
    if (at_ < text_.size() && text_[at_] == '[')
      return userError("expected an array of numbers, found a structured array; save its fields one by one");
    return string(value);
  }

  Status string(std::string &value) {
    skipSpace();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') return unexpected("a string");
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) return unexpected("a string that ends");
    value = std::string(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return {};
  }

  Status boolean(bool &value) {
    value = takeWord("True");
    return value || takeWord("False") ? Status() : unexpected("True or False");
  }

  Status tuple(std::vector<int64_t> &sizes) {
    if (!take('(')) return unexpected("(");
    while (!take(')')) {
      TW_RETURN_IF_ERROR(size(sizes.emplace_back()));
      const bool comma = take(',');
      if (!comma && sizes.size() == 1) return unexpected("',' (a tuple)");
      if (comma) continue;
      if (!take(')')) return unexpected("',' or ')'");
      break;
    }
    return {};
  }

  Status size(int64_t &value) {
    skipSpace();
    const bool negative = take('-');
    const std::size_t begin = at_;
    value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
      if (__builtin_mul_overflow(value, 10, &value) ||
          __builtin_add_overflow(value, text_[at_] - '0', &value))
        return userError("expected sizes below 2^63, found a larger one");
    if (at_ == begin) return unexpected("a size");
    if (negative || value == 0)
      return userError(fmt::format("expected sizes of at least 1, found {}{}", negative ? "-" : "", value));
    return {};
  }

  void skipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t'))
      ++at_;
  }
  bool take(char wanted) {
    skipSpace();
    if (at_ == text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  bool takeWord(std::string_view word) {
    skipSpace();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  Status unexpected(const std::string &wanted) const {
    const std::string found = at_ < text_.size() ? "'" + shown(text_.substr(at_, 8)) + "'" : "its end";
    return userError("expected " + wanted + " in the header, found " + found +
                     "; write the file with numpy.save");
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

Status readType(const std::string &descr, NpyHeader &header) {
  const Status refused =
      userError("expected float16, float32, float64 or integers, found elements of type '" + shown(descr) +
                "'; convert them with numpy's astype");
  if (descr.size() != 3 || std::string_view("<>=|").find(descr[0]) == std::string_view::npos) return refused;
  header.bytes = descr[2] - '0';
  header.bigEndian = descr[0] == '>' && header.bytes > 1;
  const bool isFloat = descr[1] == 'f';
  if (isFloat)
    header.kind = NpyHeader::Kind::floating;
  else if (descr[1] == 'i')
    header.kind = NpyHeader::Kind::signedInteger;
  else if (descr[1] == 'u')
    header.kind = NpyHeader::Kind::unsignedInteger;
  else
    return refused;
  const bool sizeFits =
      header.bytes == 2 || header.bytes == 4 || header.bytes == 8 || (header.bytes == 1 && !isFloat);
  const bool orderFits = descr[0] != '|' || header.bytes == 1;
  return sizeFits && orderFits ? Status() : refused;
}

/// The elements must fill the rest of the file, to the byte.
Status checkSize(const NpyHeader &header, int64_t fileBytes) {
  int64_t promised = header.bytes;
  bool overflow = false;
  for (int64_t size : header.shape)
    overflow |= __builtin_mul_overflow(promised, size, &promised);
  const int64_t present = fileBytes - header.dataOffset;
  if (!overflow && promised == present) return {};
  const char *more = overflow || promised > present ? "it is cut off or its header is wrong"
                                                    : "something follows the array or its header is wrong";
  return userError(
      fmt::format("expected {} bytes of data for {} of shape {}, found {}; {}: write it with numpy.save",
                  overflow ? "more than 2^63" : std::to_string(promised), header.typeName(),
                  header.shapeText(), present, more));
}

/// Where the dictionary lies: [begin, begin + size) of the file.
Status locateDictionary(std::string_view start, int64_t fileBytes, int64_t &begin, int64_t &size) {
  if (start.substr(0, kMagic.size()) != kMagic)
    return userError(
        "expected a NumPy .npy file, found one that does not begin with \\x93NUMPY; write it with "
        "numpy.save");
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(start[i]); };
  const int version = start.size() > 6 ? byte(6) : 0;
  begin = version == 1 ? 10 : 12;
  if (static_cast<int64_t>(start.size()) < begin)
    return userError(
        fmt::format("expected an .npy header, found a file of {} bytes; it is cut off", fileBytes));
  if (version < 1 || version > 3 || byte(7) != 0)
    return userError(fmt::format("expected .npy format 1.0, 2.0 or 3.0, found {}.{}", version, byte(7)));
  size = byte(8) | byte(9) << 8;
  if (version > 1) size |= static_cast<int64_t>(byte(10)) << 16 | static_cast<int64_t>(byte(11)) << 24;
  if (begin + size > kNpyHeaderLimit)
    return userError(fmt::format("expected an .npy header of at most {} bytes, found one of {}",
                                 kNpyHeaderLimit, begin + size));
  if (begin + size > static_cast<int64_t>(start.size()))
    return userError(fmt::format("expected an .npy header of {} bytes, found a file of {}; it is cut off",
                                 begin + size, fileBytes));
  return {};
}

} // namespace

int64_t NpyHeader::elements() const {
  int64_t product = 1;
  for (int64_t size : shape)
    product *= size;
  return product;
}

std::string NpyHeader::typeName() const {
  const char *stem = kind == Kind::floating ? "float" : kind == Kind::signedInteger ? "int" : "uint";
  return stem + std::to_string(8 * bytes);
}

std::string NpyHeader::shapeText() const {
  if (shape.size() == 1) return fmt::format("({},)", shape[0]);
  return fmt::format("({})", fmt::join(shape, ", "));
}

StatusOr<NpyHeader> parseNpyHeader(std::string_view start, int64_t fileBytes) {
  int64_t begin = 0, size = 0;
  TW_RETURN_IF_ERROR(locateDictionary(start, fileBytes, begin, size));
  Fields fields;
  TW_RETURN_IF_ERROR(Parser(start.substr(begin, size)).dictionary(fields));
  if (!fields.descr || !fields.fortranOrder || !fields.shape)
    return userError(
        "expected the keys descr, fortran_order and shape in the header, found some of them missing");

  NpyHeader header;
  TW_RETURN_IF_ERROR(readType(*fields.descr, header));
  header.fortranOrder = *fields.fortranOrder;
  header.shape = *fields.shape;
  header.dataOffset = begin + size;
  if (header.shape.size() > 2)
    return userError(fmt::format("expected at most 2 dimensions, found {}: {}; reshape the array",
                                 header.shape.size(), header.shapeText()));
  TW_RETURN_IF_ERROR(checkSize(header, fileBytes));
  return header;
}

namespace {

std::string headerOf(const char *descr, const std::vector<int64_t> &shape) {
  NpyHeader header;
  header.shape = shape;
  std::string dictionary = "{'descr': '" + std::string(descr) +
                           "', 'fortran_order': False, 'shape': " + header.shapeText() + ", }";
  constexpr std::size_t prefix = 10, alignment = 64; // numpy pads so that the data is aligned
  dictionary.append(alignment - (prefix + dictionary.size() + 1) % alignment, ' ');
  dictionary += '\n';
  std::string bytes(kMagic);
  bytes += {'\x01', '\x00', static_cast<char>(dictionary.size() & 0xff),
            static_cast<char>(dictionary.size() >> 8)};
  return bytes + dictionary;
}

} // namespace

std::string npyFloat32Header(const std::vector<int64_t> &shape) { return headerOf("<f4", shape); }
std::string npyInt32Header(const std::vector<int64_t> &shape) { return headerOf("<i4", shape); }

} // namespace tilewright

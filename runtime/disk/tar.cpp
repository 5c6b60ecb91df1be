#include "runtime/disk/tar.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace tilewright {
namespace {

constexpr std::size_t kBlock = 512;

/// POSIX.1-1988, "ustar". Numbers are octal digits that end with NUL.
struct Header {
  char name[100];
  char mode[8];
  char uid[8];
  char gid[8];
  char size[12];
  char mtime[12];
  char checksum[8];
  char type;
  char linkName[100];
  char magic[8];
  char userName[32];
  char groupName[32];
  char deviceMajor[8];
  char deviceMinor[8];
  char prefix[155];
  char padding[12];
};
static_assert(sizeof(Header) == kBlock);

template <std::size_t n> void putOctal(char (&field)[n], std::size_t value) {
  for (std::size_t digit = n - 1; digit-- > 0; value >>= 3)
    field[digit] = '0' + (value & 7);
  field[n - 1] = '\0';
}

template <std::size_t n> bool getOctal(const char (&field)[n], std::size_t &value) {
  value = 0;
  std::size_t digit = 0;
  for (; digit < n && field[digit] >= '0' && field[digit] <= '7'; ++digit)
    value = value << 3 | (field[digit] - '0');
  return digit > 0 && (digit == n || field[digit] == '\0' || field[digit] == ' ');
}

/// The sum of the header's bytes, its own field read as blanks.
std::size_t checksumOf(Header header) {
  std::memset(header.checksum, ' ', sizeof header.checksum);
  const auto *bytes = reinterpret_cast<const unsigned char *>(&header);
  std::size_t sum = 0;
  for (std::size_t i = 0; i < kBlock; ++i)
    sum += bytes[i];
  return sum;
}

Header headerFor(const TarMember &member) {
  Header header{};
  member.name.copy(header.name, sizeof header.name);
  putOctal(header.mode, 0600);
  putOctal(header.uid, 0);
  putOctal(header.gid, 0);
  putOctal(header.size, member.bytes.size());
  putOctal(header.mtime, 0);
  header.type = '0';
  std::memcpy(header.magic, "ustar\00000", 8);
  putOctal(header.checksum, checksumOf(header));
  return header;
}

Status broken(std::size_t offset, const std::string &what) {
  return userError("not an archive of kernels: at byte " + std::to_string(offset) + " " + what);
}

/// Checks the header at `offset` and sets the size of its contents.
Status readHeader(const std::string &bytes, std::size_t offset, Header &header, std::size_t &size) {
  std::memcpy(&header, bytes.data() + offset, kBlock);
  std::size_t checksum = 0;
  if (!getOctal(header.checksum, checksum) || checksum != checksumOf(header))
    return broken(offset, "there is no tar header with a right checksum");
  if (std::memcmp(header.magic, "ustar", 5) != 0 || header.prefix[0] != '\0')
    return broken(offset, "the header is not plain ustar");
  if (!getOctal(header.size, size) || size > bytes.size() - offset - kBlock)
    return broken(offset, "the file ends before the member does");
  if (header.type != '0' && header.type != '\0' && header.type != '5')
    return broken(offset, "the member is neither a plain file nor a folder");
  return {};
}

} // namespace

std::string writeTar(const std::vector<TarMember> &members) {
  std::string out;
  for (const TarMember &member : members) {
    Header header = headerFor(member);
    out.append(reinterpret_cast<const char *>(&header), kBlock);
    out += member.bytes;
    out.append((kBlock - member.bytes.size() % kBlock) % kBlock, '\0');
  }
  return out.append(2 * kBlock, '\0');
}

StatusOr<std::vector<TarMember>> readTar(const std::string &bytes) {
  std::vector<TarMember> members;
  for (std::size_t offset = 0;;) {
    if (bytes.size() < offset + kBlock) return broken(offset, "the file ends before its end mark");
    if (bytes[offset] == '\0') {
      bool zeros = std::all_of(bytes.begin() + offset, bytes.end(), [](char c) { return c == '\0'; });
      return zeros ? StatusOr<std::vector<TarMember>>(std::move(members))
                   : broken(offset, "there is more after the end mark");
    }
    Header header;
    std::size_t size = 0;
    TW_RETURN_IF_ERROR(readHeader(bytes, offset, header, size));
    offset += kBlock;
    if (header.type != '5')
      members.push_back(
          {std::string(header.name, strnlen(header.name, sizeof header.name)), bytes.substr(offset, size)});
    offset += (size + kBlock - 1) / kBlock * kBlock;
  }
}

} // namespace tilewright

#include "runtime/disk/bundle_file.h"

#include <string_view>

#include "compiler/base/hash.h"
#include "compiler/base/memory_reserve.h"
#include "compiler/base/printable.h"
#include "runtime/disk/artifact_json.h"

namespace tilewright {
namespace {

using nlohmann::json;

/// Changes when a bundle's bytes mean something else than before.
constexpr std::string_view kFormat = "tilewright bundle 1\n";
constexpr std::size_t kDigestBytes = 64, kLengthBytes = 16; ///< hex digits both
constexpr std::size_t kHeaderBytes = kFormat.size() + kDigestBytes + 1 + kLengthBytes + 1;

std::string hexadecimal(std::size_t number) {
  std::string text(kLengthBytes, '0');
  for (std::size_t i = kLengthBytes; i-- > 0; number /= 16)
    text[i] = "0123456789abcdef"[number % 16];
  return text;
}

json encodeDevice(const DeviceInfo &device) {
  return {{"name", device.name},
          {"memoryBytes", device.memoryBytes},
          {"units", device.units},
          {"sharedBytes", device.sharedBytes},
          {"cacheBytes", device.cacheBytes},
          {"warpgroups", device.warpgroups}};
}

DeviceInfo decodeDevice(const json &value) {
  DeviceInfo device;
  device.name = value.at("name");
  device.memoryBytes = value.at("memoryBytes");
  device.units = value.at("units");
  device.sharedBytes = value.at("sharedBytes");
  device.cacheBytes = value.at("cacheBytes");
  device.warpgroups = value.at("warpgroups");
  return device;
}

std::string encode(const BundleContents &contents) {
  json kernels = json::array();
  std::string code;
  for (const auto &[key, artifact] : contents.kernels) {
    kernels.push_back({{"name", key.name},
                       {"specialisation", key.specialisation},
                       {"options", key.options},
                       {"artifact", encodeArtifact(artifact)},
                       {"binary", artifact.binary.size()},
                       {"assembly", artifact.assembly.size()}});
    code += artifact.binary + artifact.assembly;
  }
  const std::string index = json{
      {"sources", contents.sources},
      {"target", contents.target},
      {"device", encodeDevice(contents.device)},
      {"covers", contents.covers},
      {"kernels", kernels}}.dump();
  const std::string rest = hexadecimal(index.size()) + "\n" + index + code;
  return std::string(kFormat) + sha256(rest) + "\n" + rest;
}

/// Takes bytes from the front.
class Reader {
public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  std::string take(std::size_t count) {
    if (count > bytes_.size()) throw std::out_of_range("its code is shorter than its index says");
    const std::string taken(bytes_.substr(0, count));
    bytes_.remove_prefix(count);
    return taken;
  }
  bool isAtEnd() const { return bytes_.empty(); }

private:
  std::string_view bytes_;
};

/// Throws what nlohmann::json throws where the index is none.
StatusOr<BundleContents> decode(Reader reader) {
  const std::size_t length = std::stoull(reader.take(kLengthBytes), nullptr, 16);
  reader.take(1);
  const json index = json::parse(reader.take(length));
  BundleContents contents;
  contents.sources = index.at("sources");
  contents.target = index.at("target");
  contents.device = decodeDevice(index.at("device"));
  contents.covers = index.at("covers").get<std::vector<std::string>>();
  for (const json &kernel : index.at("kernels")) {
    BundledKernel bundled{{kernel.at("name"), kernel.at("specialisation"), kernel.at("options")},
                          decodeArtifact(kernel.at("artifact"))};
    bundled.artifact.binary = reader.take(kernel.at("binary"));
    bundled.artifact.assembly = reader.take(kernel.at("assembly"));
    if (const Status ranges = checkRanges(bundled.artifact); !ranges.ok()) return userError(ranges.message());
    contents.kernels.push_back(std::move(bundled));
  }
  if (!reader.isAtEnd()) return userError("its code is longer than its index says");
  return contents;
}

} // namespace

StatusOr<std::string> encodeBundle(const BundleContents &contents) {
  UsesReserve forJson;
  try {
    return encode(contents);
  } catch (const json::exception &error) {
    return runtimeError(std::string("the bundle's index cannot be written: ") + error.what());
  }
}

StatusOr<BundleContents> decodeBundle(const std::string &file) {
  UsesReserve forJson;
  const std::string_view all = file;
  if (all.substr(0, kFormat.size()) != kFormat)
    return userError("expected a bundle of this version's format, found something else");
  if (all.size() < kHeaderBytes) return userError("it is cut off");
  const std::string_view digest = all.substr(kFormat.size(), kDigestBytes + 1);
  const std::string_view rest = all.substr(kFormat.size() + kDigestBytes + 1);
  if (digest != sha256(rest) + "\n") return userError("it is damaged: its SHA-256 is not what it says");
  try {
    return decode(Reader(rest));
  } catch (const std::bad_alloc &) {
    throw;
  } catch (const std::exception &error) {
    return userError("its index cannot be read: " + printable(error.what()));
  }
}

} // namespace tilewright

#pragma once

#include <functional>
#include <optional>
#include <string>

namespace tilewright::cuda {

/// How fast a GPU's multiprocessors run, from NVIDIA's management library, which stays open meanwhile.
class ClockReader {
public:
  /// Finds a function of the library by its name; null where the library does not have it. Keeps the library
  /// loaded.
  using SymbolLookup = std::function<void *(const char *name)>;

  /// Of the GPU at this PCI address.
  explicit ClockReader(const std::string &pciAddress) : ClockReader(pciAddress, installedLibrary()) {}
  ClockReader(const std::string &pciAddress, SymbolLookup symbol);
  ~ClockReader();
  ClockReader(const ClockReader &) = delete;
  ClockReader &operator=(const ClockReader &) = delete;

  /// At the moment; nothing when the library does not say.
  std::optional<unsigned> megahertz() const;

private:
  using Gpu = struct nvmlDevice_st *;

  static SymbolLookup installedLibrary();
  template <typename Signature> Signature *function(const char *name) const {
    return reinterpret_cast<Signature *>(symbol_(name));
  }

  const SymbolLookup symbol_;
  Gpu gpu_ = nullptr;      ///< null: not known to the library
  int (*end_)() = nullptr; ///< null: the library is not in use
  int (*clockOf_)(Gpu, int kind, unsigned *megahertz) = nullptr;
};

} // namespace tilewright::cuda

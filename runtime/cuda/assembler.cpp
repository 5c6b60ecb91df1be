#include "runtime/cuda/assembler.h"

#include <array>
#include <cstdint>

#include "runtime/cuda/handles.h"

namespace tilewright::cuda {
namespace {

/// The assembler writes here as long as its link state lives.
struct Messages {
  std::array<char, 8192> errors{}, notes{};
};

void *asOptionValue(std::size_t value) { return reinterpret_cast<void *>(static_cast<uintptr_t>(value)); }

Status assemblerError(const std::string &kernel, const Status &cause, const Messages &messages) {
  std::string text = messages.errors.data();
  while (!text.empty() && text.back() == '\n')
    text.pop_back();
  if (text.empty()) return cause.in("PTX of kernel '" + kernel + "'");
  return compileError("PTX of kernel '" + kernel + "' is refused by the driver's assembler (" +
                      cause.message() + "):\n" + text);
}

StatusOr<std::string> link(const std::shared_ptr<const Context> &context, const std::string &kernel,
                           const std::string &ptx, Messages &messages) {
  const Driver &driver = context->driver();
  std::array<CUjit_option, 4> options = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                                         CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES};
  std::array<void *, 4> values = {messages.errors.data(), asOptionValue(messages.errors.size()),
                                  messages.notes.data(), asOptionValue(messages.notes.size())};
  CUlinkState created = nullptr;
  TW_RETURN_IF_ERROR(TW_CUDA(driver, cuLinkCreate, options.size(), options.data(), values.data(), &created));
  LinkState state(context, created);
  // The size counts the text's closing zero.
  TW_RETURN_IF_ERROR(TW_CUDA(driver, cuLinkAddData, state.get(), CU_JIT_INPUT_PTX,
                             const_cast<char *>(ptx.c_str()), ptx.size() + 1, kernel.c_str(), 0, nullptr,
                             nullptr));
  void *cubin = nullptr;
  std::size_t bytes = 0;
  TW_RETURN_IF_ERROR(TW_CUDA(driver, cuLinkComplete, state.get(), &cubin, &bytes));
  return std::string(static_cast<const char *>(cubin), bytes);
}

} // namespace

bool isLoadedAsPtx(const Artifact &artifact) { return artifact.persistent; }

StatusOr<std::string> assemblePtx(const std::shared_ptr<const Context> &context, const std::string &kernel,
                                  const std::string &ptx) {
  CurrentContext current(*context);
  TW_RETURN_IF_ERROR(current.status());
  OutsideCapture outside(context->driver());
  Messages messages;
  StatusOr<std::string> cubin = link(context, kernel, ptx, messages);
  if (!cubin.ok()) return assemblerError(kernel, cubin.status(), messages);
  if (messages.notes[0]) logDebug("PTX of kernel '" + kernel + "': " + messages.notes.data());
  return cubin;
}

} // namespace tilewright::cuda

#include "runtime/cpu/orc_loader.h"

#include "llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h"
#include "llvm/ExecutionEngine/Orc/Core.h"
#include "llvm/ExecutionEngine/Orc/ExecutionUtils.h"
#include "llvm/ExecutionEngine/Orc/ExecutorProcessControl.h"
#include "llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/TargetParser/Host.h"

namespace tilewright {
namespace {

using namespace llvm;
using namespace llvm::orc;

Status loadError(const std::string &symbol, const std::string &cause) {
  return runtimeError("machine code of kernel '" + symbol + "' cannot be loaded: " + cause);
}

Status loadError(const std::string &symbol, Error error) {
  return loadError(symbol, toString(std::move(error)));
}

/// The linker takes an object's word for what it is, and would make code of another machine executable.
Status checkMachine(const std::string &object, const std::string &symbol) {
  auto file = object::ObjectFile::createObjectFile(MemoryBufferRef(object, symbol));
  if (!file) return loadError(symbol, file.takeError());
  const Triple host(sys::getProcessTriple());
  if ((*file)->getArch() != host.getArch() || !(*file)->isELF() || !(*file)->isRelocatableObject())
    return loadError(symbol, "expected a relocatable ELF object for " + host.getArchName().str());
  return {};
}

} // namespace

/// ORC's parts in the order in which they depend on each other. One session an object: their failures and
/// lifetimes have nothing to do with each other.
struct LoadedObject::Session {
  explicit Session(std::unique_ptr<ExecutorProcessControl> process)
      : session(std::move(process)), layer(session, session.getExecutorProcessControl().getMemMgr()),
        library(session.createBareJITDylib("kernel")) {
    // The default prints; what went wrong belongs into the Status.
    session.setErrorReporter([this](Error error) { problems += toString(std::move(error)) + "; "; });
  }
  ~Session() { consumeError(session.endSession()); }

  std::string problems;
  ExecutionSession session;
  ObjectLinkingLayer layer;
  JITDylib &library;
};

LoadedObject::LoadedObject(std::unique_ptr<Session> session) : session_(std::move(session)) {}
LoadedObject::~LoadedObject() = default;

StatusOr<std::unique_ptr<LoadedObject>> LoadedObject::load(const std::string &object,
                                                           const std::string &symbol) {
  TW_RETURN_IF_ERROR(checkMachine(object, symbol));
  auto process = SelfExecutorProcessControl::Create(nullptr, std::make_unique<InPlaceTaskDispatcher>());
  if (!process) return loadError(symbol, process.takeError());
  auto session = std::make_unique<Session>(std::move(*process));

  auto processSymbols = DynamicLibrarySearchGenerator::GetForCurrentProcess(/*GlobalPrefix=*/'\0');
  if (!processSymbols) return loadError(symbol, processSymbols.takeError());
  session->library.addGenerator(std::move(*processSymbols));

  if (Error error = session->layer.add(session->library, MemoryBuffer::getMemBufferCopy(object, symbol)))
    return loadError(symbol, std::move(error));
  Expected<ExecutorSymbolDef> entry = session->session.lookup({&session->library}, symbol);
  if (!entry) return loadError(symbol, session->problems + toString(entry.takeError()));

  std::unique_ptr<LoadedObject> loaded(new LoadedObject(std::move(session)));
  loaded->entry_ = entry->getAddress().toPtr<void *>();
  return loaded;
}

} // namespace tilewright

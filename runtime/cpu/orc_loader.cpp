#include "runtime/cpu/orc_loader.h"

#include "llvm/BinaryFormat/ELF.h"
#include "llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h"
#include "llvm/ExecutionEngine/Orc/Core.h"
#include "llvm/ExecutionEngine/Orc/ExecutionUtils.h"
#include "llvm/ExecutionEngine/Orc/ExecutorProcessControl.h"
#include "llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h"
#include "llvm/Object/ELF.h"
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

/// The linker takes it on trust that a relocation lies inside its section, and writes there. (ELFFile's
/// functions return errors; those of ObjectFile end the process.)
Error checkRelocations(const std::string &object) {
  Expected<object::ELF64LEFile> file = object::ELF64LEFile::create(object);
  if (!file) return file.takeError();
  auto sections = file->sections();
  if (!sections) return sections.takeError();
  for (const auto &section : *sections) {
    if (section.sh_type != ELF::SHT_RELA) continue;
    auto target = file->getSection(section.sh_info);
    if (!target) return target.takeError();
    auto relocations = file->relas(section);
    if (!relocations) return relocations.takeError();
    for (const auto &relocation : *relocations) {
      const uint64_t bytes = relocation.getType(/*isMips64EL=*/false) == ELF::R_X86_64_64 ? 8 : 4;
      if ((*target)->sh_size < bytes || relocation.r_offset > (*target)->sh_size - bytes)
        return createStringError("a relocation lies outside its section");
    }
  }
  return Error::success();
}

/// What the linker does not check itself. It would also make code of another machine executable.
Status checkObject(const std::string &object, const std::string &symbol) {
  auto file = object::ObjectFile::createObjectFile(MemoryBufferRef(object, symbol));
  if (!file) return loadError(symbol, file.takeError());
  const Triple host(sys::getProcessTriple());
  if ((*file)->getArch() != host.getArch() || !(*file)->isELF() || !(*file)->isRelocatableObject())
    return loadError(symbol, "expected a relocatable ELF object for " + host.getArchName().str());
  if (Error error = checkRelocations(object)) return loadError(symbol, std::move(error));
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
  TW_RETURN_IF_ERROR(checkObject(object, symbol));
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

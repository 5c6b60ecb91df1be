#include "tests/support/amx_emulator.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <regex>

#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"

namespace tilewright::test {
namespace {

constexpr int kTiles = 8, kRows = 16, kRowBytes = 64;

/// Eight registers, each of 16 rows of 64 bytes; a thread has its own.
struct Tiles {
  bool configured = false;
  alignas(64) unsigned char bytes[kTiles][kRows][kRowBytes];
  int64_t products = 0;
};
thread_local Tiles tiles;

void demand(bool condition, const char *what) {
  if (condition) return;
  std::fprintf(stderr, "AMX emulator: %s\n", what);
  std::abort();
}

void demandTiles(std::initializer_list<int8_t> numbers) {
  demand(tiles.configured, "a tile register is used that is not configured");
  for (const int8_t number : numbers)
    demand(number >= 0 && number < kTiles, "there are 8 tile registers");
}

/// Only the configuration in which every register is as large as it can be.
void loadConfiguration(const unsigned char *words) {
  demand(words[0] == 1 && words[1] == 0, "expected palette 1 and the start row 0");
  for (int tile = 0; tile < kTiles; ++tile)
    demand(words[16 + 2 * tile] == kRowBytes && words[17 + 2 * tile] == 0 && words[48 + tile] == kRows,
           "expected tiles of 16 rows of 64 bytes");
  tiles.configured = true;
  std::memset(tiles.bytes, 0, sizeof(tiles.bytes));
}
void release() { tiles.configured = false; }

void zero(int8_t tile) {
  demandTiles({tile});
  std::memset(tiles.bytes[tile], 0, sizeof(tiles.bytes[tile]));
}
void load(int8_t tile, const unsigned char *from, int64_t stride) {
  demandTiles({tile});
  for (int row = 0; row < kRows; ++row)
    std::memcpy(tiles.bytes[tile][row], from + row * stride, kRowBytes);
}
void store(int8_t tile, unsigned char *to, int64_t stride) {
  demandTiles({tile});
  for (int row = 0; row < kRows; ++row)
    std::memcpy(to + row * stride, tiles.bytes[tile][row], kRowBytes);
}

float widened(uint16_t bf16) {
  const uint32_t bits = uint32_t(bf16) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

/// sums[m, n] += a[m, 2k]·b[k, 2n] + a[m, 2k+1]·b[k, 2n+1]
void multiply(int8_t sums, int8_t a, int8_t b) {
  demandTiles({sums, a, b});
  demand(sums != a && sums != b && a != b, "a product needs three different registers");
  ++tiles.products;
  for (int m = 0; m < kRows; ++m) {
    float row[16];
    std::memcpy(row, tiles.bytes[sums][m], sizeof(row));
    for (int k = 0; k < 32; ++k)
      for (int n = 0; n < 16; ++n) {
        uint16_t left, right;
        std::memcpy(&left, tiles.bytes[a][m] + 2 * k, 2);
        std::memcpy(&right, tiles.bytes[b][k / 2] + 4 * n + 2 * (k % 2), 2);
        row[n] += widened(left) * widened(right);
      }
    std::memcpy(tiles.bytes[sums][m], row, sizeof(row));
  }
}

template <typename Function> std::string addressOf(Function *function) {
  return "inttoptr (i64 " + std::to_string(reinterpret_cast<int64_t>(function)) + " to ptr)";
}

/// Calls of the instructions become calls of the functions above; nothing is for the target any more.
std::string withCalls(std::string text) {
  const std::pair<const char *, std::string> functions[] = {{"ldtilecfg", addressOf(loadConfiguration)},
                                                            {"tilerelease", addressOf(release)},
                                                            {"tilezero", addressOf(zero)},
                                                            {"tileloadd64", addressOf(load)},
                                                            {"tilestored64", addressOf(store)},
                                                            {"tdpbf16ps", addressOf(multiply)}};
  for (const auto &[name, function] : functions)
    text = std::regex_replace(text, std::regex(std::string("call void @llvm\\.x86\\.") + name + "\\("),
                              "call void " + function + "(");
  return std::regex_replace(text, std::regex("\"target-(cpu|features)\"=\"[^\"]*\""), "");
}

std::string objectOf(const std::string &text) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  llvm::LLVMContext context;
  llvm::SMDiagnostic parsed;
  const std::unique_ptr<llvm::Module> module = llvm::parseAssemblyString(text, parsed, context);
  demand(module != nullptr, parsed.getMessage().str().c_str());
  std::string triple = llvm::sys::getProcessTriple(), error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  demand(target != nullptr, error.c_str());
  const std::unique_ptr<llvm::TargetMachine> machine(
      target->createTargetMachine(triple, "x86-64", "", llvm::TargetOptions(), llvm::Reloc::PIC_));
  llvm::SmallString<0> object;
  llvm::raw_svector_ostream stream(object);
  llvm::legacy::PassManager codegen;
  demand(!machine->addPassesToEmitFile(codegen, stream, nullptr, llvm::CodeGenFileType::ObjectFile),
         "no object can be written");
  codegen.run(*module);
  return std::string(object);
}

} // namespace

StatusOr<Artifact> compileWithEmulatedTiles(const Kernel &kernel, const Target &target) {
  TW_ASSIGN_OR_RETURN(Artifact artifact, compile(kernel, target, {}));
  TW_ASSIGN_OR_RETURN(const std::string text, emit(kernel, target, {}, Stage::llvm));
  artifact.binary = objectOf(withCalls(text));
  return artifact;
}

int64_t emulatedProducts() { return tiles.products; }

} // namespace tilewright::test

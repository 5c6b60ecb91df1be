#include "runtime/cpu/object_loader.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <dlfcn.h>
#include <elf.h>
#include <emmintrin.h>

#include "compiler/base/integers.h"
#include "compiler/number_formats.h"

namespace tilewright {
namespace {

constexpr uint64_t kMostBytes = uint64_t(1) << 29;    ///< of a part in memory: relocations reach 2 GiB
constexpr uint64_t kMostAlignment = 4096;             ///< of a section: parts begin with pages
constexpr std::size_t kStubBytes = 8, kSlotBytes = 8; ///< of a function of the process

// What LLVM calls on processors without instructions for f16, which pass a half in a vector register. The
// compiler's library has both, too, but not in all processes: not where it is linked statically, and not
// before GCC 12.
float widenHalf(__m128i half) { return floatFromF16(static_cast<uint16_t>(_mm_cvtsi128_si32(half))); }
__m128i roundToHalf(float x) { return _mm_cvtsi32_si128(f16FromDouble(x)); }

void *functionOfProcess(const std::string &name) {
  if (name == "__extendhfsf2") return reinterpret_cast<void *>(widenHalf);
  if (name == "__truncsfhf2") return reinterpret_cast<void *>(roundToHalf);
  return dlsym(RTLD_DEFAULT, name.c_str());
}

/// Where a section of the object lies in memory.
struct Place {
  bool isLoaded = false;
  CodeMemory::Part part = CodeMemory::data;
  uint64_t offset = 0; ///< in the part
};

/// Links one object. Nothing that it says is taken on trust: each offset, index and size is checked before it
/// is used. Functions of the process may be farther away than a call reaches, so each gets a stub beside the
/// code, which jumps to the address in the function's slot beside the constants.
class Linker {
public:
  explicit Linker(std::string_view object) : object_(object) {}

  Status link(const std::string &symbol) {
    TW_RETURN_IF_ERROR(readHeader());
    TW_RETURN_IF_ERROR(readSymbols());
    TW_RETURN_IF_ERROR(layOut());
    TW_ASSIGN_OR_RETURN(memory_, CodeMemory::allocate(bytes_));
    copySections();
    TW_RETURN_IF_ERROR(makeStubs());
    for (const Elf64_Shdr &section : sections_)
      TW_RETURN_IF_ERROR(relocate(section));
    TW_RETURN_IF_ERROR(findEntry(symbol));
    return memory_.protect();
  }

  CodeMemory takeMemory() { return std::move(memory_); }
  void *entry() const { return entry_; }

private:
  bool isInside(uint64_t offset, uint64_t bytes) const {
    return offset <= object_.size() && bytes <= object_.size() - offset;
  }

  /// So many T from a place in the object, which need not be aligned.
  template <typename T> StatusOr<std::vector<T>> table(uint64_t offset, uint64_t bytes, const char *what) {
    if (bytes % sizeof(T) != 0 || !isInside(offset, bytes))
      return deviceError(std::string("its ") + what + " lies outside the file");
    std::vector<T> entries(bytes / sizeof(T));
    if (bytes > 0) std::memcpy(entries.data(), object_.data() + offset, bytes);
    return entries;
  }

  Status readHeader() {
    Elf64_Ehdr header;
    if (!isInside(0, sizeof header)) return deviceError("it is too short for an ELF object");
    std::memcpy(&header, object_.data(), sizeof header);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_type != ET_REL || header.e_machine != EM_X86_64 ||
        header.e_shentsize != sizeof(Elf64_Shdr))
      return deviceError("expected a relocatable ELF object for x86_64");
    TW_ASSIGN_OR_RETURN(sections_, table<Elf64_Shdr>(header.e_shoff, header.e_shnum * sizeof(Elf64_Shdr),
                                                     "table of sections"));
    return {};
  }

  Status readSymbols() {
    for (const Elf64_Shdr &section : sections_) {
      if (section.sh_type != SHT_SYMTAB) continue;
      if (!symbols_.empty()) return deviceError("it has several tables of symbols");
      TW_ASSIGN_OR_RETURN(symbols_, table<Elf64_Sym>(section.sh_offset, section.sh_size, "table of symbols"));
      if (section.sh_link >= sections_.size()) return deviceError("its symbols have no names");
      const Elf64_Shdr &names = sections_[section.sh_link];
      if (names.sh_type != SHT_STRTAB || !isInside(names.sh_offset, names.sh_size))
        return deviceError("its symbols' names lie outside the file");
      names_ = object_.substr(names.sh_offset, names.sh_size);
    }
    return {};
  }

  StatusOr<std::string> nameOf(const Elf64_Sym &symbol) const {
    const std::size_t end =
        symbol.st_name < names_.size() ? names_.find('\0', symbol.st_name) : std::string_view::npos;
    if (end == std::string_view::npos) return deviceError("a symbol's name lies outside the file");
    return std::string(names_.substr(symbol.st_name, end - symbol.st_name));
  }

  static bool isFunctionOfProcess(const Elf64_Sym &symbol) {
    return symbol.st_shndx == SHN_UNDEF && symbol.st_name != 0;
  }

  Status layOut() {
    for (const Elf64_Shdr &section : sections_) {
      Place place;
      if (section.sh_flags & SHF_ALLOC) {
        TW_RETURN_IF_ERROR(checkLoaded(section));
        place.isLoaded = true;
        place.part = section.sh_flags & SHF_EXECINSTR ? CodeMemory::code
                     : section.sh_flags & SHF_WRITE   ? CodeMemory::data
                                                      : CodeMemory::constants;
        std::size_t &end = bytes_[place.part];
        place.offset = roundUp(end, std::max<uint64_t>(1, section.sh_addralign));
        end = place.offset + section.sh_size;
        if (end > kMostBytes) return deviceError("its sections are too large");
      }
      places_.push_back(place);
    }
    std::size_t functions = 0;
    for (const Elf64_Sym &symbol : symbols_)
      functions += isFunctionOfProcess(symbol);
    stubs_ = roundUp(bytes_[CodeMemory::code], kStubBytes);
    bytes_[CodeMemory::code] = stubs_ + functions * kStubBytes;
    slots_ = roundUp(bytes_[CodeMemory::constants], kSlotBytes);
    bytes_[CodeMemory::constants] = slots_ + functions * kSlotBytes;
    return {};
  }

  Status checkLoaded(const Elf64_Shdr &section) const {
    const uint64_t alignment = section.sh_addralign;
    if (alignment > kMostAlignment || (alignment & (alignment - 1)))
      return deviceError("a section's alignment is out of range");
    if (section.sh_flags & SHF_TLS) return deviceError("it has variables of threads");
    if (section.sh_size > kMostBytes) return deviceError("its sections are too large");
    if (section.sh_type != SHT_NOBITS && !isInside(section.sh_offset, section.sh_size))
      return deviceError("a section lies outside the file");
    return {};
  }

  char *addressOf(const Place &place) const { return memory_.part(place.part) + place.offset; }

  void copySections() {
    for (std::size_t i = 0; i < sections_.size(); ++i)
      if (places_[i].isLoaded && sections_[i].sh_type != SHT_NOBITS && sections_[i].sh_size > 0)
        std::memcpy(addressOf(places_[i]), object_.data() + sections_[i].sh_offset, sections_[i].sh_size);
  }

  Status makeStubs() {
    char *stub = memory_.part(CodeMemory::code) + stubs_,
         *slot = memory_.part(CodeMemory::constants) + slots_;
    functions_.resize(symbols_.size());
    for (std::size_t i = 0; i < symbols_.size(); ++i) {
      if (!isFunctionOfProcess(symbols_[i])) continue;
      TW_ASSIGN_OR_RETURN(const std::string name, nameOf(symbols_[i]));
      void *const address = functionOfProcess(name);
      if (!address) return deviceError("it calls '" + name + "', which this process does not have");
      std::memcpy(slot, &address, sizeof address);
      const unsigned char jump[] = {0xff, 0x25}; // jmp *[rip + distance]
      const auto distance = static_cast<int32_t>(slot - (stub + sizeof jump + 4));
      std::memcpy(stub, jump, sizeof jump);
      std::memcpy(stub + sizeof jump, &distance, sizeof distance);
      functions_[i] = {stub, slot};
      stub += kStubBytes, slot += kSlotBytes;
    }
    return {};
  }

  /// A symbol of the object's own; or the stub of a function of the process.
  StatusOr<const char *> addressOf(std::size_t index) const {
    const Elf64_Sym &symbol = symbols_[index];
    if (isFunctionOfProcess(symbol)) return static_cast<const char *>(functions_[index].stub);
    if (symbol.st_shndx >= sections_.size() || !places_[symbol.st_shndx].isLoaded ||
        symbol.st_value > sections_[symbol.st_shndx].sh_size)
      return deviceError("a symbol lies outside the sections");
    return static_cast<const char *>(addressOf(places_[symbol.st_shndx]) + symbol.st_value);
  }

  Status relocate(const Elf64_Shdr &section) {
    if (section.sh_type != SHT_RELA && section.sh_type != SHT_REL) return {};
    if (section.sh_info >= sections_.size()) return deviceError("relocations of a section that is not there");
    if (!places_[section.sh_info].isLoaded) return {};
    if (section.sh_type == SHT_REL) return deviceError("relocations without addends, which x86_64 has not");
    TW_ASSIGN_OR_RETURN(const std::vector<Elf64_Rela> relocations,
                        table<Elf64_Rela>(section.sh_offset, section.sh_size, "table of relocations"));
    for (const Elf64_Rela &relocation : relocations)
      TW_RETURN_IF_ERROR(apply(relocation, section.sh_info));
    return {};
  }

  Status apply(const Elf64_Rela &relocation, std::size_t section) {
    const uint32_t type = ELF64_R_TYPE(relocation.r_info);
    const std::size_t symbol = ELF64_R_SYM(relocation.r_info), bytes = type == R_X86_64_64 ? 8 : 4;
    const uint64_t size = sections_[section].sh_size;
    if (size < bytes || relocation.r_offset > size - bytes)
      return deviceError("a relocation lies outside its section");
    if (symbol >= symbols_.size()) return deviceError("a relocation is of a symbol that is not there");
    char *const at = addressOf(places_[section]) + relocation.r_offset;
    const bool isOfSlot =
        type == R_X86_64_GOTPCREL || type == R_X86_64_GOTPCRELX || type == R_X86_64_REX_GOTPCRELX;
    if (!isOfSlot && type != R_X86_64_64 && type != R_X86_64_PC32 && type != R_X86_64_PLT32)
      return deviceError("it has a relocation of type " + std::to_string(type) + ", which is not known");
    if (isOfSlot && !isFunctionOfProcess(symbols_[symbol]))
      return deviceError("it has a slot for a symbol of its own");
    TW_ASSIGN_OR_RETURN(const char *target, addressOf(symbol));
    if (isOfSlot) target = functions_[symbol].slot;
    const auto value = reinterpret_cast<uint64_t>(target) + static_cast<uint64_t>(relocation.r_addend);
    if (type == R_X86_64_64) {
      std::memcpy(at, &value, sizeof value);
      return {};
    }
    const auto distance = static_cast<int64_t>(value - reinterpret_cast<uint64_t>(at));
    const auto narrow = static_cast<int32_t>(distance);
    if (narrow != distance) return deviceError("a relocation reaches too far");
    std::memcpy(at, &narrow, sizeof narrow);
    return {};
  }

  Status findEntry(const std::string &symbol) {
    for (std::size_t i = 0; i < symbols_.size(); ++i) {
      if (ELF64_ST_BIND(symbols_[i].st_info) == STB_LOCAL || isFunctionOfProcess(symbols_[i])) continue;
      TW_ASSIGN_OR_RETURN(const std::string name, nameOf(symbols_[i]));
      if (name != symbol) continue;
      TW_ASSIGN_OR_RETURN(const char *address, addressOf(i));
      const std::size_t section = symbols_[i].st_shndx;
      if (places_[section].part != CodeMemory::code || symbols_[i].st_value == sections_[section].sh_size)
        return deviceError("'" + symbol + "' is no code");
      entry_ = const_cast<char *>(address);
      return {};
    }
    return deviceError("it has no '" + symbol + "'");
  }

  struct Function {
    char *stub = nullptr, *slot = nullptr;
  };

  const std::string_view object_;
  std::string_view names_;
  std::vector<Elf64_Shdr> sections_;
  std::vector<Elf64_Sym> symbols_;
  std::vector<Place> places_;       ///< by section
  std::vector<Function> functions_; ///< by symbol; of the process's alone
  std::size_t bytes_[CodeMemory::kParts] = {};
  uint64_t stubs_ = 0, slots_ = 0; ///< where they begin in their parts
  CodeMemory memory_;
  void *entry_ = nullptr;
};

} // namespace

StatusOr<std::unique_ptr<LoadedObject>> LoadedObject::load(const std::string &object,
                                                           const std::string &symbol) {
  Linker linker(object);
  if (const Status linked = linker.link(symbol); !linked.ok())
    return linked.in("machine code of kernel '" + symbol + "' cannot be loaded");
  return std::unique_ptr<LoadedObject>(new LoadedObject(linker.takeMemory(), linker.entry()));
}

} // namespace tilewright

// What `tilewright cache` does with the whole folder, as opposed to what a launch does with one entry.

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <map>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/artifact_cache.h"
#include "runtime/disk/tar.h"

namespace tilewright {
namespace {

constexpr std::size_t kMaxArchiveBytes = std::size_t(1) << 32;

bool isDigest(const std::string &name) {
  return name.size() == 64 && std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

int64_t secondsOld(int folder, const std::string &name) {
  struct stat info;
  if (fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return 0;
  return std::max<int64_t>(0, std::time(nullptr) - info.st_mtime);
}

/// An archive's members, sorted into entries and checked; nothing is on disk yet.
StatusOr<std::vector<Entry>> entriesOf(const std::vector<TarMember> &members) {
  std::map<std::string, EntryFiles> filesOf;
  for (const TarMember &member : members) {
    const std::size_t slash = member.name.find('/');
    const std::string digest = member.name.substr(0, slash);
    if (slash == std::string::npos || !isDigest(digest))
      return userError("'" + member.name + "' is no file of an entry (DIGEST/FILE)");
    if (!filesOf[digest].emplace(member.name.substr(slash + 1), member.bytes).second)
      return userError("'" + member.name + "' is there twice");
  }
  std::vector<Entry> entries;
  for (const auto &[digest, files] : filesOf) {
    StatusOr<Entry> entry = decodeEntry(digest, files);
    if (!entry.ok()) return userError("entry " + digest + " is bad: " + entry.status().message());
    entries.push_back(*std::move(entry));
  }
  return entries;
}

/// Whole or not at all.
Status replaceFile(const std::string &path, const std::string &bytes) {
  const std::string temporary = path + "." + randomName();
  Status written = writeNewFileAt(AT_FDCWD, temporary, bytes);
  if (written.ok() && std::rename(temporary.c_str(), path.c_str()) != 0)
    written = systemError("cannot rename " + temporary + " to " + path);
  if (!written.ok()) ::unlink(temporary.c_str());
  return written;
}

} // namespace

StatusOr<std::vector<std::string>> ArtifactCache::digests() const {
  TW_ASSIGN_OR_RETURN(std::vector<std::string> names, namesIn(folder_.get()));
  names.erase(
      std::remove_if(names.begin(), names.end(), [](const std::string &name) { return !isDigest(name); }),
      names.end());
  return names;
}

StatusOr<std::vector<CacheEntry>> ArtifactCache::entries() const {
  TW_ASSIGN_OR_RETURN(std::vector<std::string> names, digests());
  std::vector<CacheEntry> entries;
  for (const std::string &digest : names) {
    CacheEntry item;
    item.digest = digest;
    item.secondsOld = secondsOld(folder_.get(), digest);
    StatusOr<std::optional<Entry>> entry = read(digest);
    if (entry.ok() && !entry->has_value()) continue; // removed meanwhile
    if (entry.ok()) {
      item.key = (*entry)->key;
      item.bytes = (*entry)->artifact.binary.size() + (*entry)->artifact.assembly.size();
    } else {
      item.problem = entry.status().message();
    }
    entries.push_back(std::move(item));
  }
  return entries;
}

StatusOr<ArtifactCache::Pruned> ArtifactCache::prune(const std::string &compiler) {
  TW_ASSIGN_OR_RETURN(std::vector<CacheEntry> all, entries());
  Pruned pruned;
  for (const CacheEntry &entry : all) {
    if (entry.problem.empty() && entry.key.compiler == compiler) continue;
    TW_RETURN_IF_ERROR(removeEntry(entry.digest));
    ++pruned.entries;
    pruned.bytes += entry.bytes;
  }
  pruned.leftovers = removeLeftovers();
  return pruned;
}

StatusOr<int> ArtifactCache::exportTo(const std::string &path) const {
  TW_ASSIGN_OR_RETURN(std::vector<std::string> names, digests());
  std::vector<TarMember> members;
  int count = 0;
  for (const std::string &digest : names) {
    StatusOr<std::optional<Entry>> entry = read(digest);
    if (!entry.ok() || !entry->has_value()) continue;
    TW_ASSIGN_OR_RETURN(EntryFiles files, encodeEntry(**entry));
    for (auto &[name, bytes] : files)
      members.push_back({digest + "/" + name, std::move(bytes)});
    ++count;
  }
  TW_RETURN_IF_ERROR(replaceFile(path, writeTar(members)));
  return count;
}

StatusOr<int> ArtifactCache::importFrom(const std::string &path) {
  TW_ASSIGN_OR_RETURN(std::string bytes, readFile(path, kMaxArchiveBytes));
  TW_ASSIGN_OR_RETURN(std::vector<TarMember> members, readTar(bytes));
  TW_ASSIGN_OR_RETURN(std::vector<Entry> entries, entriesOf(members));
  int count = 0;
  for (const Entry &entry : entries) {
    const std::string digest = entry.key.digest();
    StatusOr<std::optional<Entry>> present = read(digest);
    if (present.ok() && present->has_value()) continue;
    if (!present.ok()) TW_RETURN_IF_ERROR(removeEntry(digest));
    TW_RETURN_IF_ERROR(store(entry));
    ++count;
  }
  return count;
}

} // namespace tilewright

#include "runtime/artifact_cache.h"

#include <cerrno>
#include <ctime>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/base/log.h"

namespace tilewright {
namespace {

constexpr const char *kTemporaryPrefix = ".new-"; ///< of entries that are being written or removed
constexpr const char *kLockPrefix = ".lock-";
constexpr std::size_t kMaxManifestBytes = 1 << 20;

bool startsWith(const std::string &text, const std::string &prefix) { return text.rfind(prefix, 0) == 0; }

StatusOr<EntryFiles> readFiles(int folder) {
  TW_RETURN_IF_ERROR(checkPrivate(folder, "it"));
  TW_ASSIGN_OR_RETURN(std::vector<std::string> names, namesIn(folder));
  EntryFiles files;
  for (const std::string &name : names) {
    if (files.size() > 3) return runtimeError("it holds more files than an entry has");
    TW_ASSIGN_OR_RETURN(
        files[name],
        readPrivateFileAt(folder, name, name == kManifestName ? kMaxManifestBytes : kMaxEntryFileBytes));
  }
  return files;
}

/// A new folder, locked while it is open, by which others see that its writer lives.
struct TemporaryFolder {
  std::string name;
  FileDescriptor fd;
};

StatusOr<TemporaryFolder> makeTemporaryFolder(int parent) {
  constexpr int attempts = 8;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    TemporaryFolder folder{kTemporaryPrefix + randomName(), {}};
    if (mkdirat(parent, folder.name.c_str(), 0700) != 0) return systemError("cannot make a folder");
    folder.fd =
        FileDescriptor(openat(parent, folder.name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    // Until it is locked, another process may take it for a leftover. Where folders cannot be locked (NFS),
    // others go by its age.
    const bool taken =
        folder.fd.valid() && flock(folder.fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (!taken && isStillThere(parent, folder.name, folder.fd.get())) return folder;
    unlinkat(parent, folder.name.c_str(), AT_REMOVEDIR);
  }
  return runtimeError("a new folder cannot be opened or disappears at once");
}

/// Removes what a process left that died. A living one holds a lock on its folder.
bool removeIfLeftover(int parent, const std::string &folder) {
  constexpr std::time_t longAgo = 3600; // seconds; writing an entry takes milliseconds
  FileDescriptor fd(openat(parent, folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  struct stat info;
  if (fd.valid() && flock(fd.get(), LOCK_EX | LOCK_NB) != 0 &&
      (errno == EWOULDBLOCK || fstat(fd.get(), &info) != 0 || std::time(nullptr) - info.st_mtime < longAgo))
    return false;
  return removeAt(parent, folder).ok();
}

/// The same for a lock file: who gets the lock removes the file when done.
bool removeIfFree(int parent, const std::string &lockFile) {
  auto lock = KeyLock::acquire(parent, lockFile, std::chrono::milliseconds(0));
  return lock.ok() && lock->has_value();
}

Status writeFiles(int folder, const EntryFiles &files) {
  for (const auto &[name, bytes] : files)
    TW_RETURN_IF_ERROR(writeNewFileAt(folder, name, bytes));
  return syncToDisk(folder);
}

std::string join(const std::vector<std::string> &parts) {
  std::string text;
  for (const std::string &part : parts)
    text += (text.empty() ? "" : "; ") + part;
  return text;
}

} // namespace

StatusOr<std::unique_ptr<ArtifactCache>> ArtifactCache::open(const std::string &dir) {
  TW_ASSIGN_OR_RETURN(FileDescriptor root, openPrivateFolder(dir));
  TW_ASSIGN_OR_RETURN(FileDescriptor kernels, openPrivateFolderAt(root.get(), "kernels"));
  return std::unique_ptr<ArtifactCache>(new ArtifactCache(dir + "/kernels", std::move(kernels)));
}

StatusOr<std::optional<Entry>> ArtifactCache::read(const std::string &digest) const {
  FileDescriptor entry(
      openat(folder_.get(), digest.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!entry.valid() && errno == ENOENT) return std::optional<Entry>();
  if (!entry.valid()) return systemError("it cannot be opened");
  TW_ASSIGN_OR_RETURN(EntryFiles files, readFiles(entry.get()));
  TW_ASSIGN_OR_RETURN(Entry decoded, decodeEntry(digest, files));
  return std::optional<Entry>(std::move(decoded));
}

ArtifactCache::Lookup ArtifactCache::lookup(const std::string &digest, const Use &use) const {
  StatusOr<std::optional<Entry>> entry = read(digest);
  if (!entry.ok()) return {false, true, entry.status().message()};
  if (!entry->has_value()) return {};
  Status used = use((*entry)->artifact);
  return used.ok() ? Lookup{true, false, ""} : Lookup{false, false, used.message()};
}

std::string ArtifactCache::lockProblem(const StatusOr<std::optional<KeyLock>> &lock) {
  if (!lock.ok())
    return lockProblemReported_.exchange(true)
               ? ""
               : "processes do not wait for each other's kernels: " + lock.status().message();
  if (lock->has_value()) return "";
  return "another process has been compiling it for " + std::to_string(lockLimit_.count()) +
         " ms, so this one does too";
}

StatusOr<bool> ArtifactCache::obtain(const ArtifactKey &key, const Compile &compile, const Use &use) {
  const std::string digest = key.digest();
  Lookup found = lookup(digest, use);
  if (found.hit) return true;

  auto lock = KeyLock::acquire(folder_.get(), kLockPrefix + digest, lockLimit_);
  // Another process may have made it while this one waited, or tried without locks.
  found = lookup(digest, use);
  if (found.hit) return true;

  std::vector<std::string> problems;
  if (std::string problem = lockProblem(lock); !problem.empty()) problems.push_back(std::move(problem));
  if (!found.problem.empty())
    problems.push_back("the entry " + path_ + "/" + digest + " is not used: " + found.problem);
  // A good entry that the device refuses stays: the device may be out of memory, and the disk is shared.
  // Without the lock another process may be replacing the entry now.
  if (found.isDamaged && lock.ok() && lock->has_value())
    if (Status removed = removeEntry(digest); !removed.ok()) logDebug(removed.message());

  TW_ASSIGN_OR_RETURN(Artifact artifact, compile());
  TW_RETURN_IF_ERROR(use(artifact));
  Status stored = store({key, std::move(artifact)});
  if (!stored.ok() && !writeProblemReported_.exchange(true))
    problems.push_back("it cannot be kept in " + path_ + ": " + stored.message());
  if (!problems.empty()) logWarning("kernel cache: compiled '" + key.kernel.name + "': " + join(problems));
  return false;
}

Status ArtifactCache::store(const Entry &entry) {
  std::call_once(leftoversRemoved_, [this] { removeLeftovers(); });
  TW_ASSIGN_OR_RETURN(EntryFiles files, encodeEntry(entry));
  TW_ASSIGN_OR_RETURN(TemporaryFolder temporary, makeTemporaryFolder(folder_.get()));
  Status written = writeFiles(temporary.fd.get(), files);
  if (written.ok() &&
      renameat(folder_.get(), temporary.name.c_str(), folder_.get(), entry.key.digest().c_str()) == 0)
    return syncToDisk(folder_.get());
  const bool lostRename = written.ok() && (errno == EEXIST || errno == ENOTEMPTY);
  if (written.ok() && !lostRename) written = systemError("rename");
  if (Status removed = removeAt(folder_.get(), temporary.name); !removed.ok()) logDebug(removed.message());
  return written;
}

/// In two steps, so that an entry is either whole or gone.
Status ArtifactCache::removeEntry(const std::string &name) {
  const std::string temporary = kTemporaryPrefix + randomName();
  if (renameat(folder_.get(), name.c_str(), folder_.get(), temporary.c_str()) != 0)
    return systemError("cannot remove the entry " + name);
  return removeAt(folder_.get(), temporary);
}

int ArtifactCache::removeLeftovers() {
  StatusOr<std::vector<std::string>> names = namesIn(folder_.get());
  if (!names.ok()) return 0;
  int removed = 0;
  for (const std::string &name : *names) {
    if (startsWith(name, kTemporaryPrefix)) removed += removeIfLeftover(folder_.get(), name);
    if (startsWith(name, kLockPrefix)) removed += removeIfFree(folder_.get(), name);
  }
  return removed;
}

} // namespace tilewright

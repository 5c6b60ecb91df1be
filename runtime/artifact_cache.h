#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "compiler/artifact.h"
#include "compiler/base/status.h"
#include "runtime/disk/entry.h"
#include "runtime/disk/files.h"
#include "runtime/disk/key_lock.h"

namespace tilewright {

/// One entry as `ArtifactCache::entries` finds it.
struct CacheEntry {
  std::string digest;
  ArtifactKey key;   ///< empty when there is a problem
  int64_t bytes = 0; ///< of its code
  int64_t secondsOld = 0;
  std::string problem; ///< what is wrong with it; empty when it is good
};

/// Compiled kernels on disk, shared by all processes of one user.
///
/// DIR/kernels/DIGEST/{manifest.json, binary, assembly} is an entry (see disk/entry.h). Entries are written
/// beside, synced and renamed into place, and never changed afterwards, so a process that dies at any moment
/// leaves whole entries and at most some leftovers, which the next writer removes. Whatever is odd about an
/// entry makes it a miss, with one warning; then it is replaced. Any thread may call it.
class ArtifactCache {
public:
  /// Makes the folder if need be. An error when it cannot be made or opened, or when others own it or may
  /// write it: the code in it will be run.
  static StatusOr<std::unique_ptr<ArtifactCache>> open(const std::string &dir);

  using Compile = std::function<StatusOr<Artifact>()>;
  using Use = std::function<Status(const Artifact &)>;

  /// Calls `use` with the artifact of `key`: the one on disk if there is a good one, else a new one, which
  /// `compile` makes and which is then kept. However many processes ask for a key at once, one compiles and
  /// the others wait, but no longer than the lock limit. An entry that cannot be decoded is removed. One that
  /// `use` refuses is compiled anew, and stays on disk: a device may refuse a good kernel, as when it is out
  /// of memory. Fails only as `compile` or `use` do, never because of the disk. Returns whether the artifact
  /// came from disk.
  StatusOr<bool> obtain(const ArtifactKey &key, const Compile &compile, const Use &use);

  /// Every entry, checked as at load, in the order of digests.
  StatusOr<std::vector<CacheEntry>> entries() const;

  struct Pruned {
    int entries = 0;   ///< damaged, or made by another version of the compiler
    int leftovers = 0; ///< of processes that died
    int64_t bytes = 0; ///< of the entries
  };
  /// Removes what a run with this version of the compiler will not read.
  StatusOr<Pruned> prune(const std::string &compiler);

  /// Writes all good entries into one new tar file; returns how many.
  StatusOr<int> exportTo(const std::string &path) const;

  /// Adds a tar file's entries that are not here yet; returns how many. When anything in the file is wrong,
  /// that is a user error and nothing is added. The code in it will be run: import only what you trust.
  StatusOr<int> importFrom(const std::string &path);

  /// How long `obtain` waits for another process that compiles the same kernel.
  void setLockLimit(std::chrono::milliseconds limit) { lockLimit_ = limit; }

  const std::string &path() const { return path_; }

private:
  ArtifactCache(std::string path, FileDescriptor folder)
      : path_(std::move(path)), folder_(std::move(folder)) {}

  struct Lookup {
    bool hit = false;
    bool isDamaged = false; ///< it is there, and cannot be decoded
    std::string problem;    ///< empty when there is no entry
  };
  /// What to say about a lock that is not held, if anything.
  std::string lockProblem(const StatusOr<std::optional<KeyLock>> &lock);
  Lookup lookup(const std::string &digest, const Use &use) const;
  StatusOr<std::vector<std::string>> digests() const;
  StatusOr<std::optional<Entry>> read(const std::string &digest) const;
  Status store(const Entry &entry);
  Status removeEntry(const std::string &name);
  int removeLeftovers();

  const std::string path_;      ///< of the folder that holds the entries, for messages
  const FileDescriptor folder_; ///< the same, open
  std::chrono::milliseconds lockLimit_{30000};
  std::once_flag leftoversRemoved_;
  std::atomic<bool> writeProblemReported_{
      false}; ///< a full or read-only disk is worth one warning, not one a kernel
  std::atomic<bool> lockProblemReported_{false}; ///< likewise a file system without locks
};

} // namespace tilewright

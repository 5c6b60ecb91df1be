#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "autotune/tuning_record.h"
#include "compiler/base/status.h"
#include "runtime/disk/files.h"

namespace tilewright {

/// Tuning records of one cache folder, shared by all processes of one user: DIR/tuning.json.
///
/// The file is read once: what other processes add later is not seen by `find`, so that one process computes
/// the same bits for the same problem as long as it lives. It is changed under a lock, by replacing it, and
/// what others wrote meanwhile is kept. A file that cannot be understood is ignored with one warning, and
/// moved aside when there is something to write. Any thread may call it.
class TuningCache {
public:
  /// An empty folder name: records live as long as this process. A folder that cannot be used is a warning.
  explicit TuningCache(const std::string &dir);

  /// The one instance of this process for a folder.
  static std::shared_ptr<TuningCache> shared(const std::string &dir);

  using Record = std::shared_ptr<const TuningRecord>;
  /// Null when there is none.
  Record find(const TuningKey &key);
  std::vector<Record> records();

  /// Keeps the record, instead of one of the same key; on disk too if that can be done (a warning if not).
  void store(const TuningRecord &record);

  using Accept = std::function<bool(const TuningRecord &)>;
  using Tune = std::function<StatusOr<TuningRecord>()>;
  /// The record of `key` if there is one that `accept` takes, else what `tune` returns, which is then kept.
  /// Of all threads and processes that tune for a device one does so at a time, and those that wait for the
  /// same key share its record. Null when another one was still tuning after the lock limit. Fails only as
  /// `tune` does.
  StatusOr<Record> obtain(const TuningKey &key, const Accept &accept, const Tune &tune);

  /// Writes all records into one new file; returns how many.
  StatusOr<int> exportTo(const std::string &path);
  /// Adds a file's records whose keys are not here yet; returns how many. When anything in the file is wrong,
  /// that is a user error and nothing is added.
  StatusOr<int> importFrom(const std::string &path);

  /// How long `obtain` waits for others that tune.
  void setLockLimit(std::chrono::milliseconds limit) { lockLimit_ = limit; }

private:
  using Records = std::map<std::string, Record>; ///< by TuningKey::str()

  void readOnce();    ///< with mutex_ held
  Records readFile(); ///< with mutex_ held; empty when there is no good file
  Status addToFile(const Records &records, bool replace); ///< with mutex_ held
  Status writeFile(const std::string &text);
  Record findOnDisk(const TuningKey &key, const Accept &accept);
  void warnOnce(const std::string &message); ///< with mutex_ held

  const std::string path_; ///< of the file, for messages
  FileDescriptor folder_;  ///< not valid: records are not kept on disk
  std::chrono::milliseconds lockLimit_{std::chrono::minutes(10)};

  std::mutex tuning_; ///< held while tuning where no lock can be had on disk

  std::mutex mutex_; ///< guards what follows
  bool read_ = false, damaged_ = false, warned_ = false;
  Records records_;
};

} // namespace tilewright

#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autotune/tuning_record.h"
#include "compiler/base/status.h"
#include "runtime/disk/files.h"

namespace tilewright {

/// Tuning records of one cache folder, shared by all processes of one user: DIR/tuning-v3.json. A key may
/// have several records, one for each workspace limit it was searched under.
///
/// The file is read once: what other processes add later is not seen by `find`, so that one process computes
/// the same bits for the same problem as long as it lives. It is changed under a lock, by replacing it, and
/// what others wrote meanwhile is kept. A file that cannot be understood is ignored with one warning, as is a
/// record; the file is moved aside when there is something to write. Files of earlier versions have other
/// names. They are read where that is possible, and never changed. Any thread may call it. The first call
/// that needs the records reads the file, and others wait for it; no call waits while another one writes the
/// file or waits for a lock on disk.
class TuningCache {
public:
  /// An empty folder name: records live as long as this process. A folder that cannot be used is a warning.
  explicit TuningCache(const std::string &dir);

  /// The one instance of this process for a folder.
  static std::shared_ptr<TuningCache> shared(const std::string &dir);

  using Record = std::shared_ptr<const TuningRecord>;
  /// The record for calls under a workspace limit (bytes; 0: none): of the searches that were allowed as
  /// much, that under the smallest limit. Null when there is none.
  Record find(const TuningKey &key, int64_t workspaceLimit = 0);
  std::vector<Record> records();

  /// Keeps the record, instead of one of the same key and limit; on disk too if that can be done (a warning
  /// if not).
  void store(const TuningRecord &record);

  using Accept = std::function<bool(const TuningRecord &)>;
  using Tune = std::function<StatusOr<TuningRecord>()>;
  /// The record that `find` finds if `accept` takes it, else what `tune` returns, which is then kept. Of all
  /// threads and processes that tune for a device one does so at a time, and those that wait for the same key
  /// share its record. Fails as `tune` does, and when another one was still tuning after the lock limit; it
  /// then does not try again, but returns the same failure at once as long as the process lives.
  StatusOr<Record> obtain(const TuningKey &key, int64_t workspaceLimit, const Accept &accept,
                          const Tune &tune);
  /// How `obtain` has failed for this key and limit in this process, if it has.
  std::optional<Status> failure(const TuningKey &key, int64_t workspaceLimit);

  /// Writes all records into one new file; returns how many.
  StatusOr<int> exportTo(const std::string &path);
  /// Adds a file's records whose keys and limits are not here yet; returns how many. When anything in the
  /// file is wrong, that is a user error and nothing is added.
  StatusOr<int> importFrom(const std::string &path);

  /// How long `obtain` waits for others that tune.
  void setLockLimit(std::chrono::milliseconds limit) { lockLimit_ = limit; }

private:
  /// A key's text, and the most workspace that the search was allowed: limits of a key are in their order.
  using Place = std::pair<std::string, int64_t>;
  using Records = std::map<Place, Record>;
  static Place placeOf(const TuningKey &key, int64_t workspaceLimit);
  static Records byPlace(std::vector<TuningRecord> records);

  /// What is in the file now.
  struct Content {
    Records records;
    std::string otherFields;
    bool damaged = false; ///< something was left out
  };

  void readOnce(); ///< with mutex_ held
  // These work on the disk, without mutex_.
  Content readFile();
  Records readEarlierFiles() const;
  Status addToFile(const Records &records, bool replace);
  Status writeFile(const std::string &text, bool keepDamaged);
  Record findOnDisk(const TuningKey &key, int64_t workspaceLimit, const Accept &accept);

  Record keep(const TuningRecord &record);
  Status rememberFailure(const TuningKey &key, int64_t workspaceLimit, Status failure);
  void warnOnce(const std::string &message);

  const std::string dir_, path_; ///< of the folder and the file, for messages
  FileDescriptor folder_;        ///< not valid: records are not kept on disk
  std::chrono::milliseconds lockLimit_{std::chrono::minutes(10)};
  std::atomic<bool> warned_{false};

  std::mutex tuning_; ///< held while tuning where no lock can be had on disk

  std::mutex mutex_; ///< guards what follows
  bool read_ = false;
  Records records_;
  std::map<Place, Status> failures_;
};

} // namespace tilewright

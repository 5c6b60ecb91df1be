#include "autotune/tuning_cache.h"

#include <cerrno>
#include <cstdio>
#include <iterator>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "compiler/base/hash.h"
#include "compiler/base/log.h"
#include "runtime/disk/key_lock.h"

namespace tilewright {
namespace {

// The version is in the name, so that a program of another version neither reads the file as its own nor
// writes it.
constexpr const char *kFile = "tuning-v3.json";
constexpr const char *kEarlierFiles[] = {"tuning.json", "tuning-v2.json"}; // the later one last
constexpr const char *kDamaged = "tuning-v3.json.damaged";
constexpr const char *kWriteLock = ".tuning-write-lock";
constexpr const char *kDeviceLock = ".tuning-lock-";
constexpr const char *kTemporaryPrefix = ".tuning-new-";
constexpr std::chrono::seconds kWriteLimit(60); // a write takes milliseconds, but many may be waiting

template <typename Records> std::vector<TuningRecord> asList(const Records &records) {
  std::vector<TuningRecord> list;
  for (const auto &[place, record] : records)
    list.push_back(*record);
  return list;
}

bool exists(int folder, const char *name) {
  return faccessat(folder, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

StatusOr<TuningFile> readTuningFile(int folder, const char *name) {
  TW_ASSIGN_OR_RETURN(const std::string text, readPrivateFileAt(folder, name, kMaxTuningFileBytes));
  return decodeTuningFile(text);
}

/// What writers left that died; the caller holds the write lock, so none of them is alive.
void removeLeftovers(int folder) {
  const StatusOr<std::vector<std::string>> names = namesIn(folder);
  if (!names.ok()) return;
  for (const std::string &name : *names)
    if (name.rfind(kTemporaryPrefix, 0) == 0)
      if (Status removed = removeAt(folder, name); !removed.ok()) logDebug(removed.message());
}

} // namespace

TuningCache::TuningCache(const std::string &dir) : dir_(dir), path_(dir + "/" + kFile) {
  if (dir.empty()) return;
  StatusOr<FileDescriptor> folder = openPrivateFolder(dir);
  if (folder.ok())
    folder_ = *std::move(folder);
  else
    logWarning("tuning records are not kept on disk: " + folder.status().message());
}

std::shared_ptr<TuningCache> TuningCache::shared(const std::string &dir) {
  static std::mutex mutex;
  // Never destroyed: threads may make calls while the process ends.
  static auto *const instances = new std::map<std::string, std::shared_ptr<TuningCache>>;
  std::lock_guard<std::mutex> guard(mutex);
  std::shared_ptr<TuningCache> &instance = (*instances)[dir];
  if (!instance) instance = std::make_shared<TuningCache>(dir);
  return instance;
}

TuningCache::Place TuningCache::placeOf(const TuningKey &key, int64_t workspaceLimit) {
  return {key.str(), mostWorkspace(workspaceLimit)};
}

TuningCache::Records TuningCache::byPlace(std::vector<TuningRecord> records) {
  Records placed;
  for (TuningRecord &record : records) {
    Place place = placeOf(record.key, record.workspaceLimit);
    placed[std::move(place)] = std::make_shared<TuningRecord>(std::move(record));
  }
  return placed;
}

void TuningCache::warnOnce(const std::string &message) {
  if (!warned_.exchange(true)) logWarning(message);
}

// ---- The file ------------------------------------------------------------------------------------------

TuningCache::Content TuningCache::readFile() {
  Content content;
  if (!folder_.valid() || !exists(folder_.get(), kFile)) return content;
  StatusOr<TuningFile> file = readTuningFile(folder_.get(), kFile);
  if (!file.ok()) {
    content.damaged = true;
    warnOnce("tuning records of " + path_ + " are not used: " + file.status().message());
    return content;
  }
  if (!file->problems.empty()) {
    content.damaged = true;
    warnOnce(std::to_string(file->problems.size()) + " of " +
             std::to_string(file->problems.size() + file->records.size()) + " tuning records of " + path_ +
             " are not used: " + file->problems.front());
  }
  content.records = byPlace(std::move(file->records));
  content.otherFields = std::move(file->otherFields);
  return content;
}

TuningCache::Records TuningCache::readEarlierFiles() const {
  Records records;
  for (const char *name : kEarlierFiles) {
    if (!folder_.valid() || !exists(folder_.get(), name)) continue;
    StatusOr<TuningFile> file = readTuningFile(folder_.get(), name);
    if (!file.ok() || !file->problems.empty())
      logInfo("tuning records of an earlier version in " + dir_ + "/" + name +
              " are not used: " + (file.ok() ? file->problems.front() : file.status().message()));
    if (!file.ok()) continue;
    for (auto &[place, record] : byPlace(std::move(file->records)))
      records[place] = std::move(record);
  }
  return records;
}

void TuningCache::readOnce() {
  if (std::exchange(read_, true)) return;
  records_ = readFile().records;
  records_.merge(readEarlierFiles());
}

Status TuningCache::writeFile(const std::string &text, bool keepDamaged) {
  if (text.size() > kMaxTuningFileBytes)
    return runtimeError("the file would be longer than " + std::to_string(kMaxTuningFileBytes) + " bytes");
  const std::string temporary = kTemporaryPrefix + randomName();
  Status status = writeNewFileAt(folder_.get(), temporary, text);
  if (status.ok() && keepDamaged) renameat(folder_.get(), kFile, folder_.get(), kDamaged);
  if (status.ok() && renameat(folder_.get(), temporary.c_str(), folder_.get(), kFile) != 0)
    status = systemError("cannot replace " + path_);
  if (status.ok()) return syncToDisk(folder_.get());
  if (Status removed = removeAt(folder_.get(), temporary); !removed.ok()) logDebug(removed.message());
  return status;
}

Status TuningCache::addToFile(const Records &records, bool replace) {
  TW_ASSIGN_OR_RETURN(const std::optional<KeyLock> lock,
                      KeyLock::acquire(folder_.get(), kWriteLock, kWriteLimit));
  if (!lock)
    return runtimeError("another process has held its lock for " + std::to_string(kWriteLimit.count()) +
                        " s");
  removeLeftovers(folder_.get());
  Content content = readFile();
  for (const auto &[place, record] : records)
    if (replace || !content.records.count(place)) content.records[place] = record;
  return writeFile(encodeTuningFile({asList(content.records), content.otherFields, {}}), content.damaged);
}

// ---- Records -------------------------------------------------------------------------------------------

TuningCache::Record TuningCache::find(const TuningKey &key, int64_t workspaceLimit) {
  const Place place = placeOf(key, workspaceLimit);
  std::lock_guard<std::mutex> guard(mutex_);
  readOnce();
  const auto found = records_.lower_bound(place);
  return found == records_.end() || found->first.first != place.first ? nullptr : found->second;
}

std::vector<TuningCache::Record> TuningCache::records() {
  std::lock_guard<std::mutex> guard(mutex_);
  readOnce();
  std::vector<Record> list;
  for (const auto &[place, record] : records_)
    list.push_back(record);
  return list;
}

TuningCache::Record TuningCache::keep(const TuningRecord &record) {
  const Place place = placeOf(record.key, record.workspaceLimit);
  const Record kept = std::make_shared<TuningRecord>(record);
  {
    std::lock_guard<std::mutex> guard(mutex_);
    readOnce();
    records_[place] = kept;
  }
  if (!folder_.valid()) return kept;
  if (Status added = addToFile({{place, kept}}, true); !added.ok())
    warnOnce("tuning records cannot be kept in " + path_ + ": " + added.message());
  return kept;
}

void TuningCache::store(const TuningRecord &record) { keep(record); }

TuningCache::Record TuningCache::findOnDisk(const TuningKey &key, int64_t workspaceLimit,
                                            const Accept &accept) {
  const Records onDisk = readFile().records;
  const Place place = placeOf(key, workspaceLimit);
  const auto found = onDisk.lower_bound(place);
  if (found == onDisk.end() || found->first.first != place.first || !accept(*found->second)) return nullptr;
  std::lock_guard<std::mutex> guard(mutex_);
  return records_[found->first] = found->second;
}

std::optional<Status> TuningCache::failure(const TuningKey &key, int64_t workspaceLimit) {
  std::lock_guard<std::mutex> guard(mutex_);
  const auto found = failures_.find(placeOf(key, workspaceLimit));
  return found == failures_.end() ? std::nullopt : std::optional(found->second);
}

Status TuningCache::rememberFailure(const TuningKey &key, int64_t workspaceLimit, Status failure) {
  std::lock_guard<std::mutex> guard(mutex_);
  return failures_[placeOf(key, workspaceLimit)] = std::move(failure);
}

StatusOr<TuningCache::Record> TuningCache::obtain(const TuningKey &key, int64_t workspaceLimit,
                                                  const Accept &accept, const Tune &tune) {
  const auto known = [&]() -> std::optional<StatusOr<Record>> {
    if (Record found = find(key, workspaceLimit); found && accept(*found)) return found;
    if (std::optional<Status> failed = failure(key, workspaceLimit)) return StatusOr<Record>(*failed);
    return std::nullopt;
  };
  if (auto result = known()) return *result;

  // One at a time, since measurements side by side would disturb each other.
  std::optional<KeyLock> lock;
  if (folder_.valid()) {
    StatusOr<std::optional<KeyLock>> acquired =
        KeyLock::acquire(folder_.get(), kDeviceLock + sha256(key.device).substr(0, 16), lockLimit_);
    if (acquired.ok() && !acquired->has_value())
      return rememberFailure(key, workspaceLimit,
                             runtimeError("expected to tune within minutes, found another process that still "
                                          "tunes for this device; try again later"));
    if (acquired.ok()) lock.emplace(std::move(**acquired));
  }
  std::unique_lock<std::mutex> guard(tuning_, std::defer_lock);
  if (!lock) guard.lock();
  if (auto result = known()) return *result; // of a thread that held the lock
  if (Record found = lock ? findOnDisk(key, workspaceLimit, accept) : nullptr) return found;
  const StatusOr<TuningRecord> record = tune();
  if (!record.ok()) return rememberFailure(key, workspaceLimit, record.status());
  return keep(*record);
}

// ---- To other machines and back ------------------------------------------------------------------------

StatusOr<int> TuningCache::exportTo(const std::string &path) {
  TuningFile file;
  for (const Record &record : records())
    file.records.push_back(*record);
  TW_RETURN_IF_ERROR(writeNewFileAt(AT_FDCWD, path, encodeTuningFile(file)));
  return static_cast<int>(file.records.size());
}

StatusOr<int> TuningCache::importFrom(const std::string &path) {
  TW_ASSIGN_OR_RETURN(const std::string text, tilewright::readFile(path, kMaxTuningFileBytes));
  StatusOr<TuningFile> file = decodeTuningFile(text);
  if (!file.ok()) return userError(path + ": " + file.status().message());
  if (!file->problems.empty()) return userError(path + ": " + file->problems.front());
  Records added = byPlace(std::move(file->records));
  {
    std::lock_guard<std::mutex> guard(mutex_);
    readOnce();
    for (auto entry = added.begin(); entry != added.end();)
      entry = records_.count(entry->first) ? added.erase(entry) : std::next(entry);
  }
  if (folder_.valid() && !added.empty()) TW_RETURN_IF_ERROR(addToFile(added, false));
  std::lock_guard<std::mutex> guard(mutex_);
  records_.insert(added.begin(), added.end());
  return static_cast<int>(added.size());
}

} // namespace tilewright

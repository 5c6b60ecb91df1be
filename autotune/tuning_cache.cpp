#include "autotune/tuning_cache.h"

#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <unistd.h>

#include "compiler/base/hash.h"
#include "compiler/base/log.h"
#include "runtime/disk/key_lock.h"

namespace tilewright {
namespace {

constexpr const char *kFile = "tuning.json";
constexpr const char *kDamaged = "tuning.json.damaged";
constexpr const char *kWriteLock = ".tuning-write-lock";
constexpr const char *kDeviceLock = ".tuning-lock-";
constexpr const char *kTemporaryPrefix = ".tuning-new-";
constexpr std::chrono::seconds kWriteLimit(60); // a write takes milliseconds, but many may be waiting

std::vector<TuningRecord> asList(const std::map<std::string, TuningCache::Record> &records) {
  std::vector<TuningRecord> list;
  for (const auto &[key, record] : records)
    list.push_back(*record);
  return list;
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

TuningCache::TuningCache(const std::string &dir) : path_(dir + "/" + kFile) {
  if (dir.empty()) return;
  StatusOr<FileDescriptor> folder = openPrivateFolder(dir);
  if (folder.ok())
    folder_ = *std::move(folder);
  else
    logWarning("tuning records are not kept on disk: " + folder.status().message());
}

std::shared_ptr<TuningCache> TuningCache::shared(const std::string &dir) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<TuningCache>> instances;
  std::lock_guard<std::mutex> guard(mutex);
  std::shared_ptr<TuningCache> &instance = instances[dir];
  if (!instance) instance = std::make_shared<TuningCache>(dir);
  return instance;
}

void TuningCache::warnOnce(const std::string &message) {
  if (!std::exchange(warned_, true)) logWarning(message);
}

TuningCache::Records TuningCache::readFile() {
  damaged_ = false;
  if (!folder_.valid() ||
      (faccessat(folder_.get(), kFile, F_OK, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT))
    return {};
  StatusOr<std::string> text = readPrivateFileAt(folder_.get(), kFile, kMaxTuningFileBytes);
  StatusOr<std::vector<TuningRecord>> decoded =
      text.ok() ? decodeRecords(*text) : StatusOr<std::vector<TuningRecord>>(text.status());
  if (!decoded.ok()) {
    damaged_ = true;
    warnOnce("tuning records of " + path_ + " are not used: " + decoded.status().message());
    return {};
  }
  Records records;
  for (TuningRecord &record : *decoded) {
    const std::string key = record.key.str();
    records[key] = std::make_shared<TuningRecord>(std::move(record));
  }
  return records;
}

void TuningCache::readOnce() {
  if (!std::exchange(read_, true)) records_ = readFile();
}

TuningCache::Record TuningCache::find(const TuningKey &key) {
  std::lock_guard<std::mutex> guard(mutex_);
  readOnce();
  const auto found = records_.find(key.str());
  return found == records_.end() ? nullptr : found->second;
}

std::vector<TuningCache::Record> TuningCache::records() {
  std::lock_guard<std::mutex> guard(mutex_);
  readOnce();
  std::vector<Record> list;
  for (const auto &[key, record] : records_)
    list.push_back(record);
  return list;
}

Status TuningCache::writeFile(const std::string &text) {
  const std::string temporary = kTemporaryPrefix + randomName();
  Status status = writeNewFileAt(folder_.get(), temporary, text);
  if (status.ok() && damaged_) renameat(folder_.get(), kFile, folder_.get(), kDamaged);
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
  Records merged = readFile();
  for (const auto &[key, record] : records)
    if (replace || !merged.count(key)) merged[key] = record;
  return writeFile(encodeRecords(asList(merged)));
}

void TuningCache::store(const TuningRecord &record) {
  const std::string key = record.key.str();
  std::lock_guard<std::mutex> guard(mutex_);
  readOnce();
  const Record kept = records_[key] = std::make_shared<TuningRecord>(record);
  if (!folder_.valid()) return;
  if (Status added = addToFile({{key, kept}}, true); !added.ok())
    warnOnce("tuning records cannot be kept in " + path_ + ": " + added.message());
}

TuningCache::Record TuningCache::findOnDisk(const TuningKey &key, const Accept &accept) {
  std::lock_guard<std::mutex> guard(mutex_);
  const Records onDisk = readFile();
  const auto found = onDisk.find(key.str());
  if (found == onDisk.end() || !accept(*found->second)) return nullptr;
  return records_[found->first] = found->second;
}

StatusOr<TuningCache::Record> TuningCache::obtain(const TuningKey &key, const Accept &accept,
                                                  const Tune &tune) {
  const auto good = [&](const Record &record) { return record && accept(*record); };
  if (Record found = find(key); good(found)) return found;

  // One at a time, since measurements side by side would disturb each other.
  std::optional<KeyLock> lock;
  if (folder_.valid()) {
    StatusOr<std::optional<KeyLock>> acquired =
        KeyLock::acquire(folder_.get(), kDeviceLock + sha256(key.device).substr(0, 16), lockLimit_);
    if (acquired.ok() && !acquired->has_value()) return Record();
    if (acquired.ok()) lock.emplace(std::move(**acquired));
  }
  std::unique_lock<std::mutex> guard(tuning_, std::defer_lock);
  if (!lock) guard.lock();
  if (Record found = find(key); good(found)) return found;
  if (Record found = lock ? findOnDisk(key, accept) : nullptr) return found;
  TW_ASSIGN_OR_RETURN(const TuningRecord record, tune());
  store(record);
  return find(key);
}

StatusOr<int> TuningCache::exportTo(const std::string &path) {
  std::lock_guard<std::mutex> guard(mutex_);
  readOnce();
  TW_RETURN_IF_ERROR(writeNewFileAt(AT_FDCWD, path, encodeRecords(asList(records_))));
  return static_cast<int>(records_.size());
}

StatusOr<int> TuningCache::importFrom(const std::string &path) {
  TW_ASSIGN_OR_RETURN(const std::string text, tilewright::readFile(path, kMaxTuningFileBytes));
  StatusOr<std::vector<TuningRecord>> decoded = decodeRecords(text);
  if (!decoded.ok()) return userError(path + ": " + decoded.status().message());
  std::lock_guard<std::mutex> guard(mutex_);
  readOnce();
  Records added;
  for (TuningRecord &record : *decoded) {
    const std::string key = record.key.str();
    if (!records_.count(key)) added[key] = std::make_shared<TuningRecord>(std::move(record));
  }
  if (folder_.valid() && !added.empty()) TW_RETURN_IF_ERROR(addToFile(added, false));
  records_.insert(added.begin(), added.end());
  return static_cast<int>(added.size());
}

} // namespace tilewright

// Tuning records as JSON: pure functions, and the only place that knows the format.

#include <algorithm>
#include <initializer_list>

#include <nlohmann/json.hpp>

#include "autotune/tuning_record.h"
#include "compiler/base/memory_reserve.h"

namespace tilewright {
namespace {

using json = nlohmann::ordered_json;

constexpr const char *kFormat = "tilewright tuning";
/// Raised when a file's values mean something else than before, together with the file's name. Fields may be
/// added without that: who does not know them keeps them. Version 2 had the same fields, but for the spread.
constexpr int64_t kVersion = 3, kOldestVersion = 2;

constexpr int kMaxDepth = 8;
constexpr std::size_t kMaxText = 512, kMaxValues = 64, kMaxConfigurations = 4096, kMaxRecords = 10000;
constexpr int64_t kMaxInteger = int64_t(1) << 62;
constexpr double kMaxNumber = 1e9;

// ---- Writing -----------------------------------------------------------------------------------------

json encode(const NamedValues &values) {
  json object = json::object();
  for (const auto &[name, value] : values.all())
    std::visit([&object, key = name](const auto &v) { object[key] = v; }, value);
  return object;
}

/// Adds fields that this version does not know to those that it has written.
void addOthers(json &object, const std::string &otherFields) {
  const json others = json::parse(otherFields, nullptr, /*allow_exceptions=*/false);
  if (!others.is_object()) return;
  for (const auto &[name, value] : others.items())
    if (!object.contains(name)) object[name] = value;
}

/// What both kinds of measurements have.
template <typename Measured> void encodeTiming(json &object, const Measured &measured) {
  object["milliseconds"] = measured.milliseconds;
  if (measured.spread.most > 0) {
    object["least_milliseconds"] = measured.spread.least;
    object["most_milliseconds"] = measured.spread.most;
  }
  if (measured.spread.clockMegahertz > 0) object["clock_megahertz"] = measured.spread.clockMegahertz;
  object["repetitions"] = measured.repetitions;
}

json encode(const MeasuredConfiguration &measured) {
  json object;
  encodeTiming(object, measured);
  object["workspace_bytes"] = measured.workspaceBytes;
  object["configuration"] = encode(measured.configuration);
  addOthers(object, measured.otherFields);
  return object;
}

json encode(const MeasuredPart &measured) {
  json object;
  object["part"] = measured.part;
  encodeTiming(object, measured);
  object["configuration"] = encode(measured.configuration);
  addOthers(object, measured.otherFields);
  return object;
}

/// Bytes that are not UTF-8 are replaced, since JSON cannot hold them.
std::string line(const json &value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

/// A list, one item a line.
std::string lines(const json &list) {
  std::string text = "[";
  for (const json &item : list)
    text += (text.size() > 1 ? ",\n        " : "\n        ") + line(item);
  return text + (list.empty() ? "]" : "\n      ]");
}

template <typename Measured> json encode(const std::vector<Measured> &measurements) {
  json list = json::array();
  for (const Measured &measured : measurements)
    list.push_back(encode(measured));
  return list;
}

json encode(const TuningRecord &record) {
  json object;
  object["operation"] = record.key.operation;
  object["problem"] = encode(record.key.problem);
  object["device"] = record.key.device;
  object["device_name"] = record.deviceName;
  object["compiler"] = record.compiler;
  object["complete"] = record.complete;
  object["limit"] = record.limit;
  object["tried"] = record.tried;
  object["workspace_limit"] = record.workspaceLimit;
  object["heuristic"] = encode(record.heuristic);
  object["winners"] = encode(record.winners);
  object["measured"] = encode(record.measured);
  object["parts"] = encode(record.parts);
  addOthers(object, record.otherFields);
  return object;
}

/// A record, one field a line.
std::string recordText(const json &record) {
  std::string text;
  for (const auto &[name, value] : record.items())
    text += (text.empty() ? "    {\n      " : ",\n      ") + line(name) + ": " +
            (value.is_array() ? lines(value) : line(value));
  return text + "\n    }";
}

// ---- Reading -----------------------------------------------------------------------------------------

/// An object of the file, and where it stands, for messages.
struct Place {
  const json &object;
  std::string path;

  Status wrong(const std::string &name, const std::string &expected) const {
    return userError(path + (name.empty() ? "" : "." + name) + ": expected " + expected);
  }
};

StatusOr<const json *> member(const Place &place, const std::string &name) {
  const auto found = place.object.find(name);
  if (found == place.object.end()) return place.wrong(name, "a value, found none");
  return &*found;
}

bool isPlainText(const std::string &text) {
  for (const unsigned char c : text)
    if (c < 0x20 || c == 0x7f) return false;
  return text.size() <= kMaxText;
}

StatusOr<std::string> textAt(const Place &place, const std::string &name) {
  TW_ASSIGN_OR_RETURN(const json *value, member(place, name));
  if (!value->is_string() || !isPlainText(value->get_ref<const std::string &>()))
    return place.wrong(name, "a text of at most " + std::to_string(kMaxText) + " printable characters");
  return value->get<std::string>();
}

bool isInteger(const json &value, int64_t low, int64_t high) {
  if (value.is_number_unsigned()) return value.get<uint64_t>() <= uint64_t(high) && int64_t(value) >= low;
  return value.is_number_integer() && value.get<int64_t>() >= low && value.get<int64_t>() <= high;
}

StatusOr<int64_t> integerAt(const Place &place, const std::string &name) {
  TW_ASSIGN_OR_RETURN(const json *value, member(place, name));
  if (!isInteger(*value, 0, kMaxInteger))
    return place.wrong(name, "an integer from 0 to " + std::to_string(kMaxInteger));
  return value->get<int64_t>();
}

/// A number from 0 to 1e9; where there is no value, `otherwise`.
StatusOr<double> numberAt(const Place &place, const std::string &name, double otherwise) {
  const auto found = place.object.find(name);
  if (found == place.object.end()) return otherwise;
  if (!found->is_number() || !(found->get<double>() >= 0 && found->get<double>() <= kMaxNumber))
    return place.wrong(name, "a number from 0 to 1e9");
  return found->get<double>();
}

/// The fields that are none of `known`, as the text of an object; empty when there are none.
std::string othersIn(const json &object, std::initializer_list<const char *> known) {
  json others = json::object();
  for (const auto &[name, value] : object.items())
    if (std::find(known.begin(), known.end(), name) == known.end()) others[name] = value;
  return others.empty() ? "" : line(others);
}

StatusOr<NamedValues> namedValuesAt(const Place &place, const std::string &name) {
  TW_ASSIGN_OR_RETURN(const json *object, member(place, name));
  if (!object->is_object() || object->size() > kMaxValues)
    return place.wrong(name, "an object of at most " + std::to_string(kMaxValues) + " values");
  NamedValues values;
  for (const auto &[key, value] : object->items()) {
    const bool text = value.is_string() && isPlainText(value.get_ref<const std::string &>());
    if (!isPlainText(key) || !(text || isInteger(value, 0, kMaxInteger)))
      return place.wrong(name, "short texts and integers from 0 as values");
    if (text)
      values.set(key, value.get<std::string>());
    else
      values.set(key, value.get<int64_t>());
  }
  return values;
}

/// What both kinds of measurements have.
template <typename Measured> StatusOr<Measured> decodeTiming(const Place &place) {
  if (!place.object.is_object()) return place.wrong("", "an object");
  Measured measured;
  TW_RETURN_IF_ERROR(member(place, "milliseconds").status());
  TW_ASSIGN_OR_RETURN(measured.milliseconds, numberAt(place, "milliseconds", 0));
  Spread &spread = measured.spread;
  TW_ASSIGN_OR_RETURN(spread.least, numberAt(place, "least_milliseconds", 0));
  TW_ASSIGN_OR_RETURN(spread.most, numberAt(place, "most_milliseconds", 0));
  TW_ASSIGN_OR_RETURN(spread.clockMegahertz, numberAt(place, "clock_megahertz", 0));
  TW_ASSIGN_OR_RETURN(const int64_t repetitions, integerAt(place, "repetitions"));
  if (repetitions > 1000000) return place.wrong("repetitions", "at most 1000000");
  measured.repetitions = static_cast<int>(repetitions);
  TW_ASSIGN_OR_RETURN(measured.configuration, namedValuesAt(place, "configuration"));
  measured.otherFields =
      othersIn(place.object, {"milliseconds", "least_milliseconds", "most_milliseconds", "clock_megahertz",
                              "repetitions", "workspace_bytes", "configuration", "part"});
  return measured;
}

StatusOr<MeasuredConfiguration> decodeMeasured(const Place &place) {
  TW_ASSIGN_OR_RETURN(auto measured, decodeTiming<MeasuredConfiguration>(place));
  TW_ASSIGN_OR_RETURN(measured.workspaceBytes, integerAt(place, "workspace_bytes"));
  return measured;
}

StatusOr<MeasuredPart> decodePart(const Place &place) {
  TW_ASSIGN_OR_RETURN(auto measured, decodeTiming<MeasuredPart>(place));
  TW_ASSIGN_OR_RETURN(measured.part, textAt(place, "part"));
  return measured;
}

template <typename Measured>
StatusOr<std::vector<Measured>> listAt(const Place &place, const std::string &name,
                                       StatusOr<Measured> (*decode)(const Place &)) {
  TW_ASSIGN_OR_RETURN(const json *list, member(place, name));
  if (!list->is_array() || list->size() > kMaxConfigurations)
    return place.wrong(name, "a list of at most " + std::to_string(kMaxConfigurations) + " configurations");
  std::vector<Measured> all;
  for (const json &item : *list) {
    const std::string path = place.path + "." + name + "[" + std::to_string(all.size()) + "]";
    TW_ASSIGN_OR_RETURN(Measured measured, decode({item, path}));
    all.push_back(std::move(measured));
  }
  return all;
}

StatusOr<TuningRecord> decodeRecord(const Place &place) {
  if (!place.object.is_object()) return place.wrong("", "an object");
  TuningRecord record;
  TW_ASSIGN_OR_RETURN(record.key.operation, textAt(place, "operation"));
  TW_ASSIGN_OR_RETURN(record.key.problem, namedValuesAt(place, "problem"));
  TW_ASSIGN_OR_RETURN(record.key.device, textAt(place, "device"));
  TW_ASSIGN_OR_RETURN(record.deviceName, textAt(place, "device_name"));
  TW_ASSIGN_OR_RETURN(record.compiler, textAt(place, "compiler"));
  TW_ASSIGN_OR_RETURN(const json *complete, member(place, "complete"));
  if (!complete->is_boolean()) return place.wrong("complete", "true or false");
  record.complete = complete->get<bool>();
  TW_ASSIGN_OR_RETURN(record.limit, integerAt(place, "limit"));
  TW_ASSIGN_OR_RETURN(record.tried, integerAt(place, "tried"));
  TW_ASSIGN_OR_RETURN(record.workspaceLimit, integerAt(place, "workspace_limit"));
  TW_ASSIGN_OR_RETURN(const json *heuristic, member(place, "heuristic"));
  TW_ASSIGN_OR_RETURN(record.heuristic, decodeMeasured({*heuristic, place.path + ".heuristic"}));
  TW_ASSIGN_OR_RETURN(record.winners, listAt(place, "winners", decodeMeasured));
  TW_ASSIGN_OR_RETURN(record.measured, listAt(place, "measured", decodeMeasured));
  TW_ASSIGN_OR_RETURN(record.parts, listAt(place, "parts", decodePart));
  record.otherFields = othersIn(place.object, {"operation", "problem", "device", "device_name", "compiler",
                                               "complete", "limit", "tried", "workspace_limit", "heuristic",
                                               "winners", "measured", "parts"});
  return record;
}

/// Not JSON, or nested too deeply, gives a value that is discarded.
json parse(const std::string &text) {
  bool tooDeep = false;
  const auto watch = [&](int depth, json::parse_event_t, json &) {
    tooDeep = tooDeep || depth > kMaxDepth;
    return !tooDeep;
  };
  json parsed = json::parse(text, watch, /*allow_exceptions=*/false);
  return tooDeep ? json(json::value_t::discarded) : parsed;
}

} // namespace

std::string encodeTuningFile(const TuningFile &file) {
  UsesReserve forJson;
  json head;
  head["format"] = kFormat;
  head["version"] = kVersion;
  addOthers(head, file.otherFields);
  std::string text = "{\n";
  for (const auto &[name, value] : head.items())
    text += "  " + line(name) + ": " + line(value) + ",\n";
  text += "  \"records\": [";
  for (std::size_t i = 0; i < file.records.size(); ++i)
    text += (i ? ",\n" : "\n") + recordText(encode(file.records[i]));
  return text + "\n  ]\n}\n";
}

StatusOr<TuningFile> decodeTuningFile(const std::string &text) {
  UsesReserve forJson;
  if (text.size() > kMaxTuningFileBytes)
    return userError("expected at most " + std::to_string(kMaxTuningFileBytes) + " bytes, found " +
                     std::to_string(text.size()));
  const json root = parse(text);
  if (!root.is_object())
    return userError("expected a JSON object nested at most " + std::to_string(kMaxDepth) + " deep");
  const Place top{root, "file"};
  TW_ASSIGN_OR_RETURN(const std::string format, textAt(top, "format"));
  if (format != kFormat)
    return top.wrong("format", std::string("\"") + kFormat + "\", found " + line(format));
  TW_ASSIGN_OR_RETURN(const int64_t version, integerAt(top, "version"));
  if (version < kOldestVersion || version > kVersion)
    return top.wrong("version", std::to_string(kOldestVersion) + " to " + std::to_string(kVersion) +
                                    ", found " + std::to_string(version));
  TW_ASSIGN_OR_RETURN(const json *list, member(top, "records"));
  if (!list->is_array() || list->size() > kMaxRecords)
    return top.wrong("records", "a list of at most " + std::to_string(kMaxRecords));
  TuningFile file;
  file.otherFields = othersIn(root, {"format", "version", "records"});
  for (std::size_t i = 0; i < list->size(); ++i) {
    StatusOr<TuningRecord> record = decodeRecord({(*list)[i], "records[" + std::to_string(i) + "]"});
    if (record.ok())
      file.records.push_back(*std::move(record));
    else
      file.problems.push_back(record.status().message());
  }
  return file;
}

} // namespace tilewright
